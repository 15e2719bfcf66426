"""Every option of a declaration: another spelling is no change, another value and removal are.

The usual module misses removal and takes spellings for changes (29 paired runs, of which some are cases here).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from agentbox._shared import _live_fields
from agentbox._shared._box import Box, resolve
from agentbox._shared._options import OPTIONS
from agentbox._shared._payload import create_payload
from agentbox._shared._plan import BoxPlan, Situation, plan_box
from agentbox._shared._spec import parse_boxes
from tests.unit.module_utils.box_samples import (
    CONTEXT,
    GIB,
    IMAGE,
    MANIFESTS,
    SETTING,
    WORKSPACE,
    inspected,
    workspace,
)

ENGINE = replace(SETTING, engine=replace(SETTING.engine, runtimes=("runc", "runsc")))
ALONE = object()  # there is no other spelling


@dataclass(frozen=True)
class Case:
    """``value`` and ``same`` are one thing, ``other`` is another; ``tells`` is what a diff or drift says of a change.

    ``tells`` is None for what only rules a run. ``basis`` is declared besides, always.
    """

    value: Any
    same: Any
    other: Any
    tells: str | None
    basis: Mapping[str, Any] = field(default_factory=dict)


CASES = {
    "state": Case("stopped", ALONE, "started", "state"),
    # Unless it may be made anew, a box in another workspace is taken for another box.
    "workspace": Case("/srv/code/api", "//srv/./code/api/", "/srv/code/app", "mounts", {"recreate": "drift"}),
    "workspace_target": Case("mirror", ALONE, "/workspace", "workspace_target"),
    "lead": Case("plain", ALONE, "none", "lead", {"agents": ["claude", "plain"]}),
    "agents": Case(["claude", "plain"], ["plain", "claude"], ["plain"], "agents", {"lead": "none"}),
    "permission_mode": Case("plan", ALONE, "default", "permission_mode"),
    "yolo": Case(True, ALONE, False, "yolo"),
    "uid": Case(4321, "4321", 4322, "uid", {"workspace_access": "none"}),
    "workspace_access": Case("none", ALONE, "auto", "workspace_acl", {"uid": 4321}),
    "size": Case("small", ALONE, "large", "memory"),
    "memory": Case("6g", 6 * GIB, "5g", "memory"),
    "cpus": Case(2, "2.0", 1.5, "cpus"),
    "pids": Case(600, "600", 700, "pids"),
    "shm_size": Case("1g", "1024MiB", "2g", "shm_size"),
    "tmp_size": Case("2g", "2048m", "3g", "tmp_size"),
    "publish": Case(4400, "127.0.0.1:4400", 4401, "publish"),
    "network": Case("lan", ALONE, "none", "network"),
    "networks": Case(["lan", "wan"], ["wan", "lan"], ["lan"], "networks"),
    "ports": Case(["8080:80", "53:53/udp"], ["53:53/UDP", "127.0.0.1:8080:80/tcp"], ["8081:80"], "ports"),
    "healthcheck": Case({"interval": "1m30s"}, {"interval": 90}, "none", "healthcheck"),
    "env": Case({"A": "1", "B": "2"}, {"B": "2", "A": "1"}, {"A": "2", "B": "2"}, "env.A"),
    "timezone": Case("Asia/Tokyo", ALONE, "UTC", "env.TZ"),
    "locale": Case("de_DE.UTF-8", ALONE, "fr_FR.UTF-8", "env.LANG"),
    "secrets": Case(["A", "B"], ["B", "A"], ["A"], "secrets"),
    "mounts": Case(
        ["/a:/x:ro", "/b:/y"], [{"source": "/b/", "target": "/y/"}, "//a:/x:ro"], ["/a:/x", "/b:/y"], "mounts"
    ),
    "volumes": Case(["a:/x:ro", "b:/y"], ["b:/y/:rw", "a:/x/:ro"], ["a:/x:ro"], "mounts"),
    "gpus": Case(2, "2", "all", "gpus"),
    "runtime": Case("runsc", ALONE, "runc", "runtime"),
    "read_only": Case(True, ALONE, False, "read_only"),
    "seccomp": Case("strict", ALONE, "default", "seccomp"),
    "credentials": Case("none", ALONE, "auto", "credentials"),
    "sealed": Case(True, ALONE, False, "sealed"),
    "recreate": Case("drift", ALONE, "always", None),
    "image": Case("other", "other:latest", "other:2", "image"),
}
every_option = pytest.mark.parametrize("option", list(CASES))


def box(option: str, *given: Any) -> Box:
    """A box that declares what is ``given`` for ``option``, or does not declare it."""
    declared = {**CASES[option].basis, **({option: given[0]} if given else {})}
    raw = {"name": "web", "workspace": WORKSPACE, **declared}
    if option == "workspace" and not given:
        del raw["workspace"]
    secrets = {"web": raw.get("secrets") or []}
    spec = parse_boxes([raw], instance="abx", manifests=MANIFESTS, secrets=secrets)[0]
    return resolve(spec, ENGINE, workspace(path=spec.workspace or "/home/dev/agentbox-workspace"))


def differences(declared: Box, made: Box) -> set[str]:
    """What a run finds in which ``declared`` differs from a box made as ``made``; empty when it does nothing."""
    live = inspected(made, status="running" if made.spec.state == "started" else "exited")
    record = {"schema": 1, "context": CONTEXT, "spec": made.spec.canonical()}
    plan: BoxPlan = plan_box(declared, Situation(live, IMAGE, ("PATH=/usr/bin",), record=record))
    told = {*(drift.path for drift in plan.drift), *plan.before, *plan.after}
    assert bool(told) == bool(plan.actions or plan.drift)
    return told


def test_every_option_has_a_case() -> None:
    named = ("name", "container")  # what is declared, and not how it is
    assert list(CASES) == [option.name for option in OPTIONS if option.name not in named]


@every_option
def test_another_spelling_is_no_change(option: str) -> None:
    case = CASES[option]
    same = case.value if case.same is ALONE else case.same
    one, other = box(option, case.value), box(option, same)
    assert one.spec.canonical() == other.spec.canonical()
    assert create_payload(one, CONTEXT) == create_payload(other, CONTEXT)
    assert differences(other, one) <= _always(option)


@every_option
def test_another_value_is_a_change(option: str) -> None:
    case = CASES[option]
    told = differences(box(option, case.other), box(option, case.value))
    assert case.tells in told if case.tells else not told


@every_option
def test_removal_returns_to_the_default_and_is_a_change(option: str) -> None:
    case = CASES[option]
    told = differences(box(option), box(option, case.value))
    assert case.tells in told if case.tells else not told


@every_option
def test_the_default_may_be_declared(option: str) -> None:
    default = next(item.default for item in OPTIONS if item.name == option)
    written = box(option) if option == "workspace" else box(option, default)
    assert written.spec.canonical() == box(option).spec.canonical()
    assert differences(written, box(option)) <= _always(option)


def _always(option: str) -> set[str]:
    """What every run of the case finds: a workspace whose access list is never set."""
    return {"workspace_acl"} if option == "workspace_access" else set()


@pytest.mark.parametrize(
    ("key", "value", "default"),
    [
        ("PidsLimit", {"pids": 100}, 512),
        ("Memory", {"memory": "512m"}, 4 * GIB),
        ("MemorySwap", {"memory": "512m"}, 4 * GIB),
        ("NanoCpus", {"cpus": 1}, 4_000_000_000),
        ("SecurityOpt", {"seccomp": "strict"}, ["no-new-privileges"]),
        ("CapDrop", {"read_only": True}, ["ALL"]),
        ("Privileged", {"gpus": "all"}, False),
    ],
)
def test_what_is_removed_is_the_hardened_default(key: str, value: dict[str, Any], default: Any) -> None:
    option = next(iter(value))
    declared = box(option)
    assert create_payload(declared, CONTEXT)["HostConfig"][key] == default
    assert differences(declared, box(option, value[option]))


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("hardening.security_opt", ["no-new-privileges"], ["no-new-privileges:true"]),
        ("hardening.security_opt", ["no-new-privileges"], ["no-new-privileges=true"]),
        ("hardening.security_opt", ["label=user:x", "apparmor:y"], ["apparmor=y", "label:user:x"]),
        ("seccomp", ["seccomp:unconfined"], ["seccomp=unconfined"]),
        ("seccomp", ['seccomp={"a": {"b": 1, "c": 2}}'], ['seccomp:{"a":{"c":2,"b":1}}']),
    ],
)
def test_security_options_in_two_spellings_are_one(path: str, one: list[str], other: list[str]) -> None:
    [found] = [item for item in _live_fields.FIELDS if item.path == path]
    read = [found.read({"HostConfig": {"SecurityOpt": options}}) for options in (one, other)]
    assert read[0] == read[1] != found.read({"HostConfig": {"SecurityOpt": ["no-new-privileges=false"]}})


def test_tmpfs_options_have_no_order_and_targets_no_trailing_slash() -> None:
    [found] = [item for item in _live_fields.FIELDS if item.path == "tmp_size"]
    written = {"/tmp": "rw,noexec"}, {"/tmp/": "noexec,rw"}  # noqa: S108 - a path in the box
    one, other = (found.read({"HostConfig": {"Tmpfs": tmpfs}}) for tmpfs in written)
    assert one == other
    assert one != found.read({"HostConfig": {"Tmpfs": {"/tmp": "rw"}}})  # noqa: S108 - a path in the box
