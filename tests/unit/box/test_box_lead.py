"""The lead's launcher, run for real: what the agent is given, and what it is not."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from agentbox.box import lead

from .boxes import BoxDirectory


def launch(directory: BoxDirectory) -> dict[str, Any]:
    """Start the lead once; its standard input is empty, so it ends at once."""
    directory.declare()
    done = directory.run("agentbox.box", "lead")
    assert done.returncode == 0, done.stderr
    return directory.launches()[-1]


def refused(directory: BoxDirectory) -> str:
    directory.declare()
    done = directory.run("agentbox.box", "lead")
    assert done.returncode == 78
    assert directory.launches() == []
    return done.stderr


def transcript(directory: BoxDirectory, session_id: str) -> Path:
    slug = "".join(c if c.isalnum() and c.isascii() else "-" for c in os.path.realpath(directory.workspace))
    path = directory.home / ".recorder" / "chats" / slug / f"{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_first_start_begins_a_conversation_in_the_workspace(directory: BoxDirectory) -> None:
    started = launch(directory)
    assert started["cwd"] == str(directory.workspace)
    assert started["argv"][:3] == ["--mode", "default", "--new"]
    assert str(uuid.UUID(started["argv"][3])) == started["argv"][3]
    assert lead.recorded_session(directory.box()) == started["argv"][3]
    assert started["environ"]["RECORDER_MODE"] == "on"


def test_conversation_that_was_never_used_keeps_its_id(directory: BoxDirectory) -> None:
    first = launch(directory)["argv"]
    assert launch(directory)["argv"] == first


def test_conversation_that_could_not_be_found_again_is_not_begun(directory: BoxDirectory) -> None:
    (directory.home / ".agentbox").write_text("no directory")
    assert f"{directory.home} takes no files" in refused(directory)


def test_known_conversation_goes_on_though_home_takes_no_files(directory: BoxDirectory) -> None:
    session_id = launch(directory)["argv"][3]
    transcript(directory, session_id).write_text('{"type": "user", "message": "hi"}\n')
    (directory.home / ".recorder" / "settings.json").unlink()
    (directory.home / ".recorder" / "settings.json").mkdir()
    assert launch(directory)["argv"] == ["--mode", "default", "--resume", session_id]


def test_conversation_with_a_turn_is_resumed(directory: BoxDirectory) -> None:
    session_id = launch(directory)["argv"][3]
    transcript(directory, session_id).write_text('{"type": "mode"}\n{"type": "user", "message": "hi"}\n')
    assert launch(directory)["argv"] == ["--mode", "default", "--resume", session_id]


def test_transcript_without_a_turn_is_not_resumed(directory: BoxDirectory) -> None:
    session_id = launch(directory)["argv"][3]
    transcript(directory, session_id).write_text('{"type": "mode"}\nbroken\n')
    argv = launch(directory)["argv"]
    assert argv[2] == "--new"
    assert argv[3] != session_id


def test_conversation_of_another_workspace_is_not_taken_over(directory: BoxDirectory) -> None:
    session_id = launch(directory)["argv"][3]
    transcript(directory, session_id).write_text('{"type": "user"}\n')
    other = directory.base / "other"
    other.mkdir()
    directory.declare(workspace=str(other))
    argv = launch(directory)["argv"]
    assert argv[2] == "--new"
    assert argv[3] != session_id


@pytest.mark.parametrize(
    ("stored", "value"),
    [(b"plain", "plain"), (b"line\n", "line"), (b"a\nb\n", "a\nb"), (b" $(x) '\" ", " $(x) '\" "), (b"", "")],
)
def test_secret_arrives_as_it_was_declared(directory: BoxDirectory, stored: bytes, value: str) -> None:
    directory.secret("RECORDER_KEY", stored)
    assert launch(directory)["environ"]["RECORDER_KEY"] == value


def test_secret_that_is_the_agents_key_is_approved_by_its_tail(directory: BoxDirectory) -> None:
    directory.secret("RECORDER_KEY", b"classified-1234")
    launch(directory)
    settings = (directory.home / ".recorder" / "settings.json").read_text()
    assert json.loads(settings)["customApiKeyResponses"]["approved"] == ["1234"]
    assert "classified" not in settings


def test_secret_that_is_missing_is_an_error_that_names_it(directory: BoxDirectory) -> None:
    directory.declare(secrets=["RECORDER_KEY"])
    assert "RECORDER_KEY can't be read" in refused(directory)


def test_secret_with_a_nul_byte_is_refused_without_its_value(directory: BoxDirectory) -> None:
    directory.secret("RECORDER_KEY", b"valuable\0rest")
    error = refused(directory)
    assert "RECORDER_KEY" in error
    assert "valuable" not in error


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be uid 0 to be refused as uid 0")
def test_yolo_is_refused_as_root(directory: BoxDirectory) -> None:
    directory.declare(yolo=True)
    assert "uid 0" in refused(directory)


def test_missing_workspace_is_an_error_that_names_it(directory: BoxDirectory) -> None:
    directory.declare(workspace=str(directory.base / "gone"))
    assert str(directory.base / "gone") in refused(directory)


def test_missing_program_is_an_error_that_names_it(directory: BoxDirectory) -> None:
    directory.declaration["manifests"]["recorder"]["launch"]["argv"] = ["no-such-agent"]
    assert "no-such-agent can't be started" in refused(directory)


def test_box_without_a_lead_gets_a_login_shell(directory: BoxDirectory) -> None:
    directory.declare(lead=None)
    (directory.home / ".bash_profile").write_text("echo profile was read\n")
    done = directory.run("agentbox.box", "lead")
    assert (done.returncode, done.stdout) == (0, "profile was read\n")


def test_broken_declaration_is_an_error_that_names_the_file(directory: BoxDirectory) -> None:
    (directory.mount / "box.json").write_text("{")
    done = directory.run("agentbox.box", "lead")
    assert done.returncode == 78
    assert str(directory.mount / "box.json") in done.stderr
