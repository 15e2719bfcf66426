from __future__ import annotations

import os
import pty
import select
import sys
import tty

import pytest

from agentbox.cli import terminal


@pytest.mark.parametrize("term", ["xterm-256color", "xterm-ghostty", "tmux-256color", "screen.xterm+x_1", "a" * 64])
def test_the_name_of_a_terminal_is_handed_on(term: str) -> None:
    assert terminal.safe_term(term) == term


@pytest.mark.parametrize("term", [None, "", "x; rm -rf /", "a b", "$(id)", "a\n", "-e\0", "ü", "a" * 65, "../../etc"])
def test_anything_else_becomes_one_that_every_system_knows(term: str | None) -> None:
    assert terminal.safe_term(term) == "xterm-256color"


def test_size_and_colours_are_handed_over() -> None:
    command = terminal.exec_command({"TERM": "foot", "COLORTERM": "truecolor"}, 132, 43)
    assert command[:4] == ["docker", "exec", "--interactive", "--tty"]
    assert command[4::2] == ["--env"] * 4
    assert command[5::2] == ["TERM=foot", "COLUMNS=132", "LINES=43", "COLORTERM=truecolor"]


def test_an_unknown_colour_word_is_dropped() -> None:
    assert not any("COLORTERM" in part for part in terminal.exec_command({"COLORTERM": "$(id)"}, 80, 24))


def test_keys_typed_while_nothing_read_them_are_dropped_and_later_ones_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys, screen = pty.openpty()
    tty.setraw(screen)

    def waiting(timeout: float) -> bool:
        return bool(select.select([screen], [], [], timeout)[0])

    with os.fdopen(keys, "wb", buffering=0) as keyboard, os.fdopen(screen, "r") as terminal_:
        monkeypatch.setattr(sys, "stdin", terminal_)
        keyboard.write(b"y\r")
        assert waiting(5)
        terminal.forget_typed_keys()
        assert not waiting(0)
        keyboard.write(b"x")
        assert waiting(5)
        monkeypatch.undo()
