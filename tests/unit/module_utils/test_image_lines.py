"""Following something that takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from agentbox._shared import _lines


def slow() -> Iterator[str]:
    yield "first"
    time.sleep(0.3)
    yield "second"


def test_silence_is_filled() -> None:
    seen: list[str] = []
    _lines.pump(slow(), seen.append, lambda: seen.append("idle"), interval=0.05)
    assert seen[0] == "first"
    assert seen[-1] == "second"
    assert seen.count("idle") >= 2


def test_an_error_of_the_stream_is_raised_after_what_came_before() -> None:
    def broken() -> Iterator[str]:
        yield "first"
        raise ValueError("broken")

    seen: list[str] = []
    with pytest.raises(ValueError, match="broken"):
        _lines.pump(broken(), seen.append, lambda: None)
    assert seen == ["first"]


def test_a_program_is_followed_to_its_end() -> None:
    seen: list[str] = []
    script = "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr); sys.exit(3)"
    assert _lines.run([sys.executable, "-c", script], seen.append, lambda: None) == 3
    assert seen == ["out", "err"]


def test_a_program_ends_with_the_one_who_follows_it() -> None:
    def give_up(_: str) -> None:
        raise KeyboardInterrupt

    script = "import time; print('started', flush=True); time.sleep(60)"
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _lines.run([sys.executable, "-c", script], give_up, lambda: None)
    assert time.monotonic() - started < 30
