"""The verdict about the service with which a host converges itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentbox._shared._health_gitops import GitopsFacts, gitops_checks

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC).timestamp()
TIMER = {"ActiveState": "active", "NextElapseUSecRealtime": "Mon 2026-11-30 13:00:00 UTC"}
IDLE = {"ActiveState": "inactive", "Result": "success"}
FAILED = {"ActiveState": "failed", "Result": "exit-code"}
KILLED = {"ActiveState": "failed", "Result": "signal"}
RUNNING = {"ActiveState": "activating", "Result": "success"}


def status(outcome: str, **changed: Any) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "reason": "",
        "mode": "converge",
        "commit": "0123456789abcdef",
        "started": "2026-11-30T11:50:00Z",
        "finished": "2026-11-30T11:58:00Z",
        "counts": {"changed": 2, "drift": 1},
        **changed,
    }


def test_a_host_without_the_service_has_no_check() -> None:
    assert gitops_checks(None, NOW) == []


@pytest.mark.parametrize(
    ("facts", "verdict", "seen"),
    [
        (GitopsFacts(None, {}, {}), "unknown", "systemd does not answer"),
        (GitopsFacts(None, {"ActiveState": "inactive"}, IDLE), "fail", "the timer is not active"),
        (GitopsFacts(None, {**TIMER, "NextElapseUSecRealtime": ""}, IDLE), "warn", "no next time"),
        (GitopsFacts(None, TIMER, IDLE), "warn", "no run yet"),
        (GitopsFacts(None, TIMER, FAILED), "fail", "did not come to its end (exit-code)"),
        (GitopsFacts(status("ok"), TIMER, IDLE), "ok", "ok 2 min ago, converge, 0123456789ab"),
        (GitopsFacts(status("drift"), TIMER, IDLE), "warn", "2 to change, 1 that stay"),
        (GitopsFacts(status("failed", reason="check: x"), TIMER, FAILED), "fail", "failed 2 min ago, converge"),
        (GitopsFacts(status("refused", reason="not signed"), TIMER, FAILED), "fail", "not signed"),
        (
            GitopsFacts(status("running"), {**TIMER, "NextElapseUSecRealtime": ""}, RUNNING),
            "ok",
            "a run goes on, started 10 min ago",
        ),
        (GitopsFacts(status("running"), TIMER, KILLED), "fail", "did not come to its end (signal)"),
        (GitopsFacts(status("running"), TIMER, IDLE), "fail", "did not come to its end"),
        # A full disk: the run failed and could not even say so.
        (GitopsFacts(status("ok"), TIMER, FAILED), "fail", "did not come to its end (exit-code)"),
        (GitopsFacts({"outcome": "\x1b[31mnonsense"}, TIMER, IDLE), "fail", "did not come to its end"),
    ],
)
def test_verdicts(facts: GitopsFacts, verdict: str, seen: str) -> None:
    [check] = gitops_checks(facts, NOW)
    assert (check.id, check.subject, check.verdict) == ("gitops", "host", verdict)
    assert seen in check.seen
    assert bool(check.todo) == (verdict != "ok")


@pytest.mark.parametrize(
    ("finished", "ago"),
    [
        ("2026-11-30T11:59:18Z", "42 s ago"),
        ("2026-11-30T09:00:00Z", "3 h ago"),
        ("2026-11-20T12:00:00Z", "10 d ago"),
        ("2026-12-30T12:00:00Z", "0 s ago"),
        ("yesterday", "at an unknown time"),
        (None, "at an unknown time"),
    ],
)
def test_how_long_ago(finished: str | None, ago: str) -> None:
    [check] = gitops_checks(GitopsFacts(status("ok", finished=finished), TIMER, IDLE), NOW)
    assert f"ok {ago}," in check.seen
