"""The event store: identity, order, retention, and files that are not what they should be."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentbox.observer.store import PAGE, Draft, EventStore, StoreError

NOW = datetime(2026, 11, 30, 20, 0, 0, 123000, UTC)


def draft(text: str = "x", synthetic: bool = False) -> Draft:
    payload = {"hook_event_name": "Stop", "text": text}
    return Draft(NOW, "claude", "Stop", "session", "%0", synthetic, False, payload)


def test_event_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    store = EventStore(tmp_path / "events.db")
    (stored,) = store.append([draft("ü\x1b[31m<b>\u2028")])
    assert store.after(None) == [stored]
    assert stored.payload["text"] == "ü\x1b[31m<b>\u2028"
    assert stored.id == f"{store.name}-000000000001"
    assert stored.model_dump(mode="json")["received_at"] == "2026-11-30T20:00:00.123Z"


def test_ids_grow_across_restarts(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    first = EventStore(path)
    before = first.append([draft(), draft()])
    first.close()
    second = EventStore(path)
    after = second.append([draft()])
    ids = [event.id for event in before + after]
    assert ids == sorted(set(ids))
    assert second.last_id() == ids[-1]
    assert [event.id for event in second.after(ids[0])] == ids[1:]


def test_id_is_not_reused_for_an_event_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    store = EventStore(path)
    last = store.append([draft(), draft()])[-1]
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM events")
    assert EventStore(path).append([draft()])[0].seq == last.seq + 1


def test_id_of_another_store_means_from_the_beginning(tmp_path: Path) -> None:
    store, other = EventStore(tmp_path / "a.db"), EventStore(tmp_path / "b.db")
    foreign = other.append([draft() for _ in range(5)])[-1].id
    events = store.append([draft()])
    assert store.after(foreign) == events
    assert store.after("no id at all") == events


def test_latest_are_those_of_agents_in_order(tmp_path: Path) -> None:
    store = EventStore(tmp_path / "events.db")
    store.append([draft(str(number), synthetic=number % 2 == 0) for number in range(10)])
    assert [event.payload["text"] for event in store.latest(3)] == ["5", "7", "9"]


def test_one_read_is_bounded(tmp_path: Path) -> None:
    store = EventStore(tmp_path / "events.db")
    store.append([draft() for _ in range(PAGE + 1)])
    assert len(store.after(None, 10_000)) == PAGE


def test_oldest_events_go_when_there_are_too_many(tmp_path: Path) -> None:
    store = EventStore(tmp_path / "events.db", keep_events=50)
    for _ in range(10):
        store.append([draft() for _ in range(40)])
    kept = store.after(None)
    assert 50 <= len(kept) <= 150
    assert kept[-1].seq == 400


def test_oldest_events_go_when_they_take_too_much(tmp_path: Path) -> None:
    store = EventStore(tmp_path / "events.db", keep_bytes=100_000)
    store.append([draft("x" * 10_000) for _ in range(120)])
    kept = store.after(None)
    assert [event.seq for event in kept] == list(range(112, 121))


def test_store_is_private(tmp_path: Path) -> None:
    EventStore(tmp_path / "state" / "events.db").append([draft()])
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    for file in (tmp_path / "state").iterdir():
        assert file.stat().st_mode & 0o077 == 0, file


def test_damaged_file_is_put_aside_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    path.write_bytes(b"this is no database, and was not written by one" * 100)
    store = EventStore(path)
    assert store.append([draft()])[0].seq == 1
    (aside,) = tmp_path.glob("events.db.damaged-*")
    assert aside.read_bytes().startswith(b"this is no database")


def test_directory_in_its_place_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "events.db").mkdir()
    with pytest.raises(StoreError, match=r"events\.db"):
        EventStore(tmp_path / "events.db")


def test_failed_write_stores_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    store = EventStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        store.append([draft()])
    other.execute("ROLLBACK")
    assert [event.seq for event in store.append([draft()])] == [1]
