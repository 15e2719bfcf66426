"""When a box Observer counts as hanging, and how soon one that ended is started again. With real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentbox.box import watch
from agentbox.box.watch import Watch

from .boxes import BoxDirectory, free_port


class Clock:
    """Time that passes only when told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@contextmanager
def silent_server() -> Iterator[int]:
    """A port on which connections are taken, by the kernel alone, and nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def ask(watched: Watch, times: int) -> None:
    for _ in range(times):
        assert not watched.serves()


def test_one_that_answers_serves(running: BoxDirectory, clock: Clock) -> None:
    assert running.get("/livez").text == "ok\n"
    watched = Watch(running.page_port, clock)
    clock.now += 300
    assert watched.serves()
    assert not watched.hangs()


def test_one_that_takes_connections_and_says_nothing_hangs_in_the_end(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_ANSWER", 0.05)
    with silent_server() as port:
        watched = Watch(port, clock)
        ask(watched, 3)
        assert not watched.hangs()  # it may still be starting
        clock.now += 61
        assert watched.hangs()


def test_time_that_passes_while_the_whole_box_stands_still_proves_nothing(clock: Clock) -> None:
    watched = Watch(free_port(), clock)
    clock.now += 3600
    ask(watched, 2)
    assert not watched.hangs()
    ask(watched, 1)
    assert watched.hangs()


def test_one_started_again_gets_its_time_again_and_waits_longer_each_time(clock: Clock) -> None:
    watched = Watch(free_port(), clock)
    clock.now += 61
    ask(watched, 3)
    pauses = []
    for _ in range(9):
        pauses.append(watched.delay())
        watched.restarted()
        ask(watched, 3)
        assert not watched.hangs()
    assert pauses == [0, 1, 2, 4, 8, 16, 30, 30, 30]
    assert watched.restarts == 9


def test_one_that_has_served_for_a_while_is_started_again_at_once(running: BoxDirectory, clock: Clock) -> None:
    watched = Watch(running.page_port, clock)
    watched.restarted()
    assert watched.serves()
    assert watched.delay() == 1
    clock.now += 61
    assert watched.serves()
    assert watched.delay() <= 0
