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


@contextmanager
def helper(
    engine: Engine, box: Box, mounts: Iterable[Mapping[str, Any]], command: Sequence[str] = _DONE
) -> Iterator[str]:
    """The id of a container with ``mounts`` of a box, gone afterwards. Whoever starts it runs ``command`` as the box.

    What is put into it follows no link out of the volumes, whatever an agent has left there: nothing else of the host
    is mounted.
    """
    name = f"{box.container}{SUFFIX}"
    config = {
        "Image": box.spec.image,
        "User": f"{box.uid}:{_naming.BOX_GID}",
        "Entrypoint": [],
        "Cmd": list(command),
        "Labels": {
            _naming.LABEL_MANAGED: "true",
            _naming.LABEL_INSTANCE: box.setting.instance,
            _naming.LABEL_STATE_DIR: box.setting.state_dir,
        },
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Mounts": list(mounts),
        },
    }
    _remove_left(engine, box, name)
    with engine.doing(f"reach into the volumes of {box.container}"):
        created = str(engine.client.create_container_from_config(config, name)["Id"])
        try:
            yield created
        finally:
            engine.client.remove_container(created, force=True)


def _remove_left(engine: Engine, box: Box, name: str) -> None:
    """Remove what a killed run left."""
    found = engine.inspect_container(name)
    if not found:
        return
    if not _ownership.is_own(found["Config"].get("Labels") or {}, box.setting.instance, box.setting.state_dir):
        raise _ownership.ForeignBoxError(f"container {name} exists and was not made by this run's user", "Rename it")
    with engine.doing(f"remove container {name}"):
        engine.client.remove_container(found["Id"], force=True)


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
