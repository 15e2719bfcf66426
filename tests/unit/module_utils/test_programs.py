"""Calls of the host's programs."""

from __future__ import annotations

import pytest

from agentbox._shared._errors import AgentboxError
from agentbox._shared._programs import call


def test_a_call_tells_what_a_program_said_and_how_it_ended() -> None:
    done = call("sh", "-c", r"echo out; printf 'err\377' >&2; exit 3")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\ufffd", 3)


def test_a_called_program_gets_no_input_and_speaks_english() -> None:
    assert call("sh", "-c", 'cat; echo "$LC_ALL"').stdout == "C\n"


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(AgentboxError, match="this host has no abx-missing"):
        call("abx-missing", "--version")
