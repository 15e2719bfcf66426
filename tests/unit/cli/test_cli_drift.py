"""What ``agentbox drift`` compares with, and how it says what it found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared import _adopt, _naming
from agentbox._shared._adopt import Adoption
from agentbox._shared._errors import StateError
from agentbox._shared._spec import parse_boxes
from agentbox.cli import drift
from agentbox.cli.seen import SeenBox


def recorded(state_dir: Path, name: str) -> None:
    declared = {"name": name, "workspace": "/srv/code", "lead": "none", "agents": [], "memory": "1g"}
    [spec] = parse_boxes([declared], instance="abx", manifests={})
    path = Path(_naming.BoxPaths(str(state_dir), name).record)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"spec": spec.canonical()}), encoding="utf-8")


def seen(state_dir: Path, name: str, **state: Any) -> SeenBox:
    status = str(state.get("Status", "running"))
    return SeenBox(name, f"abx-{name}", status, "", "/srv/code", str(state_dir), None, {"State": state})


def test_every_box_that_was_made_or_adopted_is_declared_again(tmp_path: Path) -> None:
    state_dir = tmp_path / "abx"
    for name in ("crashed", "gone", "stopped"):
        recorded(state_dir, name)
    _adopt.write(Adoption("abx", "old", "my-old-box", str(state_dir)))
    boxes = [
        seen(state_dir, "crashed", Status="exited", ExitCode=1),
        seen(state_dir, "stopped", Status="exited", ExitCode=0),
        seen(tmp_path / "other", "foreign"),
    ]
    found = drift.declarations(str(state_dir), "abx", boxes)
    assert [(box["name"], box["state"]) for box in found] == [
        ("crashed", "started"),
        ("gone", "started"),
        ("stopped", "stopped"),
        ("old", "adopted"),
    ]
    assert found[0]["memory"] == 1 << 30
    assert found[3]["container"] == "my-old-box"


def test_a_box_without_a_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"boxes/web/record.json does not say what box web should be"):
        drift.declarations(str(tmp_path), "abx", [seen(tmp_path, "web")])


def test_who_asks_does_not_seem_to_have_changed_proxy_and_identity(tmp_path: Path) -> None:
    mounts = [{"Target": "/etc/gitconfig", "Source": "/home/dev/.gitconfig"}]
    box = seen(tmp_path, "web")
    made = {
        "Config": {"Env": ["A=b", "HTTPS_PROXY=http://proxy.example", "https_proxy=http://proxy.example"]},
        "HostConfig": {"Mounts": mounts},
    }
    found = drift.surroundings([replace(box, inspect=made)])
    assert found == {
        "agentbox_proxy": {
            "http_proxy": "",
            "https_proxy": "http://proxy.example",
            "all_proxy": "",
            "no_proxy": "",
        },
        "agentbox_identity_home": "/home/dev",
        "box_git_identity": True,
        "box_gh_login": False,
    }
    assert drift.surroundings([]) == {"box_git_identity": False, "box_gh_login": False}


def test_differences_actions_and_errors_are_told_box_by_box() -> None:
    box = {
        "name": "web",
        "actions": [{"action": "start", "detail": "abx-web"}],
        "drift": [{"path": "memory", "declared": "4g", "live": "2g\x1b[31m"}],
        "error": "no image",
    }
    report = {
        "outcome": "drift",
        "counts": {"hosts": 1, "changed": 1, "failed": 0, "drift": 1},
        "hosts": {"localhost": {"boxes": [box]}},
    }
    lines = drift.as_text(report).splitlines()
    assert lines[0].startswith("web  differs  memory: declared 4g, live 2g")
    assert "\x1b" not in lines[0]
    assert lines[1:3] == ["web  would    start abx-web", "web  failed   no image"]
    assert lines[3] == "1 change, 1 difference that stays, 0 failures on 1 host"


@pytest.mark.parametrize(("outcome", "code"), [("ok", 0), ("drift", 4), ("failed", 1)])
def test_exit_codes(outcome: str, code: int) -> None:
    assert drift.exit_code({"outcome": outcome}) == code
