"""Health of the service with which a host converges itself: what its last run left, and what systemd says of it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ._errors import AgentboxError
from ._gitops import SERVICE, TIMER, UNIT, Places
from ._health import HOST, Check, Verdict, plain
from ._programs import plain_environment
from ._state import read_json

CHECK = "gitops"
_LOG = f"Run `journalctl --unit {UNIT}`"
_ASK_TIMEOUT = 10.0
_GOOD = ("ok", "drift")
_ENDS = (*_GOOD, "failed", "refused")
_TIMER_PROPERTIES = ("ActiveState", "NextElapseUSecRealtime")
_SERVICE_PROPERTIES = ("ActiveState", "Result")
_UNITS = (("s", 60.0), ("min", 60.0), ("h", 24.0), ("d", float("inf")))


@dataclass(frozen=True)
class GitopsFacts:
    """What the service left. ``status`` None: no run yet, or not readable. The others are systemd's properties."""

    status: Mapping[str, Any] | None
    timer: Mapping[str, str]
    service: Mapping[str, str]


def gather_gitops() -> GitopsFacts | None:
    """Facts of the service, None on a host that does not have it."""
    places = Places()
    if not (places.units / TIMER).exists():
        return None
    try:
        status = read_json(str(places.status))
    except AgentboxError:
        status = None
    return GitopsFacts(status, _properties(TIMER, _TIMER_PROPERTIES), _properties(SERVICE, _SERVICE_PROPERTIES))


def gitops_checks(facts: GitopsFacts | None, now: float) -> list[Check]:
    """The check of a host that has the service; ``now`` in seconds since the epoch."""
    if facts is None:
        return []
    verdict, seen, todo = _judge(facts, now)
    return [Check(CHECK, HOST, verdict, seen, todo)]


def _judge(facts: GitopsFacts, now: float) -> tuple[Verdict, str, str]:
    running = facts.service.get("ActiveState") == "activating"
    if problem := _timer_problem(facts.timer, running):
        return problem
    status = facts.status or {}
    outcome = str(status.get("outcome"))
    result = plain(facts.service.get("Result") or "success")
    died = result != "success" and not running
    if outcome in _ENDS and not (died and outcome in _GOOD):
        return _of_outcome(status, outcome, now)
    if running:
        return "ok", f"a run goes on, started {_ago(status.get('started'), now)}", ""
    if not status and not died:
        return "warn", "no run yet", f"Run `systemctl start {SERVICE}`, or wait for its time"
    return "fail", f"the last run did not come to its end ({result})", _LOG


def _timer_problem(timer: Mapping[str, str], running: bool) -> tuple[Verdict, str, str] | None:
    """What is wrong with the timer; it has no next time while what it started is ``running``."""
    if not timer:
        return "unknown", "systemd does not answer", _LOG
    if timer.get("ActiveState") != "active":
        return "fail", "the timer is not active, nothing starts runs", f"Run `systemctl enable --now {TIMER}`"
    if not running and not timer.get("NextElapseUSecRealtime"):
        return "warn", "the timer has no next time", "Set another gitops_schedule"
    return None


def _of_outcome(status: Mapping[str, Any], outcome: str, now: float) -> tuple[Verdict, str, str]:
    commit = plain(str(status.get("commit") or "no commit")[:12])
    seen = f"{plain(outcome)} {_ago(status.get('finished'), now)}, {plain(status.get('mode'))}, {commit}"
    report = f"Read {Places().reports}/check.md"
    if outcome == "ok":
        return "ok", seen, ""
    if outcome == "drift":
        counts = status.get("counts") or {}
        return "warn", f"{seen}: {counts.get('changed', 0)} to change, {counts.get('drift', 0)} that stay", report
    return (
        "fail",
        f"{seen}: {plain(status.get('reason'))}",
        f"{_LOG}; the old state stays until a later commit succeeds",
    )


def _ago(moment: object, now: float) -> str:
    """Time since ``moment`` (ISO 8601) for people."""
    try:
        passed = max(0.0, now - datetime.fromisoformat(str(moment)).timestamp())
    except ValueError:
        return "at an unknown time"
    unit, passed = _in_unit(passed)
    return f"{passed:.0f} {unit} ago"


def _in_unit(seconds: float) -> tuple[str, float]:
    value = seconds
    for unit, step in _UNITS:
        if value < step:
            return unit, value
        value /= step
    return _UNITS[-1][0], value


def _properties(unit: str, names: tuple[str, ...]) -> dict[str, str]:
    """Properties of a unit; empty where systemd does not answer."""
    command = ("systemctl", "show", f"--property={','.join(names)}", unit)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_ASK_TIMEOUT, env=plain_environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return dict(line.split("=", 1) for line in lines if "=" in line)
