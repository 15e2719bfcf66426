"""Where output goes: results to standard output, everything about the way there to standard error."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Tell the user something on the way."""
    sys.stderr.write(f"agentbox: {text}\n")
    sys.stderr.flush()


def answer(text: str) -> None:
    """Print a result."""
    sys.stdout.write(f"{text}\n")
