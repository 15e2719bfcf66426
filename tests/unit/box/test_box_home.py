"""HOME made ready: what is missing is added, what is there stays."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from agentbox.box import home

from .boxes import BoxDirectory


def settings(directory: BoxDirectory) -> Path:
    return directory.home / ".recorder" / "settings.json"


def test_fresh_home_gets_settings_nobody_else_can_read(directory: BoxDirectory) -> None:
    assert home.prepare(directory.box(), directory.environ) == []
    assert json.loads(settings(directory).read_text()) == {
        "welcomed": True,
        "projects": {str(directory.workspace): {"trusted": True}},
    }
    assert settings(directory).stat().st_mode & 0o777 == 0o600
    assert settings(directory).parent.stat().st_mode & 0o777 == 0o700


def test_second_time_writes_nothing(directory: BoxDirectory) -> None:
    home.prepare(directory.box(), directory.environ)
    before = settings(directory).stat()
    git = (directory.home / ".config/git/config").read_text()
    assert home.prepare(directory.box(), directory.environ) == []
    assert settings(directory).stat().st_ino == before.st_ino
    assert (directory.home / ".config/git/config").read_text() == git


def test_own_settings_are_kept(directory: BoxDirectory) -> None:
    settings(directory).parent.mkdir()
    settings(directory).write_text('{"welcomed": false, "mine": [1, "ü"]}')
    home.prepare(directory.box(), directory.environ)
    result = json.loads(settings(directory).read_text())
    assert (result["welcomed"], result["mine"]) == (False, [1, "ü"])


@pytest.mark.parametrize("content", ["{", "[]", '"text"', "not json"])
def test_what_is_no_json_object_is_left_alone_with_a_reason(directory: BoxDirectory, content: str) -> None:
    settings(directory).parent.mkdir()
    settings(directory).write_text(content)
    (reason,) = home.prepare(directory.box(), directory.environ)
    assert settings(directory).read_text() == content
    assert str(settings(directory)) in reason


def test_empty_file_counts_as_missing(directory: BoxDirectory) -> None:
    settings(directory).parent.mkdir()
    settings(directory).touch()
    assert home.prepare(directory.box(), directory.environ) == []
    assert json.loads(settings(directory).read_text())["welcomed"] is True


def test_directory_in_the_files_place_is_left_alone_with_a_reason(directory: BoxDirectory) -> None:
    settings(directory).mkdir(parents=True)
    (reason,) = home.prepare(directory.box(), directory.environ)
    assert "directory" in reason
    assert settings(directory).is_dir()


def test_linked_settings_stay_linked(directory: BoxDirectory) -> None:
    elsewhere = directory.base / "dotfiles.json"
    elsewhere.write_text("{}")
    settings(directory).parent.mkdir()
    settings(directory).symlink_to(elsewhere)
    home.prepare(directory.box(), directory.environ)
    assert settings(directory).is_symlink()
    assert json.loads(elsewhere.read_text())["welcomed"] is True


def test_moved_configuration_leaves_the_default_place_alone(directory: BoxDirectory) -> None:
    moved = directory.base / "data"
    home.prepare(directory.box(), {**directory.environ, "RECORDER_DIR": str(moved)})
    assert (moved / "settings.json").exists()
    assert not (directory.home / ".recorder").exists()


def test_git_trusts_exactly_the_workspace(directory: BoxDirectory) -> None:
    home.prepare(directory.box(), directory.environ)
    trusted = subprocess.run(
        ["git", "config", "--global", "--get-all", "safe.directory"],
        env=directory.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert trusted.stdout.split() == [str(directory.workspace)]
