#!/usr/bin/python
"""Tell what container engine a host has."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_info
short_description: Tell what container engine a host has
version_added: 0.1.0
description:
  - Tells apart an engine that answers, is stopped, denies this user, does not answer in time, or is not there.
  - Says which of the distribution's packages it comes from and whether Python's C(docker) library is there.
  - It needs neither the engine nor the library.
extends_documentation_fragment:
  - agentbox.fleet.engine
  - agentbox.fleet.attributes
  - agentbox.fleet.attributes.info
options:
  docker_host:
    description:
      - Address of the engine, C(unix://) followed by the absolute path of its socket.
      - Without it E(DOCKER_HOST) of the module's environment counts, without that C(unix:///var/run/docker.sock).
    type: str
  engine_absent:
    description: Has no effect here, because an absent engine is one of the answers.
    type: str
    choices: [fail, predict]
    default: fail
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Look for an engine
  agentbox.fleet.engine_info:
  register: result

- name: Show its version
  ansible.builtin.debug:
    var: result.engine.version
"""

RETURN = r"""
engine:
  description: What is known about the engine.
  returned: always
  type: dict
  contains:
    state:
      description: C(running), C(stopped), C(absent), C(denied), C(timeout) or C(unreachable).
      type: str
      sample: running
    message:
      description: Why it does not answer and what to do about it; empty when it runs.
      type: str
    version:
      description: Version of the running engine.
      type: str
      sample: 20.10.24+dfsg1
    api:
      description: API version that Agentbox speaks with it.
      type: str
      sample: "1.41"
    podman:
      description: Whether it is Podman that answers.
      type: bool
    rootless:
      description: >-
        Whether the running engine runs without root. Then, and with Podman, limits are enforced only as far as that
        user's cgroups allow.
      type: bool
    program:
      description: Path of the installed daemon.
      type: path
      sample: /usr/sbin/dockerd
    package:
      description: The package that the daemon comes from.
      type: str
      sample: docker.io
    provider:
      description: >-
        C(none), C(distribution) for the distribution's package, C(upstream) for Docker's own package from the source
        that the docker role made, or C(other).
      type: str
      sample: distribution
    system:
      description: Whether the address is that of the system's engine, which the docker role can install and start.
      type: bool
    library:
      description: Whether this Python finds its C(docker) library.
      type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import _daemon
from ansible_collections.agentbox.fleet.plugins.module_utils._engine import ENGINE_OPTIONS
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError

# As a member of the action group it takes the group's options, which a user may set once for all modules.
ARGUMENT_SPEC = ENGINE_OPTIONS


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        known = _daemon.facts(module.params["docker_host"])
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, engine=_daemon.as_dict(known))


if __name__ == "__main__":
    main()
