#!/usr/bin/python
"""Start or stop the container engine of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine
short_description: Start or stop the container engine of a host
version_added: 0.1.0
description:
  - Starts the system's Docker daemon and waits until it answers, or stops it.
  - On a host with systemd the unit is used. On any other the package's init script is tried; where that fails, the
    daemon is started directly. Pid files that a killed daemon left behind do not stop it, not even when another
    program got the number in the meantime.
  - It installs nothing and enables nothing; role P(agentbox.fleet.docker#role) does.
extends_documentation_fragment:
  - agentbox.fleet.engine
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
    description:
      - V(started) starts an engine that does not answer because it is stopped. One that answers is left alone,
        whoever made it.
      - V(stopped) stops the engine and with it all of its containers, and the socket unit that would start it again.
    type: str
    choices: [started, stopped]
    default: started
  remove_data:
    description:
      - With O(state=stopped) also remove all images, containers and volumes, which is what C(/var/lib/docker) holds.
        The same goes for C(/var/lib/containerd), unless containerd is the distribution's, which others use too.
      - Data that the daemon's configuration keeps elsewhere stays.
    type: bool
    default: false
  timeout:
    description: Seconds to wait for the engine to answer, or to be gone.
    type: int
    default: 60
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Start the engine and wait until it answers
  agentbox.fleet.engine:
    state: started
    timeout: 120

- name: Stop the engine
  agentbox.fleet.engine:
    state: stopped
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be done, in order.
  returned: always
  type: list
  elements: str
  sample: [stop, remove /var/lib/docker]
manager:
  description: What started the engine, C(systemd), C(init script) or C(directly).
  returned: when it was started
  type: str
  sample: systemd
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import _daemon
from ansible_collections.agentbox.fleet.plugins.module_utils._engine import ENGINE_OPTIONS
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError, EngineAbsentError

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    **ENGINE_OPTIONS,
    "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
    "remove_data": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 60},
}


def ensure_started(module: AnsibleModule) -> dict[str, Any]:
    docker_host = module.params["docker_host"]
    try:
        wanted = _daemon.needs_start(docker_host)
    except EngineAbsentError:
        if not (module.check_mode and module.params["engine_absent"] == "predict"):
            raise
        wanted = True
    if not wanted:
        return outcome([], "started", "started")
    done = outcome(["start"], "stopped", "started")
    if not module.check_mode:
        done["manager"] = _daemon.start(docker_host, module.params["timeout"])
    return done


def ensure_stopped(module: AnsibleModule) -> dict[str, Any]:
    stop = _daemon.stop_needed()
    if stop and not module.check_mode:
        _daemon.stop(module.params["timeout"])
    data = _daemon.data() if module.params["remove_data"] else []
    if not module.check_mode:
        _daemon.remove_data(data)
    actions = [*(["stop"] if stop else []), *(f"remove {directory}" for directory in data)]
    return outcome(actions, "started" if stop else "stopped", "stopped")


def outcome(actions: list[str], before: str, after: str) -> dict[str, Any]:
    return {
        "changed": bool(actions),
        "actions": actions,
        "diff": {"before": {"engine": before}, "after": {"engine": after}},
    }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    ensure = {"started": ensure_started, "stopped": ensure_stopped}[module.params["state"]]
    try:
        result = ensure(module)
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
