"""Messages to whoever watches the page; a watcher that can't keep up is dropped, never waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_BACKLOG = 256  # messages one watcher may be behind
_BACKLOG_CHARS = 4 * 1024 * 1024


class TooManyWatchersError(Exception):
    """The bound on watchers is reached."""


class Watcher:
    """One open page. ``get`` returns messages in order, and None once it was dropped."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._chars = 0
        self.dropped = False

    def put(self, message: str) -> None:
        if self.dropped:
            return
        if self._queue.qsize() >= _BACKLOG or self._chars + len(message) > _BACKLOG_CHARS:
            self.drop()
            return
        self._chars += len(message)
        self._queue.put_nowait(message)

    def drop(self) -> None:
        self.dropped = True
        self._queue.put_nowait(None)

    async def get(self) -> str | None:
        message = await self._queue.get()
        if message is None or self.dropped:
            return None
        self._chars -= len(message)
        return message


class Broadcast:
    """The set of watchers. Lives in one event loop."""

    def __init__(self, limit: int = 32) -> None:
        self._limit = limit
        self._watchers: set[Watcher] = set()
        self.watched = asyncio.Event()

    @contextmanager
    def watch(self) -> Iterator[Watcher]:
        """A watcher for as long as the block runs. Raises TooManyWatchersError."""
        if len(self._watchers) >= self._limit:
            raise TooManyWatchersError
        watcher = Watcher()
        self._watchers.add(watcher)
        self.watched.set()
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
            if not self._watchers:
                self.watched.clear()

    def send(self, message: str) -> None:
        for watcher in list(self._watchers):
            watcher.put(message)

    def close(self) -> None:
        for watcher in list(self._watchers):
            watcher.drop()
