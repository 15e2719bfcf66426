#!/usr/bin/python
"""Check whether boxes and their host are healthy, and optionally wait until they are."""

from __future__ import annotations

DOCUMENTATION = r"""
module: health
short_description: Check whether boxes and their host are healthy
version_added: 0.1.0
description:
  - Looks at facts, not at settings. It reads the limits in force from the host's cgroup files and the privileges of
    each box's first process from the host's process table, calls the published pages, and lets every running box
    report about itself and send a synthetic event through its hooks.
  - Every check has a verdict. C(ok) and C(warn) mean healthy, C(fail) is certain, C(unknown) means that it can't be
    decided, because something it depends on does not answer. The overall verdict is the worst one in the order C(fail),
    C(unknown), C(warn), C(ok).
  - An engine that is absent or stopped is a C(fail), as its boxes certainly don't run. With an engine that denies this
    user or does not answer in time nobody can say how the boxes are, so that is C(unknown).
  - Credentials are reported as present or none, never as valid, because only their vendor could tell.
extends_documentation_fragment:
  - agentbox.fleet.engine
  - agentbox.fleet.common.instance
  - agentbox.fleet.common.progress
  - agentbox.fleet.common.state_root
  - agentbox.fleet.attributes
attributes:
  check_mode:
    support: full
    details: Runs the same checks. What an earlier step of the same run would make is C(unknown) instead of C(fail).
  diff_mode:
    support: N/A
    details: This module changes nothing.
  idempotent:
    support: full
    details: This module changes nothing. Each run leaves one synthetic event in every running box's list of events.
options:
  boxes:
    description:
      - Declarations to compare with, of the shape that M(agentbox.fleet.box) takes. A box that is stopped or absent as
        declared is healthy.
      - Of secrets only the names belong here.
      - Without it every box of the instance that the engine has is looked at, and compared with what it was created
        with.
    type: list
    elements: raw
  only:
    description:
      - Names of the boxes to look at, each compared with what it was created with. Whether that is what is declared
        now is told by M(agentbox.fleet.box).
    type: list
    elements: str
  manifests:
    description: Manifests of the agents by name, of the shape of the collection's C(agents/*.yml).
    type: dict
    default: {}
  image:
    description: The instance's image. By default the tag C(latest) of the instance's name.
    type: str
  image_context:
    description: Digest the image should have been built from, as M(agentbox.fleet.image) returns it.
    type: str
  configuration:
    description:
      - Values of the caller's configuration to show among the checks. Maps a key to a dictionary of C(value) and
        C(source). User and password in an address are left out.
    type: dict
    default: {}
  wait:
    description:
      - How many seconds to wait at most until no box is still starting, counted from the first look.
      - Only what time can cure is waited for. A taken port or an agent that has exited is reported at once.
    type: int
    default: 0
  fail_on:
    description:
      - V(fail) makes the task fail when a check does. V(never) leaves the judgement to the caller.
      - An overall verdict C(unknown) is a warning with either value.
    type: str
    choices: [fail, never]
    default: fail
seealso:
  - module: agentbox.fleet.box
  - module: agentbox.fleet.box_info
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Wait until the declared boxes are healthy
  agentbox.fleet.health:
    boxes: "{{ agentbox_boxes }}"
    manifests: "{{ agentbox_manifests }}"
    wait: 120

- name: Look at everything an instance has and decide later
  agentbox.fleet.health:
    instance: review
    fail_on: never
  register: result

- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ result.checks | rejectattr('verdict', 'equalto', 'ok') }}"
"""

RETURN = r"""
verdict:
  description: The worst verdict of all checks.
  returned: when the checks could be made
  type: str
  sample: warn
counts:
  description: How many checks came to each verdict.
  returned: when the checks could be made
  type: dict
  sample: {"ok": 24, "warn": 1, "unknown": 0, "fail": 0}
checks:
  description: Every check, those of the host first, then box by box, from causes to consequences.
  returned: when the checks could be made
  type: list
  elements: dict
  contains:
    id:
      description:
        - What was checked. Of the host C(engine), C(cgroup), C(image), C(image-agents), C(image-age), C(image-base),
          C(disk), C(ca), C(proxy), C(user-namespaces) and C(configuration).
        - Of a box C(state), C(mounts), C(port), C(hook-settings), C(image-current), C(hardening), C(limits),
          C(pressure), C(ca), C(proxy), C(probe), C(supervisor), C(tmux), C(lead), C(observer), C(hook-event),
          C(credentials), C(versions) and C(writable).
        - One id can appear several times for one subject, C(credentials) for example once for each agent.
      type: str
      sample: limits
    subject:
      description: Name of the box, or C(host).
      type: str
      sample: default
    verdict:
      description: C(ok), C(warn), C(fail) or C(unknown).
      type: str
      sample: ok
    seen:
      description: What was found, on one line of printable characters.
      type: str
      sample: "in force: memory 4 GiB, memory and swap 4 GiB, pids 512, cpus 4"
    todo:
      description: What to do next; empty when there is nothing to do.
      type: str
      sample: ""
"""

import os
from collections.abc import Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils._engine import ENGINE_OPTIONS
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError
from ansible_collections.agentbox.fleet.plugins.module_utils._health import Check, counts, overall
from ansible_collections.agentbox.fleet.plugins.module_utils._health_gather import Request
from ansible_collections.agentbox.fleet.plugins.module_utils._health_host import displayable
from ansible_collections.agentbox.fleet.plugins.module_utils._health_run import (
    Examination,
    examine,
    wait_until_settled,
)
from ansible_collections.agentbox.fleet.plugins.module_utils._naming import (
    DEFAULT_INSTANCE,
    default_state_root,
    image_tag,
    state_dir,
)
from ansible_collections.agentbox.fleet.plugins.module_utils._progress import file_reporter
from ansible_collections.agentbox.fleet.plugins.module_utils._spec import BoxSpec, parse_boxes

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "instance": {"type": "str", "default": DEFAULT_INSTANCE},
    "boxes": {"type": "list", "elements": "raw"},
    "only": {"type": "list", "elements": "str"},
    "manifests": {"type": "dict", "default": {}},
    "image": {"type": "str"},
    "image_context": {"type": "str"},
    "configuration": {"type": "dict", "default": {}},
    "wait": {"type": "int", "default": 0},
    "fail_on": {"type": "str", "choices": ["fail", "never"], "default": "fail"},
    "state_root": {"type": "path"},
    "progress": {"type": "path"},
    **ENGINE_OPTIONS,
}


def declared(params: dict[str, Any]) -> list[BoxSpec] | None:
    """The declarations, None when there are none to compare with.

    What a secret's value is does not matter here, so every declared one counts as given.
    """
    raw = params["boxes"]
    if raw is None:
        return None
    names = {
        box["name"]: box["secrets"]
        for box in raw
        if isinstance(box, dict) and isinstance(box.get("secrets"), list) and "name" in box
    }
    return parse_boxes(raw, instance=params["instance"], manifests=params["manifests"], secrets=names)


def examination(params: dict[str, Any], predicting: bool) -> Examination:
    environ = dict(os.environ)
    root = params["state_root"] or default_state_root(os.geteuid(), environ)
    return Examination(
        request=Request(
            instance=params["instance"],
            state_dir=state_dir(root, params["instance"]),
            image=params["image"] or image_tag(params["instance"]),
            specs=declared(params),
            manifests=params["manifests"],
            environ=environ,
            only=params["only"],
        ),
        docker_host=params["docker_host"],
        configuration=params["configuration"],
        image_context=params["image_context"],
        predicting=predicting,
    )


def failures(checks: Sequence[Check]) -> str:
    """One text that names every failed check, what was seen and what to do."""
    failed = [check for check in checks if check.verdict == "fail"]
    texts = [
        f"{check.subject}: {check.id}: {check.seen}" + (f" ({check.todo})" if check.todo else "") for check in failed
    ]
    return f"{len(failed)} of {len(checks)} checks failed: {'; '.join(texts)}"


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC, mutually_exclusive=[("boxes", "only")], supports_check_mode=True
    )
    params = module.params
    # Ansible echoes the options at high verbosity.
    params["configuration"] = displayable(params["configuration"])
    predicting = module.check_mode or params["engine_absent"] == "predict"
    try:
        what = examination(params, predicting)
        findings = wait_until_settled(
            lambda known: examine(what, known), params["wait"], file_reporter(params["progress"])
        )
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    checks = findings.checks
    verdict = overall(checks)
    result = {
        "changed": False,
        "verdict": verdict,
        "counts": counts(checks),
        "checks": [check.as_result() for check in checks],
    }
    if verdict == "unknown":
        module.warn("The health of the host or of a box can't be decided, see the checks with the verdict unknown")
    if verdict == "fail" and params["fail_on"] == "fail":
        module.fail_json(msg=failures(checks), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
