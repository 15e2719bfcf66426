"""Boxes of this machine as hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: boxes
short_description: Boxes of this machine as hosts
version_added: 0.1.0
description:
  - Makes a host of every box that the engine of this machine has, so that playbooks and ad hoc commands can work inside
    the boxes, through the connection P(agentbox.fleet.box#connection). A host has the name of its container.
  - Every host is in the groups C(instance_<name>) and C(state_<state>), and, if its box has a lead, in C(agent_<lead>).
    Characters that group names can't have become underscores.
  - Every host has the variables C(agentbox_box), with everything that M(agentbox.fleet.box_info) tells of its box,
    C(agentbox_instance) and C(agentbox_docker_host), and those that Ansible needs to work in it.
  - Everything that the engine tells is data. A label with template braces is that text and is never evaluated.
  - Containers that Agentbox did not make are left out, whatever labels they carry, unless a box is declared adopted
    that stands for one. Such hosts are in the group C(adopted) too, and their Python is looked for as on any host.
extends_documentation_fragment:
  - agentbox.fleet.engine.plugin
  - ansible.builtin.constructed
options:
  plugin:
    description: Name of this plugin, by which a file is known to be meant for it.
    type: str
    required: true
    choices: [agentbox.fleet.boxes]
  instances:
    description: Names of the instances whose boxes become hosts; without it all.
    type: list
    elements: str
    default: []
  states:
    description: States, as the engine calls them, of the boxes that become hosts; without it all.
    type: list
    elements: str
    choices: [created, running, paused, restarting, removing, exited, dead]
    default: []
  state_root:
    description:
      - Directory of the state of all instances, in which stands what is adopted. By default that of who runs Ansible;
        what root adopted is always known.
    type: path
requirements:
  - Python's C(docker) library on the controller
notes:
  - The name of the file has to end with C(boxes.yml), C(boxes.yaml), C(agentbox.yml) or C(agentbox.yaml).
  - Keep the file apart from the inventory of your machines, because C(site.yml) is for machines and not for boxes.
seealso:
  - plugin: agentbox.fleet.box
    plugin_type: connection
  - module: agentbox.fleet.box_info
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
# The running boxes of one instance, in boxes.yml. For what it finds: ansible-inventory -i boxes.yml --graph
plugin: agentbox.fleet.boxes
instances: [agentbox]
states: [running]

# All boxes, of a rootless engine, with groups of their own.
---
plugin: agentbox.fleet.boxes
docker_host: unix:///run/user/1000/docker.sock
groups:
  unwatched: agentbox_box.yolo
keyed_groups:
  - prefix: health
    key: agentbox_box.health
compose:
  project: agentbox_box.workspace | basename
"""

import os
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible_collections.agentbox.fleet.plugins.module_utils import _engine, _info, _naming
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError

FILES = ("boxes.yml", "boxes.yaml", "agentbox.yml", "agentbox.yaml")
CONNECTION = "agentbox.fleet.box"
# Of the image's own environment, which a box has whatever it is based on.
INTERPRETER = "/opt/agentbox/bin/python"
# Memory of the box, so that its HOME, which lasts, gets no remains.
REMOTE_TMP = "/tmp/.ansible/tmp"  # noqa: S108 - a path in the box, which has one user


def is_ours(box: Mapping[str, Any]) -> bool:
    """Whether ``box`` is adopted, or Agentbox made the container with its labels: then its name follows from them."""
    if box["adopted"]:
        return True
    instance, name = str(box["instance"]), str(box["name"])
    named = _naming.is_name(instance) and _naming.is_name(name)
    return named and box["container"] == _naming.container_name(instance, name)


def groups_of(box: Mapping[str, Any]) -> list[str]:
    """Names of the groups of a box, still with characters that group names can't have."""
    groups = [f"instance_{box['instance']}", f"state_{box['state']}"]
    more = {"adopted": box["adopted"], f"agent_{box['lead']}": box["lead"]}
    return [*groups, *(group for group, is_in in more.items() if is_in)]


def variables_of(box: Mapping[str, Any], docker_host: str) -> dict[str, Any]:
    """Variables of the host that stands for a box on the engine at ``docker_host``."""
    made_here = {} if box["adopted"] else {"ansible_python_interpreter": INTERPRETER}
    return {
        "ansible_connection": CONNECTION,
        "ansible_host": box["container"],
        **made_here,
        "ansible_remote_tmp": REMOTE_TMP,
        "agentbox_docker_host": docker_host,
        "agentbox_instance": box["instance"],
        "agentbox_box": dict(box),
    }


class InventoryModule(BaseInventoryPlugin, Constructable):  # type: ignore[misc]
    """See ``DOCUMENTATION``."""

    NAME = "agentbox.fleet.boxes"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(FILES)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._refuse_unknown(self._read_config_data(path))
        try:
            engine = _engine.connect(self.get_option("docker_host"))
            try:
                boxes = _info.boxes(engine, state_root=self._state_root())
            finally:
                engine.close()
        except AgentboxError as error:
            raise AnsibleParserError(str(error)) from error
        for box in boxes:
            if is_ours(box) and self._is_wanted(box):
                self._add(box, variables_of(box, engine.identity.host))

    def _refuse_unknown(self, config: Mapping[str, Any]) -> None:
        """A misspelt key would silently widen what becomes a host."""
        known = self.get_options()
        unknown = sorted(str(key) for key in config if key not in known)
        if unknown:
            raise AnsibleParserError(f"unknown key {', '.join(unknown)}; known are {', '.join(sorted(known))}")

    def _state_root(self) -> str:
        return self.get_option("state_root") or _naming.default_state_root(os.geteuid(), dict(os.environ))

    def _is_wanted(self, box: Mapping[str, Any]) -> bool:
        wanted = {"instance": self.get_option("instances"), "state": self.get_option("states")}
        return all(box[key] in chosen for key, chosen in wanted.items() if chosen)

    def _add(self, box: Mapping[str, Any], variables: dict[str, Any]) -> None:
        host = self.inventory.add_host(box["container"])
        for group in groups_of(box):
            self.inventory.add_host(host, group=self.inventory.add_group(self._sanitize_group_name(group)))
        for name, value in variables.items():
            self.inventory.set_variable(host, name, value)
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, host, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict=strict)
