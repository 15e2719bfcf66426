"""Takes drafts from the hook sink at once and stores them behind its back, so that no agent waits for a disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from agentbox.protocol import Event

from .store import Draft, EventStore, StoreError

_WAITING_BYTES = 32 * 1024 * 1024  # of reports that are not stored yet
_BATCH = 100
_log = logging.getLogger("agentbox")
_Result = TypeVar("_Result")


class Recorder:
    """The one user of the store: all its work runs in one thread, in order. Lives in one event loop."""

    def __init__(self, path: Path, stored: Callable[[list[Event]], None]) -> None:
        self._path = path
        self._stored = stored
        self._queue: asyncio.Queue[tuple[Draft, int]] = asyncio.Queue()
        self._waiting = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._store: EventStore | None = None
        self.problem: str | None = None
        self.lost = 0
        self.last_id = ""

    def offer(self, draft: Draft, size: int) -> None:
        """Take a draft, or count it as lost when the disk is too slow for what comes in."""
        if self._waiting + size > _WAITING_BYTES:
            self._lose(1, "events come in faster than they can be stored")
            return
        self._waiting += size
        self._queue.put_nowait((draft, size))

    async def run(self) -> None:
        """Store what is offered, until cancelled; then what is still waiting."""
        try:
            while True:
                await self._store_batch([await self._queue.get()])
        finally:
            while not self._queue.empty():
                await self._store_batch([])
            await self._call(self._close)
            self._thread.shutdown(wait=False)

    async def _store_batch(self, batch: list[tuple[Draft, int]]) -> None:
        while len(batch) < _BATCH and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        drafts = [draft for draft, _ in batch]
        try:
            events = await self._call(lambda: self._opened().append(drafts))
        except StoreError as error:
            self._lose(len(drafts), str(error))
        else:
            self.problem = None
            self._note_last(events)
            self._stored(events)
        finally:
            self._waiting -= sum(size for _, size in batch)

    def _note_last(self, events: list[Event]) -> None:
        if events:
            self.last_id = events[-1].id

    def _lose(self, count: int, why: str) -> None:
        if self.problem != why:
            _log.error("events are lost: %s", why)
        self.problem = why
        self.lost += count

    async def after(self, event_id: str | None, limit: int) -> list[Event]:
        """Raises StoreError."""
        return await self._call(lambda: self._opened().after(event_id, limit))

    async def latest(self, limit: int) -> list[Event]:
        """Raises StoreError."""
        return await self._call(lambda: self._opened().latest(limit))

    async def check(self) -> str | None:
        """Why the store can't be used; None if it can."""
        try:
            await self._call(self._opened)
        except StoreError as error:
            return str(error)
        return self.problem

    def _opened(self) -> EventStore:
        if self._store is None:
            self._store = EventStore(self._path)
            self.last_id = self._store.last_id()
        return self._store

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()

    async def _call(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
