"""The declaration of this box as the host wrote it into ``box.json``, and where things lie in the box."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentbox._shared import _naming

MOUNT_VARIABLE = "AGENTBOX_MOUNT"
RUNTIME_VARIABLE = "AGENTBOX_RUNTIME"
DEFAULT_COLUMNS = 200
DEFAULT_ROWS = 50
MAX_DIMENSION = 10_000  # tmux refuses more


class BoxConfigError(Exception):
    """``box.json`` is missing or not what the host writes."""


@dataclass(frozen=True)
class Box:
    """One box, seen from inside."""

    mount: Path  # files of the host, read-only
    home: Path
    runtime: Path  # in memory: ends with the container, and can be written when HOME can't
    instance: str
    name: str
    container: str
    workspace: str
    lead: str | None
    permission_mode: str
    yolo: bool
    agents: tuple[str, ...]
    secrets: tuple[str, ...]
    page_port: int
    hook_port: int
    columns: int
    rows: int
    manifests: Mapping[str, Mapping[str, Any]]

    @property
    def tmux_conf(self) -> Path:
        return self.mount / "tmux.conf"

    @property
    def secret_files(self) -> Path:
        return self.mount / "secrets"

    @property
    def state(self) -> Path:
        """What the runtime remembers, in the HOME volume: survives restarts and recreation."""
        return self.home / ".agentbox"

    @property
    def status_file(self) -> Path:
        return self.runtime / "status.json"

    @property
    def conversation_file(self) -> Path:
        return self.state / "lead.json"

    @property
    def events_file(self) -> Path:
        return self.state / "events.db"

    @property
    def lead_manifest(self) -> Mapping[str, Any] | None:
        return self.manifests[self.lead] if self.lead else None


def load(environ: Mapping[str, str]) -> Box:
    """Read ``box.json`` from the mount. Raises BoxConfigError that names the file."""
    mount = Path(environ.get(MOUNT_VARIABLE, _naming.BOX_MOUNT))
    path = mount / "box.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return _box(raw, mount, environ)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BoxConfigError(f"{path}: {type(error).__name__}: {error}") from error


def _box(raw: Mapping[str, Any], mount: Path, environ: Mapping[str, str]) -> Box:
    manifests = dict(raw.get("manifests") or {})
    lead = raw.get("lead") or None
    if lead is not None and lead not in manifests:
        raise ValueError(f"the lead {lead!r} has no manifest")
    ports = raw.get("ports") or {}
    size = raw.get("size") or {}
    return Box(
        mount=mount,
        home=Path(environ.get("HOME", _naming.BOX_HOME)),
        runtime=Path(environ.get(RUNTIME_VARIABLE, _naming.BOX_RUNTIME)),
        instance=str(raw["instance"]),
        name=str(raw["box"]),
        container=str(raw["container"]),
        workspace=str(raw["workspace"]),
        lead=lead,
        permission_mode=str(raw.get("permission_mode") or "default"),
        yolo=bool(raw.get("yolo")),
        agents=tuple(raw.get("agents") or ()),
        secrets=tuple(raw.get("secrets") or ()),
        page_port=int(ports.get("page", _naming.PAGE_PORT)),
        hook_port=int(ports.get("hooks", _naming.HOOK_PORT)),
        columns=_dimension(environ.get("COLUMNS"), size.get("columns"), DEFAULT_COLUMNS),
        rows=_dimension(environ.get("LINES"), size.get("rows"), DEFAULT_ROWS),
        manifests=manifests,
    )


def _dimension(*candidates: object) -> int:
    """The first usable number: whoever starts a box without a terminal may say 0, or nothing."""
    for candidate in candidates:
        if isinstance(candidate, (int, str)) and str(candidate).isdecimal() and 1 < int(candidate) <= MAX_DIMENSION:
            return int(candidate)
    raise ValueError("no usable terminal size")


def current() -> Box:
    """The box this process runs in."""
    return load(os.environ)
