#!/usr/bin/python
"""Install or remove packages of a Debian host, with progress."""

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
short_description: Install or remove packages of a Debian host, with progress
version_added: 0.1.0
description:
  - Installs packages of the distribution without recommended ones, or removes them.
  - Beyond M(ansible.builtin.apt) it predicts in check mode on a host that lacks Python's APT library, installs no
    library for itself, and appends what APT is doing to a progress file.
  - The package lists are read anew only when something has to be installed.
  - It never prompts; changed configuration files of packages are kept.
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
  names:
    description: Names of packages.
    type: list
    elements: str
    required: true
  state:
    description: Whether they are wanted.
    type: str
    choices: [present, absent]
    default: present
  purge:
    description: With O(state=absent) also remove configuration, and data where the package's maintainer removes it.
    type: bool
    default: false
  lock_timeout:
    description: Seconds to wait while another package manager works.
    type: int
    default: 300
  proxy:
    description:
      - Proxy that APT downloads through, with the keys C(http_proxy), C(https_proxy), C(all_proxy) and C(no_proxy).
      - Empty for the proxy variables of the host's environment. What APT's own configuration says counts more.
    type: dict
    default: {}
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Install tmux
  agentbox.fleet.packages:
    names: [tmux]

- name: Remove it with its configuration
  agentbox.fleet.packages:
    names: [tmux]
    state: absent
    purge: true
"""

RETURN = r"""
packages:
  description: What was installed or removed, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [tmux]
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import _packages, _proxy
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError
from ansible_collections.agentbox.fleet.plugins.module_utils._progress import file_reporter

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "names": {"type": "list", "elements": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "purge": {"type": "bool", "default": False},
    "lock_timeout": {"type": "int", "default": 300},
    "proxy": {"type": "dict", "default": {}, "no_log": True},
    "progress": {"type": "path"},
}


def converge(module: AnsibleModule) -> list[str]:
    """Install or remove what has to be; returns the names of those packages."""
    options = module.params
    os.environ.update(_proxy.environment(options["proxy"] or {}))
    known = _packages.states(options["names"])
    report = file_reporter(options["progress"])
    if options["state"] == "present":
        names = _packages.missing(options["names"], known)
        if names and not module.check_mode:
            _packages.install(names, options["lock_timeout"], report)
    else:
        names = _packages.present(options["names"], known, options["purge"])
        if names and not module.check_mode:
            _packages.remove(names, options["purge"], options["lock_timeout"], report)
    return names


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        names = converge(module)
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    before, after = ([], names) if module.params["state"] == "present" else (names, [])
    module.exit_json(
        changed=bool(names),
        packages=names,
        diff={"before": {"packages": before}, "after": {"packages": after}},
    )


if __name__ == "__main__":
    main()
