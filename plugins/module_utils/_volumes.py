"""The volumes of an instance: what exists, and which of them the box uid owns already.

A volume is prepared once (see ``_apply.py``). Which ones were, stands in the state directory as the time of the
volume's creation, so that a volume made anew under an old name counts as new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _naming
from ._state import Directory, File, ensure_directory, read_file, remove_tree, write_file

LABEL_UID = "agentbox.uid"


@dataclass(frozen=True)
class Volume:
    """A volume as the engine lists it. ``uid`` is that of the boxes it was made for, empty when unknown."""

    name: str
    created: str
    instance: str
    uid: str

    @classmethod
    def from_api(cls, raw: Mapping[str, Any]) -> Volume:
        labels = raw.get("Labels") or {}
        return cls(
            name=str(raw["Name"]),
            created=str(raw.get("CreatedAt", "")),
            instance=str(labels.get(_naming.LABEL_INSTANCE, "")),
            uid=str(labels.get(LABEL_UID, "")),
        )


def unprepared(state_dir: str, instance: str, names: Iterable[str], existing: Mapping[str, Volume]) -> tuple[str, ...]:
    """Volumes among ``names`` whose root is not the box uid's yet. Volumes made by others are left alone."""
    return tuple(
        name
        for name in names
        if name not in existing or (existing[name].instance == instance and not _is_prepared(state_dir, existing[name]))
    )


def _is_prepared(state_dir: str, volume: Volume) -> bool:
    return read_file(_marker(state_dir, volume.name)) == volume.created.encode()


def mark_prepared(state_dir: str, volumes: Iterable[Volume]) -> None:
    ensure_directory(Directory(f"{state_dir}/volumes", 0o700))
    for volume in volumes:
        write_file(File(_marker(state_dir, volume.name), volume.created.encode(), 0o600))


def forget(state_dir: str, name: str) -> None:
    """Drop what is noted of a removed volume."""
    remove_tree(_marker(state_dir, name))


def _marker(state_dir: str, name: str) -> str:
    return f"{state_dir}/volumes/{name}"
