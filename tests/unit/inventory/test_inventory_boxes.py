"""Which files are meant, which containers are boxes, and what a box becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.agentbox.fleet.plugins.inventory.boxes import (
    InventoryModule,
    groups_of,
    is_ours,
    variables_of,
)

BOX: dict[str, Any] = {
    "name": "web",
    "instance": "abx",
    "container": "abx-web",
    "adopted": False,
    "state": "running",
    "lead": "claude",
    "labels": {"note": "{{ 1 + 1 }}"},
}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("boxes.yml", True),
        ("boxes.yaml", True),
        ("agentbox.yml", True),
        ("rootless.agentbox.yaml", True),
        ("hosts.yml", False),
        ("boxes.json", False),
        ("boxes.yml.bak", False),
    ],
)
def test_files_are_known_by_their_names(tmp_path: Path, name: str, meant: bool) -> None:
    (tmp_path / name).write_text("plugin: agentbox.fleet.boxes\n", encoding="utf-8")
    assert InventoryModule().verify_file(str(tmp_path / name)) is meant


def test_a_file_that_is_not_there_is_not_meant(tmp_path: Path) -> None:
    assert InventoryModule().verify_file(str(tmp_path / "boxes.yml")) is False


@pytest.mark.parametrize(
    "differing",
    [
        {"container": "other"},
        {"name": None},
        {"instance": None, "container": "None-web"},
        {"name": "{{ x }}", "container": "abx-{{ x }}"},
        {"name": "default"},
    ],
)
def test_what_only_looks_like_a_box_is_none(differing: dict[str, Any]) -> None:
    assert is_ours(BOX)
    assert is_ours({**BOX, "name": "default", "container": "abx"})
    assert not is_ours({**BOX, **differing})


ADOPTED = {**BOX, "name": "old", "container": "my-old-box", "adopted": True, "lead": None}


def test_an_adopted_box_is_one_and_has_a_group_and_an_interpreter_of_its_own() -> None:
    assert is_ours(ADOPTED)
    assert groups_of(ADOPTED) == ["instance_abx", "state_running", "adopted"]
    found = variables_of(ADOPTED, "unix:///x.sock")
    assert found["ansible_host"] == "my-old-box"
    assert "ansible_python_interpreter" not in found


def test_groups() -> None:
    assert groups_of(BOX) == ["instance_abx", "state_running", "agent_claude"]
    assert groups_of({**BOX, "lead": None}) == ["instance_abx", "state_running"]


def test_variables_hold_all_that_is_known_and_how_to_work_there() -> None:
    found = variables_of(BOX, "unix:///x.sock")
    assert found["agentbox_box"] == BOX
    assert found["ansible_connection"] == "agentbox.fleet.box"
    assert found["ansible_host"] == "abx-web"
    assert found["agentbox_docker_host"] == "unix:///x.sock", "the connection uses the engine the box was found on"
