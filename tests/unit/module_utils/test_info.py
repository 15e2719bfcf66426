"""What is told of a box, from an engine's answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared._info import boxes, describe, with_lead
from agentbox._shared._naming import BoxPaths
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
    assert boxes(None, "abx", state_root="/state") == []


def lead(place: Path, content: str, **labels: Any) -> str | None:
    """The lead of box ``web`` for which the state directory ``place`` holds ``content``."""
    path = Path(BoxPaths(str(place), "web").mount, "box.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    found: str | None = with_lead({"name": "web", "state_dir": str(place), **labels})["lead"]
    return found


def test_the_lead_stands_in_the_state_directory(tmp_path: Path) -> None:
    assert lead(tmp_path, '{"lead": "claude"}') == "claude"
    assert lead(tmp_path, '{"lead": null}') is None


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"lead": 1}', '{"lead": "{{ 1 }}"}', '{"lead": "a b"}'])
def test_what_is_no_name_is_no_lead(tmp_path: Path, content: str) -> None:
    assert lead(tmp_path, content) is None


@pytest.mark.parametrize("labels", [{"name": "../web"}, {"name": None}, {"state_dir": "relative"}, {"state_dir": None}])
def test_labels_lead_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: dict[str, Any]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relative").symlink_to(tmp_path)
    assert lead(tmp_path, '{"lead": "claude"}', **labels) is None
    (tmp_path / "pipe" / "boxes" / "web" / "mount").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe" / "boxes" / "web" / "mount" / "box.json")
    assert with_lead({"name": "web", "state_dir": str(tmp_path / "pipe")})["lead"] is None
