"""Small files that other processes read at any moment: written whole or not at all; and whether any can be written."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BLOCK = 4096  # bytes; less would fit where nothing else does
_WITHOUT_TMPFILE = (errno.EOPNOTSUPP, errno.EISDIR)  # answers of file systems that have no such files


def write_json(path: Path, value: Mapping[str, Any], mode: int = 0o600) -> None:
    """Replace ``path`` atomically, also if the power fails. A link is followed: the file it names changes."""
    target = path.resolve()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(value, stream, ensure_ascii=False, indent=2)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in ``path``; None if there is no file, or none that holds a JSON object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def writing_problem(directory: Path) -> str | None:
    """Why no file can be written in ``directory``, in the system's words; None if one can.

    Written is a file without a name, so that nobody who watches the directory sees one come and go.
    """
    try:
        descriptor = os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except OSError as error:
        if error.errno not in _WITHOUT_TMPFILE:
            return error.strerror
        return None if os.access(directory, os.W_OK) else os.strerror(errno.EACCES)
    try:
        os.write(descriptor, bytes(_BLOCK))
    except OSError as error:
        return error.strerror
    finally:
        os.close(descriptor)
    return None
