"""Tar archives as a backup holds them, read and written as streams: every byte of one is accounted for.

``tarfile`` reads headers of any length into memory, and says nothing of what follows the end of an archive. Members are
directories, files, symbolic and hard links, in GNU's format (long names in members of their own), which takes names in
any encoding.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO

from ._errors import AgentboxError

Member = tuple[tarfile.TarInfo, Iterator[bytes]]
Stream = IO[bytes] | gzip.GzipFile

_BLOCK = tarfile.BLOCKSIZE
_CHUNK = 1 << 20
_LONGEST_NAME = 64 << 10  # bytes; Linux takes paths of 4 KiB
_TYPES = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)
_LONG = {tarfile.GNUTYPE_LONGNAME: "name", tarfile.GNUTYPE_LONGLINK: "linkname"}
_CODEC = ("utf-8", "surrogateescape")


class BackupError(AgentboxError):
    """A backup could not be written, or is not what it has to be."""


def packed(members: Iterable[tuple[tarfile.TarInfo, Iterable[bytes]]]) -> Iterator[bytes]:
    """An archive of ``members``, part by part. Raises ``BackupError`` for one that is not as long as it says."""
    for info, content in members:
        yield info.tobuf(tarfile.GNU_FORMAT, *_CODEC)
        written = 0
        for chunk in content:
            written += len(chunk)
            yield chunk
        if written != info.size:
            raise BackupError(f"{info.name} says that it has {info.size} bytes and has {written}")
        yield bytes(-written % _BLOCK)
    yield bytes(2 * _BLOCK)


def members(stream: Stream) -> Iterator[Member]:
    """The members of an archive with their content, front to back; content that is not taken is passed over.

    Raises ``BackupError`` for what no backup holds, and for an archive that ends early or goes on behind its end.
    """
    long: dict[str, str] = {}
    while any(block := _exactly(stream, _BLOCK)):
        info = _header(block)
        content = _content(stream, info.size)
        if info.type in _LONG:
            long[_LONG[info.type]] = _long_name(info, content)
            continue
        if info.type not in _TYPES or info.size < 0:
            raise BackupError(f"{info.name} is no file, directory or link")
        if info.size and not info.isreg():
            raise BackupError(f"{info.name} is no file and has content")
        for key, value in long.items():
            setattr(info, key, value)
        long = {}
        yield info, content
        for _ in content:
            pass
    if long:
        raise BackupError("it ends with a name of nothing")
    while rest := stream.read(_CHUNK):
        if any(rest):
            raise BackupError("it goes on behind its end")


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, *_CODEC)
    except tarfile.TarError as error:
        raise BackupError(f"a header is damaged: {error}") from error


def _long_name(info: tarfile.TarInfo, content: Iterator[bytes]) -> str:
    if info.size > _LONGEST_NAME:
        raise BackupError(f"a name has {info.size} bytes")
    name = b"".join(content).rstrip(b"\0").decode(*_CODEC)
    return name.rstrip("/") or name


def _content(stream: Stream, size: int) -> Iterator[bytes]:
    left = size
    while left > 0:
        chunk = _exactly(stream, min(left, _CHUNK))
        left -= len(chunk)
        yield chunk
    _exactly(stream, -size % _BLOCK)


def _exactly(stream: Stream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = stream.read(size - len(data))
        if not part:
            raise BackupError("it ends early")
        data += part
    return bytes(data)
