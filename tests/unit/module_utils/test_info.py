"""What is told of a box, from an engine's answer."""

from __future__ import annotations

from typing import Any

import pytest

from agentbox._shared._info import boxes, describe
from agentbox._shared._swap import explain_exit
from tests.unit.module_utils.box_samples import CONTEXT, UID, WORKSPACE, box, inspected


def test_a_running_box() -> None:
    live = inspected(box(publish="[::1]:4400", yolo=True))
    live["State"] |= {"Health": {"Status": "healthy"}, "StartedAt": "2026-01-31T08:15:00Z"}
    found = describe(live)
    expected: dict[str, Any] = {
        "name": "web",
        "instance": "abx",
        "container": "abx-web",
        "state": "running",
        "health": "healthy",
        "exit": None,
        "started": "2026-01-31T08:15:00Z",
        "image": "abx:latest",
        "context": CONTEXT,
        "workspace": WORKSPACE,
        "state_dir": "/state/abx",
        "yolo": True,
        "uid": UID,
        "page": "http://[::1]:4400",
        "attach": "docker exec -it abx-web bash /agentbox/attach.sh",
    }
    assert {key: found[key] for key in expected} == expected


def test_a_box_that_ended_has_a_reason_and_no_page() -> None:
    live = inspected(box(publish=4400), status="exited")
    live["State"] |= {"ExitCode": 137, "OOMKilled": True}
    found = describe(live)
    assert (found["exit"], found["page"], found["health"], found["started"]) == (
        "out of memory (exit code 137)",
        None,
        "none",
        None,
    )


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"ExitCode": 137, "OOMKilled": True}, "out of memory (exit code 137)"),
        ({"ExitCode": 137, "OOMKilled": False}, "killed by signal 9 (exit code 137)"),
        ({"ExitCode": 143}, "killed by signal 15 (exit code 143)"),
        ({"ExitCode": 3}, "exit code 3"),
        ({"ExitCode": 127, "Error": "exec: not found"}, "exec: not found (exit code 127)"),
        ({"ExitCode": 0, "Running": True}, "it ended and was started again"),
    ],
)
def test_why_a_container_ended(state: dict[str, Any], reason: str) -> None:
    assert explain_exit({"State": state}) == reason


def test_no_engine_has_no_boxes() -> None:
    assert boxes(None, "abx") == []
