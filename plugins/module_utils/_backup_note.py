"""What the state directory says of HOME volumes that came from a backup: from which, and whether all of it arrived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from . import _naming, _state
from ._errors import StateError
from ._state import Directory
from ._volumes import Volume


@dataclass(frozen=True)
class Note:
    """``mark`` tells which volume of that name, ``digest`` is the checksum of the backup's file."""

    mark: str
    digest: str
    complete: bool


def read(state_dir: str, volume: Volume | None) -> Note | None:
    """The note of a volume that is there; None for one that came from no backup."""
    if volume is None:
        return None
    match _state.read_json(_path(state_dir, volume.name)):
        case {"mark": str(mark), "digest": str(digest), "complete": bool(complete)} if mark == volume.mark:
            return Note(mark, digest, complete)
    return None


def write(state_dir: str, volume: str, note: Note) -> None:
    """Note it durably."""
    _state.ensure_directory(Directory(directory(state_dir), 0o700))
    _state.write_file(_state.json_file(_path(state_dir, volume), asdict(note), 0o600))


def forget(state_dir: str, volume: str) -> None:
    """Drop what is noted of a removed volume."""
    _state.remove_tree(_path(state_dir, volume))


def check_complete(state_dir: str, instance: str, box: str, volumes: Mapping[str, Volume]) -> None:
    """Raise ``StateError`` when only a part of the HOME of ``box`` is there, because its import was interrupted."""
    note = read(state_dir, volumes.get(_naming.home_volume(instance, box)))
    if note and not note.complete:
        raise StateError(
            f"the import of box {box} was interrupted, its HOME is not complete",
            "Import it again; or remove what is there (agentbox down --volumes) and begin without it",
        )


def directory(state_dir: str) -> str:
    """Where the notes lie."""
    return f"{state_dir}/imported"


def _path(state_dir: str, volume: str) -> str:
    return f"{directory(state_dir)}/{volume}.json"
