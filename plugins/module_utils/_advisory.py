"""What an engine cannot enforce, however it was told: on rootless engines and Podman some promises are advisory. Pure.

Sources: Docker's "Rootless mode" (limits need cgroup v2 with delegation; the flags are ignored otherwise) and
moby#50635 (no isolation within a network without br_netfilter). Podman 4.3.1 was asked: it says that it ignores limits
of rootless containers on cgroup v1 and that it does not know the bridge option ``enable_icc``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._engine import is_rootless
from ._health import HOST, Check
from ._health_facts import EngineFacts

# Limit, as in ``_health_facts.Limits``, to what of ``GET /info`` says whether the engine can set it.
_ABILITIES = {"memory": "MemoryLimit", "memory_swap": "SwapLimit", "pids": "PidsLimit", "cpus": "CpuCfsQuota"}


def unenforced_limits(info: Mapping[str, Any]) -> frozenset[str]:
    """Names of the limits, as in ``_health_facts.Limits``, that the engine accepts and cannot enforce."""
    no_cgroups = info.get("CgroupDriver") == "none" or (is_rootless(info) and str(info.get("CgroupVersion")) == "1")
    return frozenset(limit for limit, ability in _ABILITIES.items() if no_cgroups or info.get(ability) is False)


def advisory_checks(engine: EngineFacts) -> Iterator[Check]:
    """One check for each promise, but for limits, that this engine cannot keep."""
    rootless = is_rootless(engine.info)
    if engine.podman:
        yield _advisory(
            "isolation between boxes",
            "Podman has no way to separate containers of one network",
            "Give boxes that must not reach each other `network: none` or a network each",
        )
    elif rootless and engine.info.get("BridgeNfIptables") is not True:
        yield _advisory(
            "isolation between boxes",
            "a rootless engine separates containers of one network only with the kernel module br_netfilter",
            "Run `modprobe br_netfilter` and keep it in /etc/modules-load.d",
        )
    if rootless:
        yield _advisory(
            "the owner of files",
            "a rootless engine maps the uids of boxes to subordinate ones of its own user",
            "Declare `uid` and give the subordinate uid that it becomes (see /etc/subuid) access to the workspace",
        )


def _advisory(promise: str, reason: str, todo: str) -> Check:
    return Check("advisory", HOST, "warn", f"advisory, not enforced: {promise}; {reason}", todo)
