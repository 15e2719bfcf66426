#!/usr/bin/python
"""Make a repository an APT source of a Debian host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_source
short_description: Make a repository an APT source of a Debian host
version_added: 0.1.0
description:
  - Writes the key and the deb822 source of a repository of packages, and takes away every other source of the same
    repository, because APT refuses to work when two of them name different keys.
  - Beyond M(ansible.builtin.deb822_repository) it needs no library on the target, predicts in check mode on a pristine
    host, and goes on with the key that is installed when the address of the key can't be reached.
  - It reads no package lists; M(agentbox.fleet.packages) does when something has to be installed.
extends_documentation_fragment:
  - agentbox.fleet.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description: Names the files, C(/etc/apt/sources.list.d/<name>.sources) and C(/etc/apt/keyrings/<name>.asc).
    type: str
    required: true
  state:
    description: Whether the source is wanted. V(absent) removes both files.
    type: str
    choices: [present, absent]
    default: present
  uri:
    description: Address of the repository, http or https, without a login. Required with O(state=present).
    type: str
  suite:
    description: Suite, such as C(bookworm). Required with O(state=present).
    type: str
  components:
    description: Components of the suite.
    type: list
    elements: str
    default: [main]
  machine:
    description:
      - The machine as C(ansible_facts['architecture']) calls it, such as C(x86_64), from which dpkg's name for it
        follows. Required with O(state=present).
      - A machine that is not known is an error.
    type: str
  key:
    description:
      - "The armoured OpenPGP key that signs the repository: its text, its https address, or the absolute path of a file
        on the target. Required with O(state=present)."
      - An address is asked every time, so that a new key arrives. When it does not answer and a key is installed, that
        is a warning.
    type: str
  proxy:
    description: Proxy on the way to the key, with the keys C(http_proxy), C(https_proxy), C(all_proxy) and C(no_proxy).
    type: dict
    default: {}
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Get the engine from Docker's own packages
  agentbox.fleet.apt_source:
    name: agentbox-docker
    uri: https://packages.example/linux/debian
    suite: "{{ ansible_facts['distribution_release'] }}"
    components: [stable]
    machine: "{{ ansible_facts['architecture'] }}"
    key: https://packages.example/linux/debian/gpg
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be done, in order.
  returned: success
  type: list
  elements: str
  sample: [write /etc/apt/keyrings/agentbox-docker.asc, remove /etc/apt/sources.list.d/docker.list]
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import _apt_source, _proxy
from ansible_collections.agentbox.fleet.plugins.module_utils._apt_source import Change, Places
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "uri": {"type": "str"},
    "suite": {"type": "str"},
    "components": {"type": "list", "elements": "str", "default": ["main"]},
    "machine": {"type": "str"},
    "key": {"type": "str", "no_log": False},
    "proxy": {"type": "dict", "default": {}, "no_log": True},
}
REQUIRED_IF = [("state", "present", ["uri", "suite", "machine", "key"])]


def planned(module: AnsibleModule) -> list[Change]:
    params, places = module.params, Places()
    installed = _apt_source.read_key(params["name"], places)
    existing = places.existing()
    if params["state"] == "absent":
        return _apt_source.plan_absence(params["name"], existing, installed, places)
    wanted = _apt_source.source(params["name"], params["uri"], params["suite"], params["components"], params["machine"])
    os.environ.update(_proxy.environment(params["proxy"] or {}))
    key, warning = _apt_source.key_text(params["key"], installed, _apt_source.fetch)
    if warning:
        module.warn(warning)
    return _apt_source.plan(wanted, key, existing, installed, places)


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True, required_if=REQUIRED_IF)
    try:
        changes = planned(module)
        if not module.check_mode:
            _apt_source.apply(changes)
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(changes),
        actions=[change.action for change in changes],
        diff=[
            {
                "before_header": str(change.path),
                "after_header": str(change.path),
                "before": _apt_source.shown(change.before),
                "after": _apt_source.shown(change.after),
            }
            for change in changes
        ],
    )


if __name__ == "__main__":
    main()
