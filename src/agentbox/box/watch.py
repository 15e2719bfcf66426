"""Watches the box Observer: whether it serves, and when one that ended may be started again."""

from __future__ import annotations

import socket
from collections.abc import Callable

_LOCAL = "127.0.0.1"
_ANSWER = 3.0  # seconds an answer may take
_PATIENCE = 30.0  # seconds since its last answer after which an Observer hangs
_FIRST_PATIENCE = 60.0  # seconds one that was just started gets for its first
_QUESTIONS = 3  # that stay open at least before it hangs: time also passes while the whole box stands still
_STEADY = 60.0  # seconds an Observer has to serve to count as healthy again
_BACKOFF = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)  # seconds before the nth restart in a row


class Watch:
    """One box's Observer. ``restarts`` counts how often it was started again."""

    def __init__(self, port: int, clock: Callable[[], float]) -> None:
        self._port = port
        self._clock = clock
        self._in_a_row = 0
        self.restarts = 0
        self._begin()

    def _begin(self) -> None:
        self._started = self._clock()
        self._deadline = self._started + _FIRST_PATIENCE
        self._ended: float | None = None
        self._open = 0

    def serves(self) -> bool:
        """Whether it answers now."""
        if not answers(self._port):
            self._open += 1
            return False
        self._open = 0
        now = self._clock()
        self._deadline = now + _PATIENCE
        if now - self._started > _STEADY:
            self._in_a_row = 0
        return True

    def hangs(self) -> bool:
        """Whether it has been silent for so long that nothing but a new start helps."""
        return self._open >= _QUESTIONS and self._clock() >= self._deadline

    def delay(self) -> float:
        """Seconds until the next start of an ended one is due, counted from when the end was noticed."""
        if self._ended is None:
            self._ended = self._clock()
        pause = _BACKOFF[min(self._in_a_row, len(_BACKOFF) - 1)]
        return self._ended + pause - self._clock()

    def restarted(self) -> None:
        self._in_a_row += 1
        self.restarts += 1
        self._begin()


def answers(port: int) -> bool:
    """Whether a web server on loopback answers in time, whatever it says. A hung one still takes connections."""
    try:
        with socket.create_connection((_LOCAL, port), timeout=_ANSWER) as connection:
            connection.sendall(f"GET /livez HTTP/1.0\r\nHost: {_LOCAL}\r\n\r\n".encode())
            return bool(connection.recv(1))
    except OSError:
        return False
