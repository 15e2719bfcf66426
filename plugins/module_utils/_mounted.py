"""Whether a running container sees what its mounts name: a mount keeps what was there when the container was started.

What is written into a mounted directory or file is seen at once; what takes its place (an editor's new file, a
directory made anew) is not, until the container starts again. Reads the host's ``/proc`` only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path


def replaced(pid: int, sources: Mapping[str, str], contents: Mapping[str, bytes], root: Path) -> dict[str, str]:
    """Those of ``sources`` (target in the container to path on the host) that the container does not see any more.

    Process ``pid`` is in the container; ``root`` is that of the host. Files count only when ``contents`` says by target
    what they have to hold, and what the container sees is something else. What can't be looked at counts as seen.
    """
    inside = root / "proc" / str(pid) / "root"
    return {
        target: source
        for target, source in sorted(sources.items())
        if _differs(inside / target.lstrip("/"), root / source.lstrip("/"), contents.get(target))
    }


def _differs(seen: Path, source: Path, content: bytes | None) -> bool:
    try:
        found = seen.stat()
        if _is_same(found, source):
            return False
        if stat.S_ISDIR(found.st_mode):
            return True
        return content is not None and _content(seen, len(content)) != content
    except OSError:
        return False


def _content(path: Path, size: int) -> bytes | None:
    """What a regular file of ``size`` bytes holds, None for every other.

    The agent in the box may have put anything on the way to the path.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        return stream.read(size) if stat.S_ISREG(found.st_mode) and found.st_size == size else None


def _is_same(seen: os.stat_result, source: Path) -> bool:
    try:
        return os.path.samestat(seen, source.stat())
    except FileNotFoundError:
        return False
