"""What exporting and importing share: for whom, on which instance, and what became of each box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from . import _files, _state
from ._engine import Engine
from ._host import Person
from ._progress import Report


@dataclass(frozen=True)
class Request:
    """One call. ``engine`` is None in check mode on a host that has none yet."""

    engine: Engine | None
    instance: str
    state_dir: str
    person: Person
    manifests: Mapping[str, Any]
    report: Report
    check: bool = False
    lock_timeout: float = 120.0

    def locked(self, purpose: str) -> AbstractContextManager[None]:
        """The instance's lock; none in check mode."""
        if self.check:
            return nullcontext()
        for directory in _files.shared_directories(self.state_dir):
            _state.ensure_directory(directory)
        return _state.locked(self.state_dir, f"module box_backup, {purpose}", self.lock_timeout)


@dataclass
class Result:
    """What became of one box; ``size`` in bytes of the file, ``left_out`` by what it is."""

    name: str
    file: str
    actions: list[dict[str, str]] = field(default_factory=list)
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    size: int = 0
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "file": self.file,
            "changed": bool(self.actions) and not self.error,
            "failed": bool(self.error),
            "msg": self.error,
            "actions": self.actions,
            "size": self.size,
            "left_out": {kind: self.left_out.get(kind, []) for kind in ("logins", "secrets", "others")},
        }


def outcome(results: Sequence[Result]) -> dict[str, Any]:
    """The module's answer."""
    return {
        "changed": any(result.as_dict()["changed"] for result in results),
        "boxes": [result.as_dict() for result in results],
        "actions": [{"box": result.name, **action} for result in results for action in result.actions],
        "diff": {
            "before": {result.name: result.before for result in results if result.before},
            "after": {result.name: result.after for result in results if result.after},
        },
    }
