"""Host names, text from terminals, watchers: the small pure parts."""

from __future__ import annotations

import asyncio

import pytest

from agentbox.observer.broadcast import Broadcast, TooManyWatchersError
from agentbox.observer.guard import known_host
from agentbox.observer.text import plain


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:4317",
        "127.0.0.1",
        "127.0.0.1:4317",
        "[::1]",
        "[::1]:4317",
        "192.0.2.7:80",
        "agentbox-web",
    ],
)
def test_addresses_and_the_boxs_own_names_are_known(host: str) -> None:
    assert known_host(host, {"agentbox-web"})


@pytest.mark.parametrize(
    "host",
    [None, "", "attacker.example", "attacker.example:4317", "127.0.0.1.attacker.example", "localhost.attacker.example"],
)
def test_names_that_a_stranger_can_point_here_are_not(host: str | None) -> None:
    assert not known_host(host, {"agentbox-web"})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢", "plain ü 漢"),
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"),  # markup is text; escaping is the page's work
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\after", "after"),
        ("bell\x07 null\x00 del\x7f c1\x9b", "bell null del c1"),
        ("right\u202eleft", "rightleft"),
        ("zero\u200bwidth", "zerowidth"),
        ("unfinished\x1b]0;title", "unfinished"),
        ("unfinished\x1b", "unfinished"),
        ("line\nbreak", "linebreak"),
    ],
)
def test_text_of_a_terminal_loses_everything_invisible(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_text_is_bounded() -> None:
    assert len(plain("x" * 10_000, 300)) == 300


def test_watchers_get_messages_in_order() -> None:
    async def scenario() -> list[str | None]:
        broadcast = Broadcast()
        with broadcast.watch() as watcher:
            broadcast.send("a")
            broadcast.send("b")
            return [await watcher.get(), await watcher.get()]

    assert asyncio.run(scenario()) == ["a", "b"]


def test_watcher_that_takes_nothing_is_dropped_and_others_go_on() -> None:
    async def scenario() -> None:
        broadcast = Broadcast()
        with broadcast.watch() as slow, broadcast.watch() as quick:
            for number in range(1000):
                broadcast.send(str(number))
                assert await quick.get() == str(number)
            assert slow.dropped
            assert await slow.get() is None

    asyncio.run(scenario())


def test_number_of_watchers_is_bounded() -> None:
    async def scenario() -> None:
        broadcast = Broadcast(limit=1)
        with broadcast.watch():
            assert broadcast.watched.is_set()
            with pytest.raises(TooManyWatchersError), broadcast.watch():
                pass
        assert not broadcast.watched.is_set()

    asyncio.run(scenario())
