"""Show that something long is running: one line that updates itself on a terminal, else a line now and then."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TextIO

SILENCE = 8.0  # seconds without a line before one says that it still runs; users are promised ten
_REDRAW = 0.5  # seconds between two updates of the line on a terminal


def printable(text: str) -> str:
    """``text`` in one line, without the control characters that builds and engines may send to a terminal."""
    return "".join(char if char.isprintable() else " " for char in text).strip()


def elapsed(seconds: float) -> str:
    """``m:ss``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """Renders the steps of one run to ``stream``."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._clock = clock
        self._start = clock()
        self._drawn = float("-inf")
        self._area = ""
        self._dirty = False

    def show(self, step: str) -> None:
        """Show ``step`` if it is time to; cheap to call often."""
        if not step:
            return
        now = self._clock()
        text = f"[{elapsed(now - self._start)}] {printable(step)}"
        if self._terminal:
            if now - self._drawn >= _REDRAW:
                self._redraw(text)
                self._drawn = now
        elif self._is_new_area(step) or now - self._drawn >= SILENCE:
            self._stream.write(text + "\n")
            self._stream.flush()
            self._drawn = now

    def finish(self) -> None:
        """Leave a clean line for what is printed next."""
        if self._dirty:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._dirty = False

    def _redraw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        shown = text if len(text) <= width else text[: max(width - 1, 0)] + "…"
        self._stream.write(f"\r\x1b[K{shown}")
        self._stream.flush()
        self._dirty = True

    def _is_new_area(self, step: str) -> bool:
        """Whether another role or play is at work: worth a line at once."""
        area, _, _ = step.partition(":")
        new = area != self._area
        self._area = area
        return new
