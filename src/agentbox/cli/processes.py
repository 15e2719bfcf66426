"""End a process together with everything it started, also in sessions of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_POLL = 0.1


def end(process: subprocess.Popen[bytes], grace: float, impatient: Callable[[], bool]) -> None:
    """Ask ``process`` to end; after ``grace`` seconds, or when ``impatient`` says so, kill it and its descendants."""
    family = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + grace
    while process.poll() is None and time.monotonic() < deadline and not impatient():
        time.sleep(_POLL)
    for pid in {*family, *descendants(process.pid)}:
        _kill(pid)
    if process.poll() is None:
        process.kill()
    process.wait()


def descendants(pid: int) -> set[int]:
    """Everything that ``pid`` started, however deep."""
    children: dict[int, set[int]] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and (parent := _parent(directory)) is not None:
            children.setdefault(parent, set()).add(int(directory.name))
    found: set[int] = set()
    waiting = {pid}
    while waiting:
        young = children.get(waiting.pop(), set()) - found
        found |= young
        waiting |= young
    return found


def _parent(directory: Path) -> int | None:
    try:
        # pid (name, which may hold anything) state parent
        return int((directory / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
