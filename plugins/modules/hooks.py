#!/usr/bin/python
"""Have agents of a host's users report to an Observer."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hooks
short_description: Have agents of a host's users report to an Observer
version_added: 0.1.0
description:
  - Merges hook entries into the settings of coding agents in the HOME of users, heals them and removes them.
  - An entry is known as the instance's own by the header C(X-Agentbox-Owner) in it. Everything else in the settings
    keeps every byte. An entry whose header was taken off is somebody else's from then on.
  - A file that is not strict JSON, that is no plain file of its user, or that lies behind a symbolic link is not
    touched. The other users converge, and the task then fails naming it.
  - Root works with the rights of the user in question, below directories that it holds open, so a user can't have it
    read or write anything else.
  - The paths that were made, and whose settings hold entries, are remembered in the state directory, so that they can
    be removed again.
  - Only the settings in the default place are known. A user who moves them by a variable, for Claude Code
    E(CLAUDE_CONFIG_DIR), gets no entries there.
extends_documentation_fragment:
  - agentbox.fleet.common.state_root
  - agentbox.fleet.common.lock_timeout
  - agentbox.fleet.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: It shows the instance's own entries only, because other settings may hold secrets.
  idempotent:
    support: full
options:
  users:
    description:
      - The users, who must exist unless O(state=absent). Null and an empty string mean none; text is separated by
        commas.
      - Each is a name, or a mapping of C(name) and C(agents) for a user who has other agents than the rest.
      - This is the whole list; entries of the instance in settings of users who are not on it any more are removed.
    type: raw
    default: []
  agents:
    description:
      - Agents of users who name none. Those that take no hooks from settings of a user are left out, with a warning.
      - A list, or text separated by commas.
    type: raw
    default: [claude]
  manifests:
    description: Manifests of all known agents, name to manifest.
    type: dict
    default: {}
  url:
    description:
      - Address of the hook sink, without credentials; C(/hook/) and the agent's name are appended. Something has to
        listen there, else agents tell their users about hooks that fail.
    type: str
    default: http://127.0.0.1:4318
  instance:
    description: Whose the entries are; several instances can have theirs in the same settings.
    type: str
    default: agentbox
  state:
    description:
      - V(absent) removes exactly the instance's entries, and the files and directories that were made for them if
        nothing else is in them.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: agentbox.fleet.box
    description: Boxes have their hooks without this module.
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Have Claude Code of two users report to the Observer of this host
  agentbox.fleet.hooks:
    users: [ada, grace]
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"

- name: Take the entries away again
  agentbox.fleet.hooks:
    users: [ada, grace]
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"
    state: absent
"""

RETURN = r"""
hooks:
  description: One result per user and agent, in the order of O(users).
  returned: always
  type: list
  elements: dict
  contains:
    user:
      description: Name of the user.
      type: str
      sample: ada
    agent:
      description: Name of the agent.
      type: str
      sample: claude
    path:
      description: The settings file.
      type: path
      sample: /home/ada/.claude/settings.json
    changed:
      description: Whether something was done, or in check mode would be.
      type: bool
    failed:
      description: Whether the file could not be made what it has to be; it is untouched then.
      type: bool
    msg:
      description: Why, and what to do about it; empty when it did not fail.
      type: str
    actions:
      description: What was done, or in check mode would be, in order.
      type: list
      elements: dict
      sample: [{action: write_file, detail: /home/ada/.claude/settings.json}]
    added:
      description: Event types that got an entry.
      type: list
      elements: str
      sample: [PreToolUse, Stop]
    healed:
      description: Event types whose entry was put right.
      type: list
      elements: str
    removed:
      description: Event types that lost their entry.
      type: list
      elements: str
actions:
  description: All actions in order.
  returned: always
  type: list
  elements: dict
  contains:
    user:
      description: Name of the user.
      type: str
    agent:
      description: Name of the agent.
      type: str
    action:
      description: One of C(make_directory), C(write_file), C(remove_file), C(remove_directory).
      type: str
    detail:
      description: On what.
      type: path
  sample: [{user: ada, agent: claude, action: write_file, detail: /home/ada/.claude/settings.json}]
unsupported:
  description: Agents that take no hooks from settings of a user.
  returned: always
  type: list
  elements: str
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import _hooks_run, _naming
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "users": {"type": "raw", "default": []},
    "agents": {"type": "raw", "default": ["claude"]},
    "manifests": {"type": "dict", "default": {}},
    "url": {"type": "str", "default": "http://127.0.0.1:4318"},
    "instance": {"type": "str", "default": _naming.DEFAULT_INSTANCE},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "state_root": {"type": "path"},
    "lock_timeout": {"type": "int", "default": 120},
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        outcome = _hooks_run.converge(request(module))
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    for agent in outcome.unsupported:
        module.warn(f"agent {agent} takes no hooks from settings of a user")
    if outcome.failures:
        module.fail_json(msg="; ".join(outcome.failures), **outcome.as_dict())
    module.exit_json(**outcome.as_dict())


def request(module: AnsibleModule) -> _hooks_run.Request:
    params = module.params
    state_root = params["state_root"] or _naming.default_state_root(os.geteuid(), dict(os.environ))
    return _hooks_run.Request(
        users=params["users"],
        agents=params["agents"],
        manifests=params["manifests"],
        url=params["url"],
        instance=params["instance"],
        state_dir=_naming.state_dir(state_root, params["instance"]),
        present=params["state"] == "present",
        check=module.check_mode,
        lock_timeout=float(params["lock_timeout"]),
    )


if __name__ == "__main__":
    main()
