"""Images as files: one image per compressed archive, without a tag, named by a checksum.

An archive without tags can't take a name away from another image when it is loaded; who loads it gives the tag, after
having seen what it is.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from . import _json_text, _lines
from ._engine import Engine
from ._errors import AgentboxError
from ._progress import Report

_LEVEL = 1  # of gzip: beyond it a builder waits minutes for a tenth less
_CHUNKS_AHEAD = 8  # of 2 MiB
_LOADED = re.compile(r"^Loaded image(?: ID)?: (?P<image>\S+)$", re.MULTILINE)
_MOST_LIST = 1 << 20  # bytes of a list in an archive; those of one image have some hundred
DAMAGES = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError)
# Where the index of the OCI layout names images; Docker's own list has them under RepoTags.
_NAME_ANNOTATIONS = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class ArchiveError(AgentboxError):
    """An archive could not be written, or is not what it has to be."""


@dataclass(frozen=True)
class Archive:
    """A file that holds an image. ``checksum`` is ``sha256:`` and 64 hexadecimal digits, ``size`` in bytes."""

    path: str
    checksum: str
    size: int


def save(engine: Engine, image_id: str, path: str, uid: int, report: Report) -> Archive:
    """Write an image to ``path``, readable by ``uid`` only. What was there stays until the new file is complete."""
    with new_file(path, uid) as stream:
        hashing = Hashing(stream)
        with compressed(hashing) as packed:
            report("save: packing the image")
            _pack(engine, image_id, packed, report)
    return Archive(path, hashing.checksum, Path(path).stat().st_size)


@contextmanager
def new_file(path: str, uid: int) -> Iterator[IO[bytes]]:
    """A file for ``uid`` only, from its first byte. It takes its place when all of it was written, durably."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.new")
    try:
        temporary.unlink(missing_ok=True)  # left by a killed run
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            if os.fstat(descriptor).st_uid != uid:
                os.fchown(descriptor, uid, -1)
            yield stream
            stream.flush()
            os.fsync(descriptor)
        temporary.rename(target)
    except OSError as error:
        raise ArchiveError(f"cannot write {path}: {error.strerror or error}", "Free space there") from error
    finally:
        temporary.unlink(missing_ok=True)


def compressed(stream: Any) -> gzip.GzipFile:
    """What is written into it goes into ``stream`` compressed, the same bytes for the same content."""
    return gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=stream, mtime=0)


def _pack(engine: Engine, image_id: str, packed: gzip.GzipFile, report: Report) -> None:
    written = 0

    def observe(chunk: bytes) -> None:
        nonlocal written
        written += packed.write(chunk)

    def idle() -> None:
        report(f"save: {written >> 20} MiB, the engine is reading the image")

    with engine.doing(f"save image {image_id}"):
        _lines.pump(engine.client.get_image(image_id), observe, idle, most_waiting=_CHUNKS_AHEAD)


def load(engine: Engine, path: str, checksum: str, report: Report) -> str:
    """Load the image of an archive; its ID. It has no tag.

    Raises ``ArchiveError`` when the file is not the one that ``checksum`` names, holds anything but one image, or
    names images.
    """
    report("load: checking the archive")
    _inspect(path, checksum)
    loaded: list[str] = []
    with Path(path).open("rb") as stream, engine.doing(f"load {path}"):
        events = engine.client.load_image(stream)
        _lines.pump(_messages(path, events), loaded.append, lambda: report("load: the engine is unpacking the image"))
    found = _LOADED.findall("\n".join(loaded))
    if len(found) != 1:
        raise ArchiveError(f"load {path}: the engine named no image")
    return str(found[0])


def _messages(path: str, events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for event in events:
        if "error" in event:
            raise ArchiveError(f"load {path}: {event['error']}")
        yield str(event.get("stream") or event.get("status") or "").strip()


def _inspect(path: str, checksum: str) -> None:
    """See that an archive is the right file and what its own lists say."""
    lists: dict[str, Any] = {}
    try:
        with Path(path).open("rb") as stream:
            hashing = Hashing(stream)
            with suppress(*DAMAGES), gzip.GzipFile(fileobj=hashing) as unpacked:
                lists = _lists(unpacked)
            while hashing.read(1 << 20):
                pass
    except OSError as error:
        raise ArchiveError(f"cannot read {path}: {error.strerror or error}") from error
    if hashing.checksum != checksum:
        raise ArchiveError(
            f"{path} is not the archive that was asked for: its checksum is {hashing.checksum}, not {checksum}",
            "Let the builder save it anew, and carry it again",
        )
    if len(_mappings(lists.get("manifest.json"))) != 1:
        raise ArchiveError(f"{path} is no archive of one image")
    if names := _names(lists):
        raise ArchiveError(
            f"{path} would give the name {', '.join(names)} to its image", "Take an archive that role image has made"
        )


def _lists(unpacked: gzip.GzipFile) -> dict[str, Any]:
    with tarfile.open(fileobj=unpacked, mode="r|") as tar:
        found = {}
        for entry in tar:
            stream = tar.extractfile(entry) if entry.name in ("manifest.json", "index.json") else None
            if stream:
                if entry.size > _MOST_LIST:
                    raise ValueError("a list of that size is none of one image")
                found[entry.name] = _json_text.parsed(stream.read().decode())
    return found


def _names(lists: Mapping[str, Any]) -> list[str]:
    """The names that loading would give away."""
    tags = [str(tag) for image in _mappings(lists.get("manifest.json")) for tag in image.get("RepoTags") or []]
    index = lists.get("index.json")
    manifests = _mappings(index.get("manifests")) if isinstance(index, Mapping) else []
    annotations = [manifest.get("annotations") or {} for manifest in manifests]
    return tags + [str(found[key]) for found in annotations for key in _NAME_ANNOTATIONS if key in found]


def _mappings(value: object) -> list[Mapping[str, Any]]:
    """The mappings of a list; of anything else none."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


class Hashing(io.RawIOBase):
    """A file that is written or read once, front to back, and hashed on the way."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream
        self._hash = hashlib.sha256()

    @property
    def checksum(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._stream.write(data)

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._hash.update(data)
        return data
