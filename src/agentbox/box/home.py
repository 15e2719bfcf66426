"""HOME made ready for the agents: idempotent, and nothing that is there is overwritten."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentbox import agents

from .config import Box
from .files import write_json

_GIT_TIMEOUT = 5


def prepare(box: Box, environ: Mapping[str, str]) -> list[str]:
    """Make the directories, seed every agent, trust the workspace. Returns what could not be done, and why."""
    reasons = []
    try:
        box.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reasons.append(f"nothing can be remembered in {box.state}: {error.strerror}")
    for name, manifest in box.manifests.items():
        found = make_config_directory(box, manifest, environ) or onboard(box, manifest, environ)
        reasons += [f"{name}: {reason}" for reason in found]
    reasons += trust_workspace(box)
    return reasons


def make_config_directory(box: Box, manifest: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Make the directory of the agent's settings and login, which it may want to find. Returns why it is not there."""
    path = agents.config_directory(manifest, box.home, environ)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return [f"{path} can't be made: {error.strerror}"]
    return []


def onboard(box: Box, manifest: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Answer the agent's first questions in its own settings file. Returns the reason if that is not possible."""
    seeds = manifest.get("onboarding") or {}
    if not seeds.get("file"):
        return []
    config = agents.config_directory(manifest, box.home, environ)
    path = config / seeds["file"]
    try:
        config.mkdir(mode=0o700, parents=True, exist_ok=True)
        present = _settings(path)
        key = agents.api_key(manifest, environ)
        wanted = agents.onboarded(manifest, present, box.workspace, box.yolo, key)
        if wanted != present:
            write_json(path, wanted)
    except (OSError, ValueError) as error:
        return [f"{path} is left as it is: {error}"]
    return []


def _settings(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``. A missing or empty file holds nothing that could be lost."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    if not text.strip():
        return {}
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def trust_workspace(box: Box) -> list[str]:
    """Let git work in a workspace of another owner: exactly this mount, for every process of the box.

    The file is git's second global one, because ``~/.gitconfig`` may be the host's, mounted read-only.
    """
    path = box.home / ".config" / "git" / "config"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        present = _git("config", "--file", str(path), "--get-all", "safe.directory").stdout.split("\n")
        if box.workspace not in present:
            done = _git("config", "--file", str(path), "--add", "safe.directory", box.workspace)
            if done.returncode != 0:
                return [f"git does not trust {box.workspace}: {done.stderr.strip()}"]
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"git does not trust {box.workspace}: {error}"]
    return []


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments],  # noqa: S607 - the box's own git
        capture_output=True,
        text=True,
        timeout=_GIT_TIMEOUT,
        check=False,
    )
