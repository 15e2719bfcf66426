"""The volumes of an instance: what exists, and which of them the box uid owns already.

A volume is prepared once (see ``_apply.py``). Which ones were, stands in the state directory with the random mark that
a volume gets as a label when it is made, so that one made anew under an old name counts as new. The time of its
creation would not do: engine 20.10 tells the last change of its root instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _naming
from ._engine import Engine
from ._state import Directory, File, ensure_directory, entries, read_file, remove_tree, write_file


@dataclass(frozen=True)
class Volume:
    """A volume as the engine lists it. ``uid`` is that of the boxes it was made for, empty when unknown."""

    name: str
    mark: str  # empty for one that others made
    instance: str
    uid: str

    @classmethod
    def from_api(cls, raw: Mapping[str, Any]) -> Volume:
        labels = raw.get("Labels") or {}
        return cls(
            name=str(raw["Name"]),
            mark=str(labels.get(_naming.LABEL_MARK, "")),
            instance=str(labels.get(_naming.LABEL_INSTANCE, "")),
            uid=str(labels.get(_naming.LABEL_UID, "")),
        )


def by_name(engine: Engine | None) -> dict[str, Volume]:
    """All volumes of an engine; none where there is no engine."""
    return {str(raw["Name"]): Volume.from_api(raw) for raw in (engine.volumes() if engine else ())}


def unprepared(state_dir: str, instance: str, names: Iterable[str], existing: Mapping[str, Volume]) -> tuple[str, ...]:
    """Volumes among ``names`` whose root is not the box uid's yet. Volumes made by others are left alone."""
    return tuple(
        name
        for name in names
        if name not in existing or (existing[name].instance == instance and not _is_prepared(state_dir, existing[name]))
    )


def _is_prepared(state_dir: str, volume: Volume) -> bool:
    return read_file(_marker(state_dir, volume.name)) == volume.mark.encode()


def mark_prepared(state_dir: str, volumes: Iterable[Volume]) -> None:
    ensure_directory(Directory(notes(state_dir), 0o700))
    for volume in volumes:
        write_file(File(_marker(state_dir, volume.name), volume.mark.encode(), 0o600))


def forget(state_dir: str, name: str) -> None:
    """Drop what is noted of a removed volume."""
    remove_tree(_marker(state_dir, name))


def notes(state_dir: str) -> str:
    """Directory of what is noted of volumes."""
    return f"{state_dir}/volumes"


def noted(state_dir: str) -> list[str]:
    """Names of the volumes that something is noted of, sorted."""
    return [path.rpartition("/")[2] for path in entries(notes(state_dir))]


def _marker(state_dir: str, name: str) -> str:
    return f"{notes(state_dir)}/{name}"
