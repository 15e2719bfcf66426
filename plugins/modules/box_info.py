#!/usr/bin/python
"""Tell what boxes an instance has."""

from __future__ import annotations

DOCUMENTATION = r"""
module: box_info
short_description: Tell what boxes an instance has
version_added: 0.1.0
description:
  - Lists the boxes of an instance as the engine knows them, whoever made them, and those that are adopted.
  - Whether they are healthy inside is for M(agentbox.fleet.health), whether they are what was declared for
    M(agentbox.fleet.box) in check mode.
extends_documentation_fragment:
  - agentbox.fleet.engine
  - agentbox.fleet.common.instance
  - agentbox.fleet.common.state_root
  - agentbox.fleet.attributes
  - agentbox.fleet.attributes.info
options:
  names:
    description: Names of the boxes to tell of; without it all.
    type: list
    elements: str
seealso:
  - module: agentbox.fleet.box
  - module: agentbox.fleet.health
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: List the boxes
  agentbox.fleet.box_info:
  register: result

- name: Show where their pages are
  ansible.builtin.debug:
    msg: "{{ result.boxes | selectattr('page') | map(attribute='page') }}"
"""

RETURN = r"""
boxes:
  description: The boxes, sorted by name. Everything in them comes from the engine and is data.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the box.
      type: str
      sample: web
    instance:
      description: Name of its instance.
      type: str
      sample: agentbox
    container:
      description: Name of its container.
      type: str
      sample: agentbox-web
    adopted:
      description: >-
        Whether its container is one that Agentbox did not make and never changes. C(context), C(workspace), C(lead),
        C(page) and C(attach) of such a box are null.
      type: bool
    id:
      description: ID of its container.
      type: str
    state:
      description: State of its container as the engine calls it.
      type: str
      sample: running
    health:
      description: C(healthy), C(unhealthy), C(starting), or C(none) for a box that does not run.
      type: str
      sample: healthy
    exit:
      description: Why it ended, with its exit code; null as long as it runs.
      type: str
      sample: out of memory (exit code 137)
    started:
      description: When it was started, in UTC; null when it does not run.
      type: str
      sample: "2026-01-31T08:15:00.123456789Z"
    image:
      description: Image that it was made from.
      type: str
      sample: agentbox:latest
    context:
      description: Digest of what that image was built from.
      type: str
    workspace:
      description: Its workspace on the host.
      type: path
      sample: /srv/code/web
    state_dir:
      description: State directory of who made or adopted it.
      type: path
      sample: /var/lib/agentbox/agentbox
    yolo:
      description: Whether its lead works without permission checks.
      type: bool
    lead:
      description: Agent that leads it; null when it has none, or its state directory can't be read.
      type: str
      sample: claude
    uid:
      description: User id of its processes.
      type: int
      sample: 1000
    page:
      description: URL of its page on the host; null when it is not published or does not run.
      type: str
      sample: http://127.0.0.1:4317
    attach:
      description: Command that attaches a terminal to it.
      type: str
      sample: docker exec -it agentbox-web bash /agentbox/attach.sh
    labels:
      description: Labels of its container.
      type: dict
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import _engine, _info, _naming
from ansible_collections.agentbox.fleet.plugins.module_utils._engine import ENGINE_OPTIONS
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "instance": {"type": "str", "default": _naming.DEFAULT_INSTANCE},
    "names": {"type": "list", "elements": "str"},
    "state_root": {"type": "path"},
    **ENGINE_OPTIONS,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        absent_expected = module.params["engine_absent"] == "predict"
        engine = _engine.connect_if_installed(module.params["docker_host"], may_be_absent=absent_expected)
        found = _info.boxes(
            engine, module.params["instance"], module.params["names"], state_root=state_root(module.params)
        )
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, boxes=found)


def state_root(params: dict[str, Any]) -> str:
    return params["state_root"] or _naming.default_state_root(os.geteuid(), dict(os.environ))


if __name__ == "__main__":
    main()
