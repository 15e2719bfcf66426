"""Starts the lead in its pane and becomes it, so that the pane's process is the agent itself.

Secrets are read here and end up in this one process: not in the container's environment, nor tmux's.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from agentbox import agents

from .config import Box
from .files import read_json, write_json
from .home import onboard

SCHEMA = 1
_SHELL = ("bash", "-l")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class LaunchError(Exception):
    """The lead can't start; the message says why and stays visible in its pane."""


def main(box: Box) -> int:
    """Become the lead. Returns only when that is not possible."""
    try:
        launch(box, os.environ)
    except LaunchError as error:
        # tmux scrolls the first line away when it says below that the pane is dead.
        sys.stderr.write(f"\nagentbox: {error}\n")
        return os.EX_CONFIG


def launch(box: Box, environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the lead (a login shell when the box has none). Raises LaunchError."""
    try:
        os.chdir(box.workspace)
    except OSError as error:
        raise LaunchError(f"the workspace can't be entered: {error}") from error
    manifest = box.lead_manifest
    environment = lead_environment(box, environ)
    argv = list(_SHELL) if manifest is None else _agent_argv(box, manifest, environment)
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - no shell in between is the point
    except OSError as error:
        raise LaunchError(f"{argv[0]} can't be started: {error.strerror}") from error


def _agent_argv(box: Box, manifest: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    if box.yolo and os.geteuid() == 0:
        raise LaunchError("yolo is refused as uid 0: the agent could change everything the box may")
    for reason in onboard(box, manifest, environment):
        sys.stderr.write(f"agentbox: {reason}\n")
    conversation = _conversation(box, manifest, environment)
    return agents.launch_argv(manifest, conversation, box.workspace, box.permission_mode, box.yolo)


def lead_environment(box: Box, environ: Mapping[str, str]) -> dict[str, str]:
    """This process's environment, the manifest's, and the secrets. Raises LaunchError for a secret it can't take."""
    manifest = box.lead_manifest or {}
    result = dict(environ)
    for name, value in (manifest.get("environment") or {}).items():
        result.setdefault(name, str(value))
    for name in box.secrets:
        result[name] = _secret(box.secret_files / name, name)
    return result


def _secret(path: Path, name: str) -> str:
    """The bytes of the file; the newline a text file ends with is none of the value's."""
    if not _VARIABLE.fullmatch(name):
        raise LaunchError(f"the secret {name!r} is no name for a variable")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise LaunchError(f"the secret {name} can't be read: {error}") from error
    if b"\0" in raw:
        raise LaunchError(f"the secret {name} holds a NUL byte, which no variable can")
    return os.fsdecode(raw.removesuffix(b"\n"))


def _conversation(box: Box, manifest: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Arguments for the conversation to be in: the recorded one if it can be continued, else a new one."""
    recorded = recorded_session(box)
    if recorded is None:
        return _new_conversation(box, manifest)
    config = agents.config_directory(manifest, box.home, environ)
    path = agents.transcript(manifest, config, box.workspace, recorded)
    if path is None or not path.exists():
        return agents.conversation_argv(manifest, "new", recorded)
    if _holds_conversation(manifest, path):
        return agents.conversation_argv(manifest, "resume", recorded)
    return _new_conversation(box, manifest)


def _new_conversation(box: Box, manifest: Mapping[str, Any]) -> list[str]:
    session_id = str(uuid.uuid4())
    arguments = agents.conversation_argv(manifest, "new", session_id)
    if arguments:
        try:
            record_session(box, session_id)
        except OSError as error:
            raise LaunchError(
                f"{box.home} takes no files, so that the conversation would be lost: {error.strerror}"
            ) from error
    return arguments


def _holds_conversation(manifest: Mapping[str, Any], path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return any(_is_turn(manifest, line) for line in stream)
    except OSError:
        return False


def _is_turn(manifest: Mapping[str, Any], line: str) -> bool:
    try:
        value = json.loads(line)
    except ValueError:
        return False
    return isinstance(value, dict) and agents.holds_turn(manifest, value)


def recorded_session(box: Box) -> str | None:
    """The conversation this lead had last in this workspace, if it was the same agent."""
    record = read_json(box.conversation_file) or {}
    session_id = record.get("session_id")
    same = record.get("agent") == box.lead and record.get("workspace") == box.workspace
    return session_id if same and isinstance(session_id, str) else None


def record_session(box: Box, session_id: str) -> None:
    """Remember the conversation for the next start; also called when the agent changes it (``/clear``)."""
    record = {"schema": SCHEMA, "agent": box.lead, "workspace": box.workspace, "session_id": session_id}
    write_json(box.conversation_file, record)
