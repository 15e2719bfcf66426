#!/usr/bin/python
"""Configure the Docker daemon of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_config
short_description: Configure the Docker daemon of a host
version_added: 0.1.0
description:
  - Puts the given keys into C(/etc/docker/daemon.json) and leaves all others, and their spelling, as they are. A key
    that is no longer given gets back what stood there before, unless somebody changed it since. What the module did is
    remembered in C(/etc/docker/agentbox.json).
  - Gives the daemon a proxy. The password stands in a file that only root can read.
  - Keeps packets being forwarded, without which containers have no network, where a file with kernel settings, such as
    one of a hardening role, switches that off. The key C(ip-forward) with the value V(false) leaves it alone.
  - A running daemon is reloaded where that is enough. Else it is restarted, but only when no container runs or all of
    them live on (C(live-restore)). Otherwise the keys come back in RV(restart_needed), with a warning, every time
    until it was restarted.
  - What the daemon refuses is taken back, and the engine runs as before. Daemons from version 23 on are asked before
    anything is written.
extends_documentation_fragment:
  - agentbox.fleet.engine
  - agentbox.fleet.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Users and passwords of a proxy are not shown.
  idempotent:
    support: full
options:
  docker_host:
    description:
      - Address of the engine. For any other engine than the system's Docker nothing is done; keys of its configuration
        are an error then, and a proxy is a warning.
    type: str
  engine_absent:
    description: Has no effect here, because a host is configured before it has an engine as well as later.
    type: str
    choices: [fail, predict]
    default: fail
  state:
    description: V(absent) takes back everything that the module ever did.
    type: str
    choices: [present, absent]
    default: present
  config:
    description:
      - Keys of C(daemon.json) with their values, which replace the whole value of each key.
      - C(hosts) and C(proxies) are refused.
    type: raw
    default: {}
  address_pools:
    description: Key C(default-address-pools), from which new networks get their addresses.
    type: raw
    default: []
    suboptions:
      base:
        description: The pool, as C(192.0.2.0/24).
        type: str
        required: true
      size:
        description: Length of the prefix of each network.
        type: int
        required: true
  log_driver:
    description: Key C(log-driver), which keeps the output of new containers.
    type: raw
    default: ""
  log_opts:
    description: Key C(log-opts), the options of the driver. Numbers, true and false become the texts that it wants.
    type: raw
    default: {}
  proxy:
    description:
      - Proxy that the daemon pulls and pushes through, with the keys C(http_proxy), C(https_proxy), C(all_proxy) and
        C(no_proxy). Loopback is always exempt.
      - Empty takes away the one that the module set. That of others stays.
    type: dict
    default: {}
  timeout:
    description: Seconds to wait for the daemon after a reload or restart.
    type: int
    default: 60
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Rotate the logs of containers, and keep clear of the company's networks
  agentbox.fleet.engine_config:
    log_driver: json-file
    log_opts:
      max-size: 10m
      max-file: 3
    address_pools:
      - base: 198.51.100.0/24
        size: 28

- name: Let containers live on while the daemon restarts
  agentbox.fleet.engine_config:
    config:
      live-restore: true
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be done, in order.
  returned: success
  type: list
  elements: str
  sample: [set live-restore, write /etc/docker/daemon.json, reload the engine]
restart_needed:
  description: Keys that count only after a restart of the engine, which would end its running containers.
  returned: success
  type: list
  elements: str
  sample: [log-driver]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import _engine_config, _engine_setup, _proxy
from ansible_collections.agentbox.fleet.plugins.module_utils._engine import ENGINE_OPTIONS
from ansible_collections.agentbox.fleet.plugins.module_utils._engine_setup import Request
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    **ENGINE_OPTIONS,
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "config": {"type": "raw", "default": {}},
    "address_pools": {"type": "raw", "default": []},
    "log_driver": {"type": "raw", "default": ""},
    "log_opts": {"type": "raw", "default": {}},
    "proxy": {"type": "dict", "default": {}, "no_log": True},
    "timeout": {"type": "int", "default": 60},
}


def request(params: dict[str, Any]) -> Request:
    if params["state"] == "absent":
        return Request(absent=True)
    keys = _engine_config.declared(*(params[name] for name in ("config", "address_pools", "log_driver", "log_opts")))
    return Request(keys, _proxy.environment(params["proxy"] or {}))


def converge(module: AnsibleModule) -> dict[str, Any]:
    params = module.params
    wanted = request(params)
    host = _engine_setup.gather(params["docker_host"])
    plan = _engine_setup.plan(wanted, host)
    if module.check_mode:
        _engine_setup.check(plan)
    else:
        _engine_setup.apply(plan, params["docker_host"], params["timeout"])
    if host.foreign and wanted.proxy:
        module.warn(f"{host.foreign}, so it gets its proxy where it was set up, and not from here")
    if plan.course.waiting:
        module.warn(_engine_setup.waiting_text(plan.course.waiting, host.live.containers))
    return {
        "changed": bool(plan.actions),
        "actions": list(plan.actions),
        "restart_needed": list(plan.course.waiting),
        "diff": {"before": plan.before, "after": plan.after},
    }


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        result = converge(module)
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
