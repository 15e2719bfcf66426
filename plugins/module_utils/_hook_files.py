"""Reading and replacing one file in the HOME of a user, with that user's rights and never through a link.

Root works here in directories that somebody else can change at any moment. So everything is done as that user, below
descriptors that are held open: what the user may not read or write can't be reached, and nothing can be swapped.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from ._accounts import Account
from ._errors import AgentboxError, SettingsError

_MAX_BYTES = 1 << 20  # far more than any settings
_NEW_FILE = 0o600
_NEW_DIRECTORY = 0o700
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def acting_as(user: Account) -> Iterator[None]:
    """Have the rights of ``user`` and no others; for the whole process, so nothing may run beside it.

    Raises ``AgentboxError`` where another user than root asks to be somebody else.
    """
    if os.geteuid() == user.uid:
        yield
        return
    if os.geteuid() != 0:
        raise AgentboxError(f"only root and {user.name} may change the settings of {user.name}", "Run as root")
    group, groups = os.getegid(), os.getgroups()
    try:
        os.setgroups(user.groups)
        os.setegid(user.gid)
        os.seteuid(user.uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


@dataclass(frozen=True)
class Found:
    """A file as it was read."""

    content: bytes
    status: os.stat_result


class Place:
    """A file below the HOME of ``user``, and the directories on the way to it; used while acting as that user.

    ``parts`` are the names below HOME, the file's last. Nothing that is a link is followed, but for HOME itself, whose
    path the host's administration rules.
    """

    def __init__(self, user: Account, parts: Sequence[str], stack: ExitStack) -> None:
        self._user = user
        self._parts = list(parts)
        self._stack = stack
        self._open = [self._open_home()]
        with suppress(FileNotFoundError):
            while len(self._open) < len(self._parts):
                self._descend()

    @property
    def path(self) -> str:
        return self._path(len(self._parts))

    @property
    def missing_directories(self) -> list[str]:
        """Paths of the directories that have to be made, outermost first."""
        return [self._path(depth) for depth in range(len(self._open), len(self._parts))]

    def read(self) -> Found | None:
        """The file, None when there is none. Raises ``SettingsError`` for what is no plain file of the user."""
        if self.missing_directories:
            return None
        name, directory = self._parts[-1], self._open[-1]
        try:
            # Without O_NONBLOCK opening a named pipe would wait for a writer.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(error, len(self._parts), "read") from error
        try:
            status = os.fstat(descriptor)
            self._check(status)
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                return Found(stream.read(), status)
        finally:
            os.close(descriptor)

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise SettingsError("is no file", "Move it away")
        if status.st_uid != self._user.uid:
            raise SettingsError(f"belongs to uid {status.st_uid}", f"Give it to {self._user.name}, or move it away")
        if status.st_size > _MAX_BYTES:
            raise SettingsError(f"is larger than {_MAX_BYTES >> 20} MiB", "Move it away")

    def write(self, content: bytes, before: Found | None) -> None:
        """Put ``content`` in the place of what was read ``before``, in one step, with its mode and group.

        What is made new belongs to the user alone. Raises ``SettingsError`` when the file changed since.
        """
        try:
            while len(self._open) < len(self._parts):
                os.mkdir(self._parts[len(self._open) - 1], _NEW_DIRECTORY, dir_fd=self._open[-1])
                self._descend()
            self._replace(content, before)
        except OSError as error:
            raise self._refusal(error, len(self._parts), "written") from error

    def _replace(self, content: bytes, before: Found | None) -> None:
        name, directory = self._parts[-1], self._open[-1]
        temporary = f".{name}.agentbox-new"
        with suppress(FileNotFoundError):  # left by a killed run
            os.unlink(temporary, dir_fd=directory)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, _NEW_FILE, dir_fd=directory)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                if before:
                    os.fchmod(descriptor, _kept_mode(descriptor, before.status))
                stream.write(content)
                stream.flush()
                os.fsync(descriptor)
            self._require_unchanged(before)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(temporary, dir_fd=directory)
            raise
        os.fsync(directory)

    def remove(self, before: Found) -> None:
        """Remove the file that was read ``before``. Raises ``SettingsError`` when it changed since."""
        self._require_unchanged(before)
        try:
            os.unlink(self._parts[-1], dir_fd=self._open[-1])
        except OSError as error:
            raise self._refusal(error, len(self._parts), "removed") from error

    def _require_unchanged(self, before: Found | None) -> None:
        """The agent itself takes no lock, so this leaves it an instant to change what is about to be replaced."""
        try:
            now = os.stat(self._parts[-1], dir_fd=self._open[-1], follow_symlinks=False)
        except FileNotFoundError:
            now = None
        if _identity(now) != _identity(before.status if before else None):
            raise SettingsError("was changed by somebody else in the same moment", "Run again")

    def empty_without(self, names: Collection[str]) -> list[str]:
        """Of the directories above the file those that would be empty without it, innermost first, as far as their
        paths are among ``names``."""
        found: list[str] = []
        without = self._parts[len(self._open) - 1]
        for depth in range(len(self._open) - 1, 0, -1):
            if self._path(depth) not in names or self._names(depth) - {without}:
                break
            found.append(self._path(depth))
            without = self._parts[depth - 1]
        return found

    def _names(self, depth: int) -> set[str]:
        with os.scandir(self._open[depth]) as entries:
            return {entry.name for entry in entries}

    def remove_directories(self, paths: Sequence[str]) -> None:
        """Remove directories that ``empty_without()`` named; one that is not empty any more stays, with those above."""
        with suppress(OSError):
            for depth in range(len(self._open) - 1, 0, -1):
                if self._path(depth) in paths:
                    os.rmdir(self._parts[depth - 1], dir_fd=self._open[depth - 1])

    def _open_home(self) -> int:
        try:
            return self._kept(os.open(self._user.home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError as error:
            raise SettingsError(f"can't be reached, HOME can't be opened ({error.strerror})") from error

    def _descend(self) -> None:
        depth = len(self._open)
        try:
            self._open.append(self._kept(os.open(self._parts[depth - 1], _DIRECTORY_FLAGS, dir_fd=self._open[-1])))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._refusal(error, depth, "opened") from error

    def _kept(self, descriptor: int) -> int:
        self._stack.callback(os.close, descriptor)
        return descriptor

    def _path(self, depth: int) -> str:
        return "/".join([self._user.home.rstrip("/"), *self._parts[:depth]])

    def _refusal(self, error: OSError, depth: int, what: str) -> SettingsError:
        """What the operating system refused, in words about the entry at ``depth``."""
        where = "" if depth == len(self._parts) else f"can't be reached, {self._path(depth)} "
        name = self._parts[depth - 1]
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            kind = os.stat(name, dir_fd=self._open[depth - 1], follow_symlinks=False).st_mode
            if stat.S_ISLNK(kind):
                return SettingsError(f"{where}is a symbolic link, which is not followed", "Put the real one there")
            return SettingsError(f"{where}is no directory", "Move it away")
        return SettingsError(f"{where}can't be {what}: {error.strerror or error}")


@contextmanager
def place(user: Account, parts: Sequence[str]) -> Iterator[Place]:
    """The file ``parts`` below the HOME of ``user``, with that user's rights while the context lasts."""
    with acting_as(user), ExitStack() as stack:
        yield Place(user, parts, stack)


def _kept_mode(descriptor: int, before: os.stat_result) -> int:
    """The mode of the file ``before`` for the open new one, which gets its group too.

    A group that the user is not in can't be given; the user's own, which the file has then, gets no rights by it.
    """
    mode = stat.S_IMODE(before.st_mode) & 0o777
    try:
        os.fchown(descriptor, -1, before.st_gid)
    except PermissionError:
        return mode & ~stat.S_IRWXG
    return mode


def _identity(status: os.stat_result | None) -> tuple[int, ...] | None:
    """What tells that a file is still the one that was read."""
    return status and (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
