"""What boxes were last made to be, for the commands that are not about changing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentbox._shared import _health_expected, _naming, _recorded, _state
from agentbox._shared._errors import StateError

from . import seen
from .seen import SeenBox


def declaration(state_dir: str, name: str, box: SeenBox | None) -> dict[str, Any]:
    """The declaration that box ``name`` of a state directory fulfilled last; ``box`` is its container, if it is there.

    One that was stopped on purpose counts as declared stopped, every other one as declared started. Raises
    ``StateError`` for a box without a record: nobody knows what it should be.
    """
    paths = _naming.BoxPaths(state_dir, name)
    record = _state.read_json(paths.record)
    if record is None or not isinstance(record.get("spec"), Mapping):
        raise StateError(f"{paths.record} does not say what box {name} should be", "Run what declares the box again")
    stopped = box is not None and _health_expected.was_stopped(box.inspect)
    return _recorded.declaration(name, "stopped" if stopped else "started", record["spec"], seen.secrets(paths))


def manifests(state_dir: str, names: Iterable[str]) -> dict[str, Any]:
    """The manifests that boxes were given, which may be an inventory's own."""
    found: dict[str, Any] = {}
    for name in names:
        given = (_state.read_json(f"{_naming.BoxPaths(state_dir, name).mount}/box.json") or {}).get("manifests")
        found |= given if isinstance(given, dict) else {}
    return found
