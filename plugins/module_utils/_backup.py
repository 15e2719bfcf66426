"""The file that a box travels in: what it holds, and how one is read that nobody vouches for. Needs no engine.

It is a tar archive, compressed with gzip. Its members, in this order:

- ``manifest.json``: format, box, declaration without secrets, image, what was left out
- ``secrets/<name>``: values of secrets, if they were asked for
- ``home`` and what is below it: the HOME volume; owners are not kept
- ``checksums.json``: size in bytes and SHA-256 of every file before it

Nothing of a backup counts until its end was read.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import posixpath
import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from . import _json_text, _naming
from ._archive import DAMAGES, Hashing
from ._backup_tar import BackupError, Member, members
from ._options import OPTIONS, Option

FORMAT = 1
MANIFEST, SECRETS, HOME, CHECKSUMS = "manifest.json", "secrets", "home", "checksums.json"
MODE = 0o777  # the bits of a mode that travel: nobody gets the rights of another by a file of a backup
_MOST_MANIFEST = 1 << 20  # bytes
_MOST_SECRET = 1 << 20
_MOST_CHECKSUMS = 1 << 28
_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a declaration says of the box itself. All else is of the host that it was declared for, or opens a host to the
# box, and a backup may come from anybody.
_TRAVELLING = (
    *("lead", "agents", "permission_mode", "workspace_target", "memory", "cpus", "pids", "shm_size", "tmp_size"),
    *("env", "timezone", "locale", "read_only", "seccomp", "sealed"),
)
_OPENING = ("yolo", "network", "networks", "ports", "mounts", "volumes", "gpus", "runtime", "credentials")


@dataclass(frozen=True)
class Manifest:
    """What a backup says of itself. ``declaration`` is canonical (``BoxSpec.canonical()``), ``created`` in UTC.

    ``left_out`` names the secrets without values and the files of logins that are not in it, by their paths below HOME.
    """

    box: str
    instance: str
    created: str
    declaration: Mapping[str, Any]
    image: str
    context: str
    left_out: Mapping[str, list[str]]

    def content(self) -> bytes:
        return (json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True) + "\n").encode()


@dataclass(frozen=True)
class Contents:
    """What a backup holds that was read to its end. ``secrets`` are their values, ``size`` counts bytes of files."""

    manifest: Manifest
    digest: str  # of the file itself, see Backup.digest()
    files: int
    size: int
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def inspect(path: str) -> Contents:
    """Read a backup to its end. Raises ``BackupError`` for anything that is wrong with it."""
    with opened(path) as backup:
        secrets, files, size = {}, 0, 0
        for info, content in backup.members():
            files += info.isreg()
            size += info.size
            if info.name.startswith(f"{SECRETS}/"):
                secrets[posixpath.basename(info.name)] = b"".join(content).decode("utf-8", "surrogateescape")
        return Contents(backup.manifest, backup.digest(), files, size, secrets)


@contextmanager
def opened(path: str) -> Iterator[Backup]:
    """A backup whose manifest was read. What is wrong with the file is a ``BackupError`` that names it."""
    try:
        with Path(path).open("rb") as stream:
            yield Backup(stream)
    except BackupError as error:
        raise BackupError(f"{path} is no sound backup: {error.message}", error.hint) from error
    except DAMAGES as error:
        raise BackupError(f"{path} is no sound backup: {error}") from error
    except OSError as error:
        raise BackupError(f"cannot read {path}: {error.strerror or error}") from error


class Backup:
    """A backup that is read once, front to back."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._raw = Hashing(stream)
        self._members = members(gzip.GzipFile(fileobj=self._raw))
        self._found: dict[str, tuple[int, str]] = {}
        info, content = next(self._members, (tarfile.TarInfo(), iter(())))
        if info.name != MANIFEST:
            raise BackupError("it does not begin with a manifest")
        self.manifest = parse_manifest(_document(info, self._hashed(info, content), _MOST_MANIFEST))

    def digest(self) -> str:
        """Checksum of the file, once it was read to its end: ``sha256:`` and 64 hexadecimal digits."""
        return self._raw.checksum

    def members(self) -> Iterator[Member]:
        """Every member but manifest and checksums. They are sound only if the iteration ends without an error."""
        tree = Tree()
        done = False
        for info, content in self._members:
            if done:
                raise BackupError("it goes on behind its checksums")
            if info.name == CHECKSUMS:
                self._compare(_document(info, content, _MOST_CHECKSUMS))
                done = True
                continue
            problem = _secret_problem(info, self._found) if info.name.startswith(f"{SECRETS}/") else tree.add(info)
            if problem:
                raise BackupError(f"{info.name!r} {problem}")
            hashed = self._hashed(info, content)
            yield info, hashed
            for _ in hashed:
                pass
        if not done:
            raise BackupError("it has no checksums")

    def _hashed(self, info: tarfile.TarInfo, content: Iterator[bytes]) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for chunk in content:
            digest.update(chunk)
            yield chunk
        if info.isreg():
            self._found[info.name] = (info.size, digest.hexdigest())

    def _compare(self, said: Any) -> None:
        found = {name: checksum(*of) for name, of in self._found.items()}
        if said != found:
            names = sorted(name for name in found if not isinstance(said, dict) or said.get(name) != found[name])
            what = f"the checksum of {names[0]!r} is another" if names else "files are missing"
            raise BackupError(what, "Make it anew")


def checksum(size: int, digest: str) -> dict[str, Any]:
    """An entry of ``checksums.json``."""
    return {"size": size, "sha256": digest}


class Tree:
    """The directory tree that members make, checked as it grows: nothing is outside, nothing twice.

    A member lies in a directory that came before it, so none is written through a link. A link that leads out of HOME
    would lead to something else on another host.
    """

    def __init__(self) -> None:
        self._types: dict[str, bytes] = {}

    def add(self, info: tarfile.TarInfo) -> str:
        """Take in a member; why it can't be one, else nothing."""
        problem = self._problem(info)
        if not problem:
            self._types[info.name] = info.type
        return problem

    def _problem(self, info: tarfile.TarInfo) -> str:
        parts = info.name.split("/")
        if parts[0] != HOME or any(part in ("", ".", "..") for part in parts):
            return "leads out of the backup"
        if info.name in self._types:
            return "stands there twice"
        if info.mode & ~MODE:
            return f"has mode {info.mode:04o}"
        if info.name == HOME:
            return "" if info.isdir() else "is no directory"
        if self._types.get(posixpath.dirname(info.name)) != tarfile.DIRTYPE:
            return "lies in no directory of the backup"
        return self._link_problem(info)

    def _link_problem(self, info: tarfile.TarInfo) -> str:
        if info.issym() and not stays(info.name, info.linkname):
            return "is a link that leads out of HOME"
        if info.islnk() and self._types.get(info.linkname) not in (tarfile.REGTYPE, tarfile.LNKTYPE):
            return "is a link to no file before it"
        return ""


def stays(name: str, target: str) -> bool:
    """Whether a symbolic link, a member of HOME, leads to a place in HOME, whatever else is linked there.

    What is above a member are directories, so leading ``..`` are what they seem; behind a link they may not be.
    """
    parts = posixpath.dirname(name).split("/")
    if target == _naming.BOX_HOME or target.startswith(f"{_naming.BOX_HOME}/"):
        parts, target = [HOME], target.removeprefix(_naming.BOX_HOME).lstrip("/")
    elif not target or target.startswith("/"):
        return False
    steps = [step for step in target.split("/") if step not in ("", ".")]
    while steps and steps[0] == "..":
        parts, steps = parts[:-1], steps[1:]
    return bool(parts) and ".." not in steps


def _secret_problem(info: tarfile.TarInfo, found: Mapping[str, object]) -> str:
    if not info.isreg() or not _SECRET.fullmatch(info.name.removeprefix(f"{SECRETS}/")) or info.size > _MOST_SECRET:
        return "is no secret"
    return "stands there twice" if info.name in found else ""


def _document(info: tarfile.TarInfo, content: Iterator[bytes], most: int) -> Any:
    if not info.isreg() or info.size > most:
        raise BackupError(f"{info.name} is no list of one box")
    try:
        return _json_text.parsed(b"".join(content).decode())
    except ValueError as error:
        raise BackupError(f"{info.name} is no JSON: {error}") from error


def parse_manifest(value: object) -> Manifest:
    """A manifest from its JSON. Raises ``BackupError`` for another format, and for what is none."""
    match value:
        case {"format": int(number)} if number != FORMAT:
            raise BackupError(
                f"its format is {number}, this version reads {FORMAT}", "Take the version that made it, or a newer one"
            )
        case {
            "format": int(),
            "box": str(box),
            "instance": str(instance),
            "created": str(created),
            "declaration": dict(declaration),
            "image": str(image),
            "context": str(context),
            "left_out": {"logins": list(logins), "secrets": list(secrets)},
        } if _naming.is_name(box) and _naming.is_name(instance):
            left_out = {"logins": [str(path) for path in logins], "secrets": [str(name) for name in secrets]}
            return Manifest(box, instance, created, declaration, image, context, left_out)
    raise BackupError("its manifest is none")


def travelling(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a canonical declaration that a backup carries to another host, as a declaration is written."""
    kept = {key: declaration[key] for key in _TRAVELLING if key in declaration}
    return {**kept, "lead": kept.get("lead") or "none", "agents": kept.get("agents") or []}


def staying(declaration: Mapping[str, Any]) -> list[str]:
    """Keys of a canonical declaration that would open a host to the box, were declared, and don't travel."""
    return [option.name for option in OPTIONS if option.name in _OPENING and _is_declared(option, declaration)]


def _is_declared(option: Option, declaration: Mapping[str, Any]) -> bool:
    return option.name in declaration and declaration[option.name] != option.default
