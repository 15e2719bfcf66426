"""What has to hold before an image is touched: the instance's lock, room on the engine's disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from . import _state
from ._engine import Engine
from ._errors import EngineError, LockedError
from ._image_types import Request
from ._progress import Report

LOCK_SECONDS = 1800.0  # as long as another run's build may take
_LOCK_TURN = 8.0


@contextmanager
def locked(request: Request, report: Report) -> Iterator[None]:
    """The instance's lock; says who holds it while waiting."""
    _state.ensure_directory(_state.instance_directory(request.state_dir))
    deadline = time.monotonic() + LOCK_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(_state.locked(request.state_dir, "change the image", _LOCK_TURN))
                break
            except LockedError as error:
                if time.monotonic() >= deadline:
                    raise
                report(f"image: {error.message}")
        yield


def check_room(engine: Engine, request: Request, work: str) -> None:
    """Refuse ``work`` (a build, a pull) on an engine whose disk is too full."""
    check_disk(str(engine.info().get("DockerRootDir", "")), request.min_free, work)


def check_disk(data_root: str, min_free: int, work: str) -> None:
    """Refuse ``work`` on a disk with less than ``min_free`` bytes; a data root that can't be seen is not judged."""
    place = Path(data_root or "/nonexistent")
    if not place.is_dir():
        return
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    if free < min_free:
        raise EngineError(
            f"{place} has {_gib(free)} free, {work} needs {_gib(min_free)} (min_free)",
            "Free space there, e.g. `docker system prune`, or move the engine's data root",
        )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
