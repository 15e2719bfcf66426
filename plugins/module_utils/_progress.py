"""Progress of long work: one line of text per step, appended to a file that the CLI tails."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

Report = Callable[[str], None]


def silent(_line: str) -> None:
    """For callers that want no progress."""


def file_reporter(path: str | None) -> Report:
    """A function that appends ``<unix time> <line>`` to ``path`` (mode 0600); does nothing without a path.

    Progress is a convenience: a full disk or a vanished directory must not fail the work it reports on.
    """
    if not path:
        return silent
    target = Path(path)

    def report(line: str) -> None:
        flat = " ".join(line.split())
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8") as stream:
                stream.write(f"{time.time():.1f} {flat}\n")
        except OSError:
            return

    return report
