"""The end of a process is noticed, and tmux told of what it missed."""

from __future__ import annotations

import subprocess

import pytest

from agentbox.box.ends import wait_for_end

from .boxes import BoxDirectory, eventually

PROMPT = 3.0  # seconds; far below the supervisor's own looks


def test_the_first_end_is_reported_and_a_living_process_is_not() -> None:
    with subprocess.Popen(["sleep", "60"]) as living, subprocess.Popen(["sleep", "0.1"]) as ending:
        assert wait_for_end([living.pid, ending.pid], 10) == {ending.pid}
        assert wait_for_end([living.pid], 0.1) == set()
        living.kill()


def test_a_process_that_is_gone_has_ended() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
        assert wait_for_end([gone.pid], 10) == {gone.pid}


@pytest.mark.parametrize("code", range(6))
def test_the_end_of_the_lead_is_never_missed(directory: BoxDirectory, code: int) -> None:
    """Without help tmux misses about every second one, so six in a row are no luck."""
    directory.declare(lead=None)
    with directory.supervised():
        directory.tmux("send-keys", "-t", "=agentbox:=main", f"exit {code}", "Enter")
        eventually(lambda: directory.status()["lead"]["state"] == "exited", PROMPT)
        eventually(lambda: directory.status()["lead"]["code"] == code, PROMPT)
