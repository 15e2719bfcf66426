"""What a manifest says about running its agent: argv, paths, seeds. Pure functions; nothing here knows an agent."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentbox._shared._credentials import MOST_BYTES, login_facts

Manifest = Mapping[str, Any]

_SLUG_LIMIT = 200  # longer slugs are cut and get a hash of the whole path, so that a file name stays valid
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


def config_directory(manifest: Manifest, home: Path, environ: Mapping[str, str]) -> Path:
    """Where the agent keeps settings and credentials: what its variable says, else its place below HOME."""
    config = manifest["config"]
    moved = environ.get(config.get("variable") or "", "")
    return Path(moved) if moved else home / config["directory"]


def cwd_slug(path: str) -> str:
    """The name under which transcripts of a working directory are filed (UTF-16 units, as JavaScript counts)."""
    encoded = path.encode("utf-16-le", "surrogatepass")
    units = [int.from_bytes(encoded[i : i + 2], "little") for i in range(0, len(encoded), 2)]
    slug = "".join(re.sub(r"[^a-zA-Z0-9]", "-", chr(unit)) for unit in units)
    if len(slug) <= _SLUG_LIMIT:
        return slug
    return f"{slug[:_SLUG_LIMIT]}-{_base36(abs(_hash32(units)))}"


def _hash32(units: Iterable[int]) -> int:
    """The 31-multiplier string hash in signed 32 bits."""
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _base36(value: int) -> str:
    digits = ""
    while value:
        value, rest = divmod(value, 36)
        digits = _BASE36[rest] + digits
    return digits or "0"


def transcript(manifest: Manifest, config: Path, cwd: str, session_id: str) -> Path | None:
    """The file of a conversation; None for an agent whose manifest names none."""
    pattern = manifest["launch"].get("transcript")
    if not pattern:
        return None
    return config / str(pattern).format(cwd_slug=cwd_slug(os.path.realpath(cwd)), session_id=session_id)


def holds_turn(manifest: Manifest, line: Mapping[str, Any]) -> bool:
    """Whether a line of a transcript belongs to the dialogue; an agent can't resume a file without such a line."""
    wanted = manifest["launch"].get("transcript_turn") or {}
    return all(line.get(key) == value for key, value in wanted.items())


def conversation_argv(manifest: Manifest, kind: str, session_id: str) -> list[str]:
    """Arguments that start (``new``) or continue (``resume``) a conversation; empty if the agent has none."""
    return [str(part).format(session_id=session_id) for part in manifest["launch"].get(kind) or ()]


def launch_argv(
    manifest: Manifest, conversation: Iterable[str], workspace: str, permission_mode: str, yolo: bool
) -> list[str]:
    """The whole command line of a lead. Asking for nothing and asking for a mode exclude each other."""
    launch = manifest["launch"]
    flags = launch.get("yolo") if yolo else launch.get("permission_mode")
    mode = [str(part).format(mode=permission_mode) for part in flags or ()]
    return [*map(str, launch["argv"]), *onboarding_argv(manifest, workspace), *mode, *conversation]


def onboarding_argv(manifest: Manifest, workspace: str) -> list[str]:
    """Words that answer first questions of an agent that keeps the answers beside other settings."""
    quoted = json.dumps(os.path.realpath(workspace))
    return [str(part).replace("{workspace}", quoted) for part in (manifest.get("onboarding") or {}).get("argv") or ()]


def api_key(manifest: Manifest, environ: Mapping[str, str]) -> str | None:
    """The key the agent would ask about at its start: the first key variable that is set."""
    names = manifest.get("credentials", {}).get("variables") or ()
    return next((environ[name] for name in names if environ.get(name)), None)


def onboarded(
    manifest: Manifest, present: Mapping[str, Any], workspace: str, yolo: bool, key: str | None
) -> dict[str, Any]:
    """``present`` with the answers to the agent's first questions added. What is there is never changed."""
    seeds = manifest["onboarding"]
    result = dict(present)
    for name, value in (seeds.get("values") or {}).items():
        result.setdefault(name, value)
    if yolo:
        for name, value in (seeds.get("yolo") or {}).items():
            result.setdefault(name, value)
    if seeds.get("workspace"):
        _add_workspace(result, os.path.realpath(workspace), seeds["workspace"])
    if key and seeds.get("api_key_tail"):
        _approve_key(result, key[-int(seeds["api_key_tail"]) :])
    return result


def _add_workspace(settings: dict[str, Any], workspace: str, values: Mapping[str, Any]) -> None:
    projects = settings.get("projects", {})
    project = projects.get(workspace, {}) if isinstance(projects, dict) else None
    if isinstance(project, dict):
        settings["projects"] = {**projects, workspace: {**values, **project}}


def _approve_key(settings: dict[str, Any], tail: str) -> None:
    answers = settings.get("customApiKeyResponses", {})
    if not isinstance(answers, dict):
        return
    approved, rejected = answers.get("approved", []), answers.get("rejected", [])
    if isinstance(approved, list) and tail not in approved and tail not in rejected:
        settings["customApiKeyResponses"] = {"rejected": [], **answers, "approved": [*approved, tail]}


def credentials(manifest: Manifest, config: Path, environ: Mapping[str, str], secrets: Iterable[str]) -> dict[str, str]:
    """Whether a login is present: ``{"state": "present", "kind": "secret|environment|file"}`` or ``{"state": "none"}``.

    Present says nothing about valid: only the vendor knows.
    """
    declared = manifest.get("credentials", {})
    names = declared.get("variables") or ()
    if any(name in names for name in secrets):
        return {"state": "present", "kind": "secret"}
    if any(environ.get(name) for name in names):
        return {"state": "present", "kind": "environment"}
    if declared.get("file") and _holds_login(declared, config / str(declared["file"])):
        return {"state": "present", "kind": "file"}
    return {"state": "none"}


def _holds_login(declared: Mapping[str, Any], path: Path) -> bool:
    try:
        content = path.read_bytes() if path.is_file() and path.stat().st_size <= MOST_BYTES else b""
    except OSError:
        return False
    return login_facts(declared, content, 0) is not None
