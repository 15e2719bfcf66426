"""Documentation of the options in ``ENGINE_OPTIONS`` of ``plugins/module_utils/_engine.py``."""

from __future__ import annotations


class ModuleDocFragment:
    """How a module (C(agentbox.fleet.engine)) or a plugin (C(agentbox.fleet.engine.plugin)) reaches the engine."""

    DOCUMENTATION = r"""
options:
  docker_host:
    description:
      - Address of the engine, C(unix://) followed by the absolute path of its socket.
      - Without it E(DOCKER_HOST) of the module's environment counts, without that C(unix:///var/run/docker.sock).
      - An address of another machine (C(tcp://), C(ssh://)) is refused, because boxes mount directories of the
        machine the engine runs on.
    type: str
  engine_absent:
    description:
      - What to do when no engine is installed, which means neither a socket nor a daemon program.
      - V(fail) stops with an error that says so.
      - V(predict) goes on as if an engine without containers, images and networks stood there. It is meant for check
        mode on a host where an earlier step of the same run would install the engine.
      - Where only absence is asked for, nothing has to be done without an engine, and neither value makes it an error.
      - An engine that is stopped, denied to this user or hanging is an error with either value.
    type: str
    choices: [fail, predict]
    default: fail
attributes:
  action_group:
    description: Is a member of the action group, so that C(module_defaults) can set the options of the engine once for
      all modules.
    support: full
    membership:
      - agentbox.fleet.agentbox
requirements:
  - Python 3.11 or newer on the target
  - Python's C(docker) library 5.0.3 or newer on the target
  - an engine that speaks API 1.41 or newer (Docker 20.10, or Podman's compatible service)
"""

    # For plugins, which run on the controller and predict nothing.
    PLUGIN = r"""
options:
  docker_host:
    description:
      - Address of the engine, C(unix://) followed by the absolute path of its socket; by default
        C(unix:///var/run/docker.sock).
      - An address of another machine (C(tcp://), C(ssh://)) is refused, because boxes mount directories of the
        machine the engine runs on.
    type: str
    env:
      - name: DOCKER_HOST
    ini:
      - section: agentbox
        key: docker_host
    vars:
      - name: agentbox_docker_host
requirements:
  - an engine that speaks API 1.41 or newer (Docker 20.10, or Podman's compatible service)
"""
