"""POSIX access control lists of a workspace: which entries a box needs, whether they stand, and setting them.

Read from the extended attributes that the kernel keeps them in (no program needed, so check mode works on a pristine
host); written with ``setfacl``. Ownership is never changed.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
import subprocess
from collections.abc import Iterable
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
_PATHS_PER_CALL = 500  # names of up to 255 bytes stay far below the kernel's limit of arguments


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

    Symbolic links are not followed, so nothing outside of the directory changes. The directory itself comes last:
    its entries are what ``AclFacts.lacks()`` looks at, so an interrupted run is taken up again by the next.
    """
    program = shutil.which("setfacl")
    if not program:
        raise AgentboxError(
            f"the workspace {directory} needs an access control list and the program setfacl is missing",
            "Install the package acl, or set workspace_access: none",
        )
    children = sorted(entry.path for entry in os.scandir(directory) if not entry.is_symlink())
    for start in range(0, len(children), _PATHS_PER_CALL):
        _setfacl([program, "--recursive"], uids, children[start : start + _PATHS_PER_CALL], directory)
    _setfacl([program], uids, [directory], directory)


def _setfacl(command: list[str], uids: Iterable[int], paths: list[str], workspace: str) -> None:
    ordered = sorted(set(uids))
    entries = ",".join([f"u:{uid}:rwX" for uid in ordered] + [f"d:u:{uid}:rwX" for uid in ordered])
    result = subprocess.run(
        [*command, "--physical", "--modify", entries, "--", *paths],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines()
        raise AgentboxError(
            f"cannot set an access control list on the workspace {workspace}: {'; '.join(lines[:_ERRORS_SHOWN])}",
            "Set workspace_access: none, or uid: to the workspace's owner",
        )
