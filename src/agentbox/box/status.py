"""The supervisor's state in a file, for the page and the probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .files import read_json, write_json

SCHEMA = 1


@dataclass
class Lead:
    """``state``: running, exited (with ``code``, None if unknown) or none (no agent declared: a shell)."""

    agent: str | None
    state: str
    code: int | None = None
    pane: str | None = None
    pid: int | None = None


@dataclass
class Status:
    """``state``: starting, ready or parked (``reason`` says why). ``notes`` are what HOME could not take."""

    state: str
    reason: str
    lead: Lead
    rebuilds: int = 0
    observer_restarts: int = 0
    notes: list[str] = field(default_factory=list)


def save(path: Path, status: Status) -> None:
    write_json(path, {"schema": SCHEMA, **asdict(status)})


def load(path: Path) -> Mapping[str, Any]:
    """What the supervisor wrote last; an empty mapping before its first word."""
    return read_json(path) or {}
