"""A container beside a box that has some of its volumes and nothing else: the way into them without the box."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import _naming, _ownership
from ._box import Box
from ._engine import Engine

SUFFIX = ".prepare"  # no box name holds a dot
_DONE = ("true",)


@dataclass(frozen=True)
class Entry:
    """A directory (``content`` None) or file of the box's user. ``path`` is absolute, ``modified`` of the epoch."""

    path: str
    mode: int
    content: bytes | None = field(default=None, repr=False)
    modified: float | None = None  # None: now


@dataclass(frozen=True)
class Place:
    """What a helper stands beside: the ``container`` of a box by its name, the image that the helper gets, whose it is.

    ``labels`` are more labels of the helper, for a run that finds it left behind.
    """

    container: str
    image: str
    uid: int
    instance: str
    state_dir: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The helper's own name."""
        return f"{self.container}{SUFFIX}"


@contextmanager
def helper(
    engine: Engine, box: Box, mounts: Iterable[Mapping[str, Any]], command: Sequence[str] = _DONE
) -> Iterator[str]:
    """As ``beside``, for a declared box and with its image."""
    with beside(engine, place(box), mounts, command) as container:
        yield container


def place(box: Box) -> Place:
    """Where the helper of a declared box stands."""
    return Place(box.container, box.spec.image, box.uid, box.setting.instance, box.setting.state_dir)


@contextmanager
def beside(
    engine: Engine, place: Place, mounts: Iterable[Mapping[str, Any]], command: Sequence[str] = _DONE
) -> Iterator[str]:
    """The id of a container with ``mounts`` of a box, gone afterwards. Whoever starts it runs ``command`` as the box.

    What is put into it follows no link out of the volumes, whatever an agent has left there: nothing else of the host
    is mounted.
    """
    config = {
        "Image": place.image,
        "User": f"{place.uid}:{_naming.BOX_GID}",
        "Entrypoint": [],
        "Cmd": list(command),
        "Labels": {
            **place.labels,
            _naming.LABEL_MANAGED: "true",
            _naming.LABEL_INSTANCE: place.instance,
            _naming.LABEL_STATE_DIR: place.state_dir,
        },
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Mounts": list(mounts),
        },
    }
    remove_left(engine, place)
    with engine.doing(f"reach into the volumes of {place.container}"):
        created = str(engine.client.create_container_from_config(config, place.name)["Id"])
        try:
            yield created
        finally:
            engine.remove_container(created)


def left(engine: Engine, place: Place) -> dict[str, Any] | None:
    """What a killed run left. Raises ``ForeignBoxError`` when it is somebody else's."""
    found = engine.inspect_container(place.name)
    if found and not _ownership.is_own(found["Config"].get("Labels") or {}, place.instance, place.state_dir):
        raise _ownership.ForeignBoxError(
            f"container {place.name} exists and was not made by this run's user", "Rename it"
        )
    return found


def remove_left(engine: Engine, place: Place) -> None:
    """Remove what a killed run left."""
    found = left(engine, place)
    if found:
        engine.remove_container(found["Id"])


def put(engine: Engine, container: str, box: Box, entries: Iterable[Entry]) -> None:
    """Put ``entries`` into a container, owned by the box's user and with their modes from the first byte."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry in entries:
            _add(archive, entry, box.uid)
    with engine.doing(f"write into the volumes of {box.container}"):
        engine.client.put_archive(container, "/", buffer.getvalue())


def _add(archive: tarfile.TarFile, entry: Entry, uid: int) -> None:
    member = tarfile.TarInfo(entry.path.lstrip("/"))
    member.type = tarfile.DIRTYPE if entry.content is None else tarfile.REGTYPE
    member.size = len(entry.content or b"")
    member.mode, member.uid, member.gid = entry.mode, uid, _naming.BOX_GID
    member.mtime = time.time() if entry.modified is None else entry.modified
    archive.addfile(member, io.BytesIO(entry.content or b""))


def get(engine: Engine, container: str, path: str, most: int) -> tuple[bytes, float] | None:
    """Content and time of modification of a file in a container; None where there is none, or a larger one."""
    import docker.errors

    with engine.doing(f"read {path} of {container}"):
        try:
            stream, _ = engine.client.get_archive(container, path)
        except docker.errors.NotFound:
            return None
        packed = bytearray()
        for part in stream:
            packed += part
            if len(packed) > most + 2 * tarfile.RECORDSIZE:
                return None
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        member = archive.next()
        found = archive.extractfile(member) if member and member.isreg() else None
        return (found.read(), member.mtime) if member and found else None
