#!/usr/bin/python
"""Install the service that lets a host converge itself from a Git repository."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gitops
short_description: Install the service that lets a host converge itself from a Git repository
version_added: 0.1.0
description:
  - Installs a Python environment with the pinned packages, this collection, the settings and two systemd units, and
    enables the timer. The service itself is only started by the timer.
  - The environment is made with the host's own pip configuration. It is made anew only when a pinned package or the
    host's Python changes.
  - What is in use is never changed in place, so a run that is going on keeps its own.
  - Role P(agentbox.fleet.gitops#role) calls it with everything it needs.
extends_documentation_fragment:
  - agentbox.fleet.common.progress
  - agentbox.fleet.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: Whether the service is wanted.
    type: str
    choices: [present, absent]
    default: present
  repository:
    description:
      - Address of the repository. It must not hold a password or token, nor be one that anybody on the way can answer
        for (C(http://), C(git://)), unless O(verify_signatures) or the address is this host.
    type: str
  branch:
    description: Name of the branch that is followed.
    type: str
    default: main
  inventory:
    description: Path of the inventory in the repository.
    type: str
  playbook:
    description: Path of the playbook in the repository.
    type: str
    default: site.yml
  host:
    description: Name of this host in the inventory; a run is limited to it.
    type: str
  mode:
    description: Whether a run ends with the drift report (V(report)) or then converges (V(converge)).
    type: str
    choices: [converge, report]
    default: converge
  verify_signatures:
    description: Refuse a commit that none of O(allowed_signers) and O(signing_keys) signed.
    type: bool
    default: false
  allowed_signers:
    description: Lines of an allowed signers file, as ssh-keygen(1) describes it.
    type: list
    elements: str
    default: []
  signing_keys:
    description: OpenPGP public keys in ASCII armour.
    type: str
    default: ''
  allow_rewritten:
    description: Follow a branch that does not build on the commit that was accepted last.
    type: bool
    default: false
  known_hosts:
    description: Lines of a known hosts file, for SSH, beside the system's own.
    type: list
    elements: str
    default: []
  deploy_key_file:
    description: A private SSH key on the host that only root can read.
    type: path
  credentials_file:
    description: A file on the host that only root can read, as git-credential-store(1) describes it, for HTTPS.
    type: path
  vault_password_file:
    description: A file on the host that only root can read, with the password of the repository's vaults.
    type: path
  proxy:
    description: C(http_proxy), C(https_proxy), C(all_proxy) and C(no_proxy) for pip, Git and the playbook.
    type: dict
  ca_file:
    description: File on the host with the certificates to trust; by default those that the host trusts.
    type: path
  collection:
    description: The packed collection, from lookup P(agentbox.fleet.collection_archive#lookup).
    type: str
  units:
    description: Texts of the service and of the timer, by their file names.
    type: dict
    default: {}
  remove_data:
    description: With O(state=absent) also remove status, reports and the copy of the repository.
    type: bool
    default: false
  lock_timeout:
    description: With O(state=absent) seconds to wait for a run that is going on.
    type: int
    default: 300
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Remove the service and all that it kept
  agentbox.fleet.gitops:
    state: absent
    remove_data: true
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be done, in order.
  returned: always
  type: list
  elements: dict
  contains:
    action:
      description: >-
        One of C(make_directory), C(make_environment), C(unpack_collection), C(link), C(write_file), C(remove_path),
        C(reload), C(enable), C(start), C(disable).
      type: str
    detail:
      description: On what.
      type: str
  sample: [{action: write_file, detail: /etc/agentbox-gitops/config.json}]
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import _gitops, _gitops_install, _proxy, _trust
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError
from ansible_collections.agentbox.fleet.plugins.module_utils._health_facts import CA_VARIABLES
from ansible_collections.agentbox.fleet.plugins.module_utils._progress import file_reporter

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "repository": {"type": "str"},
    "branch": {"type": "str", "default": "main"},
    "inventory": {"type": "str"},
    "playbook": {"type": "str", "default": "site.yml"},
    "host": {"type": "str"},
    "mode": {"type": "str", "choices": list(_gitops.MODES), "default": "converge"},
    "verify_signatures": {"type": "bool", "default": False},
    "allowed_signers": {"type": "list", "elements": "str", "default": []},
    "signing_keys": {"type": "str", "default": "", "no_log": False},
    "allow_rewritten": {"type": "bool", "default": False},
    "known_hosts": {"type": "list", "elements": "str", "default": []},
    "deploy_key_file": {"type": "path", "no_log": False},
    "credentials_file": {"type": "path"},
    "vault_password_file": {"type": "path", "no_log": False},
    "proxy": {"type": "dict", "no_log": True},
    "ca_file": {"type": "path"},
    "collection": {"type": "str", "no_log": True},  # no secret, but nothing that a log should repeat
    "units": {"type": "dict", "default": {}},
    "remove_data": {"type": "bool", "default": False},
    "lock_timeout": {"type": "int", "default": 300},
    "progress": {"type": "path"},
}


def environment(proxy: dict[str, Any] | None, ca_file: str | None, environ: dict[str, str]) -> dict[str, str]:
    """Variables for everything that talks to the network: the proxy, and the certificates that are trusted."""
    variables = _proxy.environment(_proxy.of_host(environ) if proxy is None else proxy)
    _trust.read_bundle(ca_file, environ)  # a file that is none is told now
    bundle = _trust.bundle_path(ca_file, environ)
    return {**variables, **(dict.fromkeys(CA_VARIABLES, bundle[0]) if bundle else {})}


def wanted(params: dict[str, Any], places: _gitops.Places) -> _gitops_install.Wanted:
    """What the options ask for; ``DeclarationError`` names the one that is wrong."""
    settings = _gitops.from_options(params, environment(params["proxy"], params["ca_file"], dict(os.environ)))
    return _gitops_install.Wanted(
        settings=settings,
        archive=_gitops_install.unpacked(params["collection"]),
        keys={
            places.allowed_signers: _lines(params["allowed_signers"]),
            places.signing_keys: params["signing_keys"],
            places.known_hosts: _lines(params["known_hosts"]),
        },
        units=params["units"],
    )


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def converge(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Do what has to be done; the module's result. What is given as nothing counts as not given."""
    params = {name: ARGUMENT_SPEC[name].get("default") if value is None else value for name, value in params.items()}
    places, report = _gitops.Places(), file_reporter(params["progress"])
    want = None if params["state"] == "absent" else wanted(params, places)
    if want is None:
        planned = _gitops_install.plan_absence(places, params["remove_data"])
    else:
        require_systemd(params["units"])
        planned = _gitops_install.plan(want, places, report)
    before, after = _gitops_install.shown(want, places)
    if planned and not check:
        _gitops_install.apply(planned, places, report, None if want else params["lock_timeout"])
    return {
        "changed": bool(planned),
        "actions": [action.as_result() for action in planned],
        "diff": {"before": before, "after": after},
    }


def require_systemd(units: dict[str, str]) -> None:
    """Raise unless this host runs a systemd that accepts ``units``."""
    if not _gitops_install.SYSTEMD.is_dir():
        raise AgentboxError("this host does not run systemd, so nothing can start the service")
    _gitops_install.verify_units(units)


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        required_if=[("state", "present", ("repository", "inventory", "host", "collection", "units"))],
        supports_check_mode=True,
    )
    try:
        result = converge(module.params, module.check_mode)
    except (AgentboxError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
