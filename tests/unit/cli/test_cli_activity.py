from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentbox.cli.activity import Activity, Follower, Run


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"event": kind, "time": 1.0, **fields}


def test_a_follower_yields_only_whole_new_lines(tmp_path: Path) -> None:
    path = tmp_path / "events"
    follower = Follower(path)
    assert list(follower.lines()) == []
    path.write_bytes(b"one\ntw")
    assert list(follower.lines()) == ["one"]
    with path.open("ab") as stream:
        stream.write(b"o\nthree\n")
    assert list(follower.lines()) == ["two", "three"]
    assert list(follower.lines()) == []


def test_a_follower_survives_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b"\xff\n")
    assert list(Follower(path).lines()) == ["\N{REPLACEMENT CHARACTER}"]


def test_the_step_names_role_task_and_detail() -> None:
    activity = Activity()
    activity.see(event("play", name="Converge"))
    activity.see(event("task", name="Build the image", role="agentbox.fleet.image", action="agentbox.fleet.image"))
    assert activity.step == "image: Build the image"
    activity.see_detail("1780000000.0 stage claude: npm install")
    assert activity.step == "image: Build the image (stage claude: npm install)"
    activity.see(event("task", name="Next", role=None, action="x"))
    assert activity.step == "Next"


def test_failures_tell_host_task_reason_and_what_to_do() -> None:
    activity = Activity()
    activity.see(
        event("result", host="h", status="failed", ignored=False, name="T", role="r", action="a", msg="m", hint="do")
    )
    activity.see(event("result", host="h", status="unreachable", ignored=False, name="U", role=None, action="a"))
    activity.see(event("result", host="h", status="failed", ignored=True, name="V", role=None, action="a", msg="m"))
    told = [(item.task, item.role, item.host, item.message, item.hint) for item in activity.failures]
    assert told == [("T", "r", "h", "m", "do"), ("U", "", "h", "no reason was given", "")]


def test_results_of_our_modules_are_kept_by_action(tmp_path: Path) -> None:
    events = tmp_path / "events"
    lines = [event("result", status="ok", name="T", action="agentbox.fleet.box", result={"boxes": [1]}), "no object"]
    events.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{broken\n")
    details = tmp_path / "progress"
    details.write_text("1.0 working\n")
    activity = Run(events, details).update()
    assert activity.results == {"agentbox.fleet.box": {"boxes": [1]}}
    assert activity.detail == "working"
