from __future__ import annotations

import io
import itertools

import pytest

from agentbox.cli import progress
from agentbox.cli.progress import Progress


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_a_new_area_gets_a_line_at_once() -> None:
    clock, out = Clock(), io.StringIO()
    shown = Progress(out, clock)
    for step in ("docker: Look", "docker: Install", "image: Build"):
        shown.show(step)
    assert out.getvalue() == "[0:00] docker: Look\n[0:00] image: Build\n"


def test_without_a_terminal_no_ten_seconds_pass_without_a_line() -> None:
    clock, out = Clock(), io.StringIO()
    shown = Progress(out, clock)
    written: list[float] = []
    for _ in range(500):  # 100 seconds
        before = out.tell()
        shown.show("image: Build")
        if out.tell() != before:
            written.append(clock.now)
        clock.now += 0.2
    assert max(later - earlier for earlier, later in itertools.pairwise([*written, clock.now])) <= 10
    assert len(written) < 20
    assert "[1:04] image: Build\n" in out.getvalue()


def test_on_a_terminal_one_line_updates_itself_and_goes_away() -> None:
    clock, out = Clock(), Terminal()
    shown = Progress(out, clock)
    shown.show("image: Build")
    shown.show("image: too soon to draw again")
    clock.now += 61
    shown.show("image: Build (npm)")
    shown.finish()
    assert out.getvalue() == "\r\x1b[K[0:00] image: Build\r\x1b[K[1:01] image: Build (npm)\r\x1b[K"


def test_a_long_line_is_cut_to_the_terminal_s_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    out = Terminal()
    Progress(out, Clock()).show("image: " + "x" * 100)
    line = out.getvalue().removeprefix("\r\x1b[K")
    assert len(line) == 19
    assert line.endswith("…")


def test_nothing_a_build_prints_reaches_the_terminal_as_a_command() -> None:
    out = io.StringIO()
    Progress(out, Clock()).show("image: \x1b]0;owned\x07 \x9b31m\u202e ok\nnext")
    assert out.getvalue().rstrip("\n").isprintable()


def test_minutes_go_on_after_an_hour() -> None:
    assert progress.elapsed(3725) == "62:05"
