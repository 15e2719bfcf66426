"""POSIX access control lists of a workspace: which entries a box needs, whether they stand, and setting them.

Read from the extended attributes that the kernel keeps them in (no program needed, so check mode works on a pristine
host); written with ``setfacl``. Ownership is never changed.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import struct
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from ._errors import AgentboxError

_ACCESS = "system.posix_acl_access"
_DEFAULT = "system.posix_acl_default"
# Layout of the attributes: see the kernel's include/uapi/linux/posix_acl_xattr.h.
_HEADER = struct.Struct("<I")
_ENTRY = struct.Struct("<HHI")
_TAG_USER = 0x02
_TAG_MASK = 0x10
_READ_WRITE_EXECUTE = 7
_ERRORS_SHOWN = 3
_FILES_PER_CALL = 128  # far below the usual limit of open files
_DESCRIPTOR = re.compile(r"/proc/self/fd/(\d+)")


@dataclass(frozen=True)
class AclFacts:
    """What a directory's lists grant. ``access`` and ``default`` map uids to permission bits, the mask applied."""

    supported: bool
    access: dict[int, int]
    default: dict[int, int]

    def lacks(self, uids: Iterable[int]) -> bool:
        """Whether one of ``uids`` misses full rights on the directory or on what will be made in it."""
        wanted = set(uids)
        return any(granted.get(uid) != _READ_WRITE_EXECUTE for granted in (self.access, self.default) for uid in wanted)


def read(directory: str) -> AclFacts:
    """Facts of ``directory``; ``supported`` is False where the file system keeps no lists."""
    try:
        return AclFacts(True, _granted(directory, _ACCESS), _granted(directory, _DEFAULT))
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS):
            return AclFacts(False, {}, {})
        raise AgentboxError(f"cannot read the access control list of {directory}: {error.strerror}") from error


def _granted(directory: str, attribute: str) -> dict[int, int]:
    try:
        return users(os.getxattr(directory, attribute))
    except OSError as error:
        if error.errno == errno.ENODATA:
            return {}
        raise


def users(attribute: bytes) -> dict[int, int]:
    """Named users of a list in the kernel's binary form, with the bits that the mask leaves them."""
    entries = list(_ENTRY.iter_unpack(attribute[_HEADER.size :]))
    mask = next((bits for tag, bits, _ in entries if tag == _TAG_MASK), _READ_WRITE_EXECUTE)
    return {uid: bits & mask for tag, bits, uid in entries if tag == _TAG_USER}


def grant(directory: str, uids: Iterable[int]) -> None:
    """Give ``uids`` read and write on everything below ``directory``, now and for files made later.

    Nothing outside of the directory changes: everything is opened without following links and stays the same file
    until its entries are set, because who may write below the directory can exchange a file for a link at any moment.
    The directory itself comes last: its entries are what ``AclFacts.lacks()`` looks at, so an interrupted run is taken
    up again by the next.
    """
    program = shutil.which("setfacl")
    if not program:
        raise AgentboxError(
            f"the workspace {directory} needs an access control list and the program setfacl is missing",
            "Install the package acl, or set workspace_access: none",
        )
    access = [f"u:{uid}:rwX" for uid in sorted(set(uids))]
    for_files = ",".join(access)
    for_directories = ",".join([*access, *(f"d:{entry}" for entry in access)])
    try:
        with (
            closing(_Batch(program, for_directories, directory)) as directories,
            closing(_Batch(program, for_files, directory)) as files,
            _opened(directory) as top,
        ):
            for descriptor, path, is_directory in _below(directory, top):
                (directories if is_directory else files).add(descriptor, path)
            files.flush()
            directories.flush()
            directories.add(os.dup(top), directory)
            directories.flush()
    except (OSError, RecursionError) as error:
        raise AgentboxError(f"cannot set an access control list on the workspace {directory}: {error}") from error


@contextmanager
def _opened(directory: str) -> Iterator[int]:
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _below(directory: str, top: int) -> Iterator[tuple[int, str, bool]]:
    """Descriptor, path and whether it is a directory of all below ``top``, without links and devices."""
    for place, names, more, parent in os.fwalk(".", dir_fd=top, onerror=_fail):
        for name in [*names, *more]:
            try:
                descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=parent)
            except FileNotFoundError:  # removed meanwhile
                continue
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISLNK(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                os.close(descriptor)
            else:
                yield descriptor, os.path.normpath(f"{directory}/{place}/{name}"), stat.S_ISDIR(mode)


def _fail(error: OSError) -> None:
    raise error


class _Batch:
    """Sets ``entries`` on open files, many per call of the program; it owns their descriptors."""

    def __init__(self, program: str, entries: str, workspace: str) -> None:
        self._command = [program, "--modify", entries, "--"]
        self._workspace = workspace
        self._held: dict[int, str] = {}  # descriptor to path

    def add(self, descriptor: int, path: str) -> None:
        self._held[descriptor] = path
        if len(self._held) >= _FILES_PER_CALL:
            self.flush()

    def flush(self) -> None:
        if not self._held:
            return
        result = subprocess.run(
            [*self._command, *(f"/proc/self/fd/{descriptor}" for descriptor in self._held)],
            pass_fds=tuple(self._held),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if result.returncode != 0:
            lines = [_DESCRIPTOR.sub(self._path, line) for line in result.stderr.strip().splitlines()[:_ERRORS_SHOWN]]
            raise AgentboxError(
                f"cannot set an access control list on the workspace {self._workspace}: {'; '.join(lines)}",
                "Set workspace_access: none, or uid: to the workspace's owner",
            )
        self.close()

    def _path(self, found: re.Match[str]) -> str:
        return self._held.get(int(found[1]), found[0])

    def close(self) -> None:
        while self._held:
            os.close(self._held.popitem()[0])
