"""The state directory of an instance: files that hold from the first byte, one run at a time, nothing half done.

Every write goes to a temporary file beside its target and is renamed over it, so a killed run or a full disk leaves
the old file intact. What is not what it has to be (a link, a directory, another owner) is a ``StateError`` that
names the path, and nothing changes.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._errors import LockedError, StateError
from ._naming import lock_path

_LOCK_POLL = 0.2  # seconds
_KEY_BYTES = 32
_UNFINISHED = ".{}.new"  # name of a file that is being written, made of the one that it will have


@dataclass(frozen=True)
class Directory:
    """A directory as it has to be. ``uid`` None means: of whoever runs."""

    path: str
    mode: int
    uid: int | None = None


@dataclass(frozen=True)
class File:
    """A file as it has to be. ``secret`` keeps its content out of every diff.

    ``mounted_alone`` is one that a container mounts by itself and not with its directory: who has mounted it sees only
    what is written into it, never what takes its place.
    """

    path: str
    content: bytes
    mode: int
    uid: int | None = None
    secret: bool = False
    mounted_alone: bool = False


@dataclass(frozen=True)
class Found:
    """A directory or file as it is on disk. ``content`` is None for a directory."""

    mode: int
    uid: int
    content: bytes | None = None


def instance_directory(state_dir: str, below: str = "") -> Directory:
    """A directory of an instance that its boxes share; any uid may pass through it."""
    return Directory(f"{state_dir}{below}", 0o711)


def directory_differs(wanted: Directory) -> bool:
    """Whether ``ensure_directory()`` would change something."""
    found = _lstat(wanted.path)
    if found is None:
        return True
    if not stat.S_ISDIR(found.st_mode):
        raise StateError(f"{wanted.path} is {_kind(found)}, it has to be a directory", "Move it away")
    return _metadata_differs(found, wanted.mode, wanted.uid)


def file_differs(wanted: File) -> bool:
    """Whether ``write_file()`` would change something."""
    found = _lstat(wanted.path)
    if found is None:
        return True
    if not stat.S_ISREG(found.st_mode):
        raise StateError(f"{wanted.path} is {_kind(found)}, it has to be a file", "Move it away")
    return _metadata_differs(found, wanted.mode, wanted.uid) or read_file(wanted.path) != wanted.content


def ensure_directory(wanted: Directory) -> None:
    """Make a directory with its mode and owner, or put them right; parents are made with mode 0755."""
    if not directory_differs(wanted):
        return
    with _explained(wanted.path, "make the directory"):
        if _lstat(wanted.path) is None:
            Path(wanted.path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            Path(wanted.path).mkdir(mode=wanted.mode)
        descriptor = os.open(wanted.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _own(descriptor, wanted.path, wanted.mode, wanted.uid)
        finally:
            os.close(descriptor)


def write_file(wanted: File) -> None:
    """Put a file in place in one step, with mode and owner from the first byte, durably."""
    file_differs(wanted)  # refuses links and directories
    target = Path(wanted.path)
    if wanted.mounted_alone and target.exists():
        _overwrite(wanted)
        return
    temporary = target.with_name(_UNFINISHED.format(target.name))
    with _explained(wanted.path, "write"), _writable(target.parent):
        try:
            temporary.unlink(missing_ok=True)  # left by a killed run
            _write_new(temporary, wanted)
            temporary.rename(target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(target.parent)


def _overwrite(wanted: File) -> None:
    """Put right what lies in place, for those who have mounted it. A run killed amid it is put right by the next."""
    with _explained(wanted.path, "write"):
        Path(wanted.path).chmod(wanted.mode)  # an ordinary owner may have lost the right to write
        descriptor = os.open(wanted.path, os.O_WRONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "wb") as stream:
            _own(descriptor, wanted.path, wanted.mode, wanted.uid)
            stream.write(wanted.content)
            stream.truncate()
            stream.flush()
            os.fsync(descriptor)


def _write_new(path: Path, wanted: File) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, wanted.mode & 0o700)
    with os.fdopen(descriptor, "wb") as stream:
        _own(stream.fileno(), wanted.path, wanted.mode, wanted.uid)
        stream.write(wanted.content)
        stream.flush()
        os.fsync(stream.fileno())


def replace_link(link: Path, target: str) -> None:
    """Make ``link`` lead to ``target``, in one step; a directory in its place goes first."""
    with _explained(str(link), "link"):
        if link.is_dir() and not link.is_symlink():
            remove_tree(str(link))
        new = link.with_name(f".{link.name}.new")
        new.unlink(missing_ok=True)  # left by a killed run
        new.symlink_to(target)
        new.replace(link)


def find(item: Directory | File) -> Found | None:
    """What is on disk where ``item`` has to be; None for nothing."""
    found = _lstat(item.path)
    if found is None:
        return None
    content = None if isinstance(item, Directory) else read_file(item.path)
    return Found(stat.S_IMODE(found.st_mode), found.st_uid, content)


def differs(wanted: File, found: Found) -> bool:
    """Whether a file that was found is not as wanted."""
    owner = os.geteuid() if wanted.uid is None else wanted.uid
    return (found.mode, found.uid, found.content) != (wanted.mode, owner, wanted.content)


def shown(item: Directory | File, found: Found | None, digest: Callable[[bytes], str]) -> tuple[str | None, str]:
    """How a diff shows a directory or file: as it is (None: not there) and as it has to be.

    ``digest`` stands for contents, so that a change is seen and a secret is not. There is no change of what is new, and
    check mode could not know the key of its digest.
    """
    owner = os.geteuid() if item.uid is None else item.uid
    if isinstance(item, Directory):
        was = f"directory, {_metadata(found.mode, found.uid)}" if found else None
        return was, f"directory, {_metadata(item.mode, owner)}"
    after = f"file, {_metadata(item.mode, owner)}"
    if not found:
        return None, after
    before = f"file, {_metadata(found.mode, found.uid)}"
    contents = digest(found.content or b""), digest(item.content)
    return (f"{before}, content {contents[0]}", f"{after}, content {contents[1]}") if all(contents) else (before, after)


def _metadata(mode: int, uid: int) -> str:
    return f"mode {mode:04o}, uid {uid}"


def read_file(path: str) -> bytes | None:
    """Content of a file, None when there is none."""
    try:
        # Without O_NONBLOCK opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StateError(f"{path} is a symbolic link, it has to be a file", "Move it away") from error
        raise StateError(f"cannot read {path}: {error.strerror}") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise StateError(f"{path} is {_kind(found)}, it has to be a file", "Move it away")
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read()


def read_json(path: str) -> dict[str, Any] | None:
    """A JSON object of the state directory; None when the file is missing or was damaged from outside."""
    content = read_file(path)
    try:
        found = json.loads(content) if content is not None else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def json_file(path: str, value: Mapping[str, Any], mode: int) -> File:
    """A file that holds ``value`` as JSON in one stable spelling."""
    return File(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode(), mode)


def entries(path: str) -> list[str]:
    """Paths of what lies in a directory, sorted; none where there is no directory."""
    with _explained(path, "read"):
        return sorted(str(entry) for entry in Path(path).iterdir()) if Path(path).is_dir() else []


def unfinished(directory: str) -> list[str]:
    """Paths in ``directory`` of files that killed runs did not get to the end of; nothing reads them."""
    return [path for path in entries(directory) if Path(path).match(_UNFINISHED.format("*"))]


def remove_tree(path: str) -> None:
    """Remove a directory or file with all below it; links are removed and not followed."""
    found = _lstat(path)
    if found is None:
        return
    with _explained(path, "remove"):
        if stat.S_ISDIR(found.st_mode):
            for directory, _, _ in os.walk(path):
                if os.geteuid() != 0:
                    Path(directory).chmod(stat.S_IRWXU)
            shutil.rmtree(path)
        else:
            Path(path).unlink()


def remove_file(path: str) -> None:
    with _explained(path, "remove"), _writable(Path(path).parent):
        Path(path).unlink(missing_ok=True)


class Digester:
    """Keyed digests of secrets: they tell that a value changed and nothing else to who does not hold the key.

    Without a key every digest is empty text.
    """

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    def digest(self, box: str, name: str, value: str) -> str:
        """Hexadecimal HMAC-SHA-256 over box, name and value."""
        return self.of_bytes("\0".join((box, name, value)).encode("utf-8", "surrogateescape"))

    def of_bytes(self, content: bytes) -> str:
        """Hexadecimal HMAC-SHA-256 of any content."""
        return hmac.new(self._key, content, hashlib.sha256).hexdigest() if self._key else ""


def digester(state_dir: str, *, create: bool) -> Digester:
    """The instance's digester; a missing key is made if ``create``."""
    path = str(Path(state_dir, "digest.key"))
    key = read_file(path)
    if key is not None and len(key) == _KEY_BYTES:
        return Digester(key)
    if not create:
        return Digester(None)
    key = os.urandom(_KEY_BYTES)
    write_file(File(path, key, 0o600, secret=True))
    return Digester(key)


@contextmanager
def locked(state_dir: str, purpose: str, timeout: float) -> Iterator[None]:
    """Hold the instance's lock; waits up to ``timeout`` seconds, then ``LockedError`` names who holds it.

    The kernel frees the lock with its holder, however that ends.
    """
    path = lock_path(state_dir)
    descriptor = _acquire(path, timeout)
    try:
        holder = {"pid": os.getpid(), "purpose": purpose, "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(path: str, timeout: float) -> int:
    """Descriptor of the locked file. A run that removed the state directory took the file with it: then anew."""
    deadline = time.monotonic() + timeout
    while True:
        with _explained(path, "open the lock"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            _wait_for_lock(descriptor, path, deadline, timeout)
            found = _lstat(path)
        except BaseException:
            os.close(descriptor)
            raise
        if found and found.st_ino == os.fstat(descriptor).st_ino:
            return descriptor
        os.close(descriptor)


def _wait_for_lock(descriptor: int, path: str, deadline: float, timeout: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise LockedError(
                    f"{path} is held by {_holder(descriptor)}, waited {timeout:.0f} s for it",
                    "Wait for that run, or end it",
                ) from None
        time.sleep(_LOCK_POLL)


def _holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, 1024, 0))
        return f"process {holder['pid']} ({holder['purpose']}, since {holder['since']})"
    except (ValueError, KeyError, TypeError):
        return "another process"


@contextmanager
def _explained(path: str, what: str) -> Iterator[None]:
    """Translate what the operating system says into a ``StateError`` that names the path."""
    try:
        yield
    except OSError as error:
        hint = {
            errno.ENOSPC: "Free some space",
            errno.EDQUOT: "Free some space",
            errno.EACCES: "Run as root or through sudo, or choose another state_root",
            errno.EPERM: "Run as root or through sudo, or choose another state_root",
        }.get(error.errno or 0, "")
        raise StateError(f"cannot {what} {path}: {error.strerror or error}", hint) from error


@contextmanager
def _writable(directory: Path) -> Iterator[None]:
    """Let an ordinary owner write into its own read-only directory (root needs no such leave)."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    lift = os.geteuid() != 0 and not mode & stat.S_IWUSR
    if lift:
        directory.chmod(mode | stat.S_IWUSR)
    try:
        yield
    finally:
        if lift:
            directory.chmod(mode)


def _own(descriptor: int, path: str, mode: int, uid: int | None) -> None:
    owner = os.geteuid() if uid is None else uid
    if os.fstat(descriptor).st_uid != owner:
        try:
            os.fchown(descriptor, owner, -1)
        except PermissionError as error:
            raise StateError(
                f"cannot give {path} to uid {owner}", "Run as root or through sudo, or set uid: to your own"
            ) from error
    os.fchmod(descriptor, mode)


def _metadata_differs(found: os.stat_result, mode: int, uid: int | None) -> bool:
    return stat.S_IMODE(found.st_mode) != mode or found.st_uid != (os.geteuid() if uid is None else uid)


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise StateError(f"a parent of {path} is no directory", "Move it away") from error
    except PermissionError as error:
        raise StateError(f"cannot look at {path}: permission denied", "Run as root or through sudo") from error


def _kind(found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return "a symbolic link"
    return (
        "a directory"
        if stat.S_ISDIR(found.st_mode)
        else "a special file"
        if not stat.S_ISREG(found.st_mode)
        else "a file"
    )


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
