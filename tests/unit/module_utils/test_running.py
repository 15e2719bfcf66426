"""What is true of a running box, from recorded trees of its host: limits in force, whatever the engine says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared import _running
from agentbox._shared._box import Box
from agentbox._shared._health_cgroup import mounted
from agentbox._shared._plan import BoxPlan, Situation, plan_box
from tests.unit.module_utils.box_samples import IMAGE, SETTING, box, inspected
from tests.unit.module_utils.test_health_cgroup import (
    FILES_V1,
    FILES_V2,
    ID,
    MEMBERSHIPS_V1,
    MEMBERSHIPS_V2,
    MOUNTS_V1,
    MOUNTS_V2,
    PID,
    SCOPE,
    tree,
)

MIB = 1 << 20
V1 = (MEMBERSHIPS_V1, MOUNTS_V1, FILES_V1, {"memory": "512m", "pids": 100, "cpus": 1.5})
V2 = (MEMBERSHIPS_V2, MOUNTS_V2, FILES_V2, {"memory": "512m", "pids": 512, "cpus": 4})
MEMORY_V1 = f"sys/fs/cgroup/memory/docker/{ID}/memory"
HALF_A_GIB = {f"{MEMORY_V1}.limit_in_bytes": f"{512 * MIB}\n", f"{MEMORY_V1}.memsw.limit_in_bytes": f"{512 * MIB}\n"}


def running(declared: Box) -> dict[str, Any]:
    live = inspected(declared)
    return {**live, "Id": ID, "State": {**live["State"], "Pid": PID}}


def plan(root: Path, version: tuple[str, str, dict[str, str], dict[str, Any]], **changed: str) -> BoxPlan:
    """For a box of which engine and declaration say the same, on a host with ``changed`` files."""
    memberships, mounts, files, limits = version
    host = tree(root, memberships, mounts, {**files, **(HALF_A_GIB if files is FILES_V1 else {}), **changed})
    declared = box(**limits)
    live = running(declared)
    facts = _running.enforced(declared, live, mounted(host), host)
    assert facts is not None
    return plan_box(declared, Situation(live, IMAGE, ("PATH=/usr/bin",), enforced=facts))


@pytest.mark.parametrize("version", [V1, V2], ids=["v1", "v2"])
def test_limits_in_force_as_declared(tmp_path: Path, version: Any) -> None:
    assert plan(tmp_path, version).actions == ()


@pytest.mark.parametrize(
    ("version", "file", "content", "told"),
    [
        (V1, f"sys/fs/cgroup/pids/docker/{ID}/pids.max", "max", ("pids", "no limit in force")),
        (V1, f"sys/fs/cgroup/cpu/docker/{ID}/cpu.cfs_quota_us", "50000", ("cpus", "0.5 in force")),
        (V1, f"{MEMORY_V1}.memsw.limit_in_bytes", f"{600 * MIB}", ("hardening.memory_swap", "600m in force")),
        (V2, f"{SCOPE}/memory.max", "max", ("memory", "no limit in force")),
        (V2, f"{SCOPE}/memory.swap.max", f"{MIB}", ("hardening.memory_swap", "513m in force")),
        (V2, f"{SCOPE}/pids.max", "77", ("pids", "77 in force")),
        (V2, f"{SCOPE}/cpu.max", "max 100000", ("cpus", "no limit in force")),
    ],
)
def test_a_limit_that_was_changed_behind_the_engine(
    tmp_path: Path, version: Any, file: str, content: str, told: tuple[str, str]
) -> None:
    found = plan(tmp_path, version, **{file: content})
    assert [action.kind for action in found.actions] == ["update"]
    assert told in found.before.items()


def test_what_memory_is_held_counts_where_some_is_taken_away(tmp_path: Path) -> None:
    host = tree(tmp_path, MEMBERSHIPS_V2, MOUNTS_V2, {**FILES_V2, f"{SCOPE}/memory.max": f"{2048 * MIB}"})
    for memory, held in (("1g", 12288), ("2g", None)):
        one = box(memory=memory)
        facts = _running.enforced(one, running(one), mounted(host), host)
        assert facts is not None
        assert facts.memory_held == held


def test_what_the_engine_cannot_make_the_kernel_enforce_is_no_difference(tmp_path: Path) -> None:
    """Else every run would set it again."""
    weak = replace(SETTING, engine=replace(SETTING.engine, unenforced=frozenset({"pids"})))
    host = tree(tmp_path, MEMBERSHIPS_V2, MOUNTS_V2, {**FILES_V2, f"{SCOPE}/pids.max": "max"})
    declared = box(setting=weak, memory="512m")
    facts = _running.enforced(declared, running(declared), mounted(host), host)
    assert facts is not None
    assert (facts.limits.pids, facts.unlimited) == (None, frozenset())


@pytest.mark.parametrize("declared", [{"state": "stopped"}, {"runtime": "runsc"}])
def test_what_is_not_looked_at(tmp_path: Path, declared: dict[str, Any]) -> None:
    host = tree(tmp_path, MEMBERSHIPS_V2, MOUNTS_V2, FILES_V2)
    known = replace(SETTING, engine=replace(SETTING.engine, runtimes=("runc", "runsc")))
    one = box(setting=known, **declared)
    assert _running.enforced(one, running(one), mounted(host), host) is None


def test_another_process_of_the_number_is_not_looked_into(tmp_path: Path) -> None:
    """The engine may run behind another process namespace; that process has another user database."""
    declared = box()
    host = tree(tmp_path, MEMBERSHIPS_V2, MOUNTS_V2, {f"proc/{PID}/root/etc/passwd": "root:x:0:0::/root:/bin/sh\n"})
    assert list(_running.replaced(declared, running(declared), host)) == ["/etc/passwd"]
    (host / f"proc/{PID}/cgroup").write_text("0::/user.slice\n", encoding="ascii")
    assert _running.replaced(declared, running(declared), host) == {}
