"""Where output goes: results to standard output, everything about the way there to standard error."""

from __future__ import annotations

import os
import sys

from agentbox._shared._errors import AgentboxError


def say(text: str) -> None:
    """Tell the user something on the way, unless nobody can hear it."""
    if sys.stderr:
        sys.stderr.write(f"agentbox: {text}\n")
        sys.stderr.flush()


def answer(text: str) -> None:
    """Print a result. Raises ``AgentboxError`` when that fails, ``BrokenPipeError`` when its reader has gone."""
    if not sys.stdout:
        raise AgentboxError("there is no standard output to print the result to")
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        give_up()
        raise AgentboxError(f"the result can't be printed: {error.strerror}") from error


def give_up() -> None:
    """Write no more results: the interpreter must not try again, and complain, when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
