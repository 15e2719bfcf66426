"""What engines can't enforce, by their answers to ``GET /info``: Podman's recorded, rootless Docker's as documented."""

from __future__ import annotations

from typing import Any

import pytest

from agentbox._shared._advisory import advisory_checks, unenforced_limits
from agentbox._shared._health_facts import EngineFacts

ALL = {"memory", "memory_swap", "pids", "cpus"}
ROOTFUL: dict[str, Any] = {
    "CgroupDriver": "cgroupfs",
    "CgroupVersion": "1",
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "BridgeNfIptables": True,
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"],
}
# Docker 20.10 and newer without root: on cgroup v1; on v2 without systemd; on v2 with systemd's default delegation.
ROOTLESS_V1 = {**ROOTFUL, "CgroupDriver": "none", "SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]}
ROOTLESS_V2 = {**ROOTLESS_V1, "CgroupVersion": "2"}
DELEGATED = {**ROOTLESS_V2, "CgroupDriver": "systemd", "CpuCfsQuota": False}
# Recorded from Podman 4.3.1 on cgroup v1; without root it claims the same of its limits, and has a key of its own.
PODMAN_ROOT = {**ROOTFUL, "Rootless": False, "SecurityOptions": ["name=seccomp,profile=default"]}
PODMAN_V1 = {**PODMAN_ROOT, "Rootless": True}


@pytest.mark.parametrize(
    ("info", "limits"),
    [
        (ROOTFUL, set()),
        (ROOTLESS_V1, ALL),
        (ROOTLESS_V2, ALL),
        (DELEGATED, {"cpus"}),
        (PODMAN_V1, ALL),
        (PODMAN_ROOT, set()),
        ({**ROOTFUL, "SwapLimit": False}, {"memory_swap"}),
    ],
)
def test_limits(info: dict[str, Any], limits: set[str]) -> None:
    assert unenforced_limits(info) == limits


@pytest.mark.parametrize(
    ("info", "podman", "promises"),
    [
        (ROOTFUL, False, []),
        (DELEGATED, False, ["the owner of files"]),
        ({**DELEGATED, "BridgeNfIptables": False}, False, ["isolation between boxes", "the owner of files"]),
        (PODMAN_V1, True, ["isolation between boxes", "the owner of files"]),
        (PODMAN_ROOT, True, ["isolation between boxes"]),
    ],
)
def test_promises(info: dict[str, Any], podman: bool, promises: list[str]) -> None:
    checks = list(advisory_checks(EngineFacts("unix:///x.sock", "1.41", "4.3.1", podman, info)))
    told = [check.seen.removeprefix("advisory, not enforced: ").partition(";")[0] for check in checks]
    assert told == promises
    assert {check.verdict for check in checks} <= {"warn"}
    assert all(check.todo for check in checks)
