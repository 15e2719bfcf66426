"""Events on disk: SQLite in the HOME volume, so that they survive restarts and recreation of the box."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentbox.protocol import Event

KEEP_EVENTS = 20_000
KEEP_BYTES = 64 * 1024 * 1024  # of payload text; the file is a little larger
PAGE = 500  # events one read returns at most
_PRUNE_EVERY = 100
_BUSY = 2.0  # seconds to wait for another process that reads or writes
_NAME_BYTES = 4
_SEQ_DIGITS = 12

_SCHEMA = """
CREATE TABLE IF NOT EXISTS store (name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    received_at TEXT NOT NULL,
    agent TEXT NOT NULL,
    type TEXT NOT NULL,
    session_id TEXT,
    pane TEXT,
    synthetic INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    size INTEGER NOT NULL,
    payload TEXT NOT NULL
);
"""


class StoreError(Exception):
    """The store can't be opened, read or written; the message is SQLite's or the system's."""


@dataclass(frozen=True)
class Draft:
    """An event before the store has given it a place."""

    received_at: datetime
    agent: str
    type: str
    session_id: str | None
    pane: str | None
    synthetic: bool
    truncated: bool
    payload: dict[str, Any]


class EventStore:
    """One writer, any number of readers. Not for use by two threads at a time."""

    def __init__(self, path: Path, keep_events: int = KEEP_EVENTS, keep_bytes: int = KEEP_BYTES) -> None:
        self._keep_events = keep_events
        self._keep_bytes = keep_bytes
        self._appended = 0
        self.name = ""
        try:
            self._open(path)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise StoreError(f"{path}: {error}") from error
            self._replace_damaged(path)
        except OSError as error:
            raise StoreError(str(error)) from error

    def _open(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._db = sqlite3.connect(path, timeout=_BUSY, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_SCHEMA)
        row = self._db.execute("SELECT name FROM store").fetchone()
        self.name = row[0] if row else secrets.token_hex(_NAME_BYTES)
        if not row:
            self._db.execute("INSERT INTO store VALUES (?)", (self.name,))

    def _replace_damaged(self, path: Path) -> None:
        """Put a damaged file aside, keep it, and begin a new store under a new name."""
        self._db.close()
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        path.replace(path.with_name(f"{path.name}.damaged-{stamp}"))
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        self._open(path)

    def append(self, drafts: Sequence[Draft]) -> list[Event]:
        """Store all of ``drafts`` or none. Raises StoreError, e.g. when the disk is full."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                events = [self._insert(draft) for draft in drafts]
                self._prune(len(drafts))
            except BaseException:
                self._rollback()
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._rollback()
            raise StoreError(str(error)) from error
        return events

    def _rollback(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def _insert(self, draft: Draft) -> Event:
        payload = json.dumps(draft.payload, ensure_ascii=True, separators=(",", ":"))
        row = (
            draft.received_at.isoformat(timespec="milliseconds"),
            draft.agent,
            draft.type,
            draft.session_id,
            draft.pane,
            draft.synthetic,
            draft.truncated,
            len(payload),
            payload,
        )
        cursor = self._db.execute(
            "INSERT INTO events (received_at, agent, type, session_id, pane, synthetic, truncated, size, payload)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
        return self._event((cursor.lastrowid, *row))

    def _prune(self, added: int) -> None:
        self._appended += added
        if self._appended < _PRUNE_EVERY:
            return
        self._appended = 0
        self._db.execute(
            "DELETE FROM events WHERE seq <= (SELECT MAX(seq) FROM events) - ?",
            (self._keep_events,),
        )
        self._db.execute(
            "DELETE FROM events WHERE seq IN (SELECT seq FROM"
            " (SELECT seq, SUM(size) OVER (ORDER BY seq DESC) AS newer FROM events) WHERE newer > ?)",
            (self._keep_bytes,),
        )

    def after(self, event_id: str | None, limit: int = PAGE) -> list[Event]:
        """Events that came after ``event_id``, oldest first. An id of another store means: from the beginning."""
        seq = self._position(event_id) if event_id else 0
        return self._select("WHERE seq > ? ORDER BY seq LIMIT ?", (seq, min(limit, PAGE)))

    def latest(self, limit: int) -> list[Event]:
        """The newest events that agents made, oldest of them first."""
        return self._select("WHERE NOT synthetic ORDER BY seq DESC LIMIT ?", (min(limit, PAGE),))[::-1]

    def last_id(self) -> str:
        """The id of the newest event, also of one that is gone by now; empty before the first."""
        try:
            row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error
        return self._id(row[0]) if row else ""

    def _id(self, seq: int) -> str:
        return f"{self.name}-{seq:0{_SEQ_DIGITS}d}"

    def _position(self, event_id: str) -> int:
        name, _, seq = event_id.partition("-")
        return int(seq) if name == self.name and seq.isdecimal() and len(seq) <= _SEQ_DIGITS else 0

    def _select(self, clause: str, values: Iterable[int]) -> list[Event]:
        columns = "seq, received_at, agent, type, session_id, pane, synthetic, truncated, size, payload"
        try:
            rows = self._db.execute(f"SELECT {columns} FROM events {clause}", tuple(values)).fetchall()  # noqa: S608
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error
        return [self._event(row) for row in rows]

    def _event(self, row: Sequence[Any]) -> Event:
        seq, received_at, agent, type_, session_id, pane, synthetic, truncated, _size, payload = row
        return Event(
            schema=1,
            id=self._id(seq),
            seq=seq,
            received_at=datetime.fromisoformat(received_at),
            agent=agent,
            type=type_,
            session_id=session_id,
            pane=pane,
            synthetic=bool(synthetic),
            truncated=bool(truncated),
            payload=json.loads(payload),
        )

    def close(self) -> None:
        self._db.close()


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
