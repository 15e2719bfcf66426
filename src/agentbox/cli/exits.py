"""Exit codes of the command line, and the error that means "you asked for something that can't be"."""

from __future__ import annotations

from agentbox._shared._errors import AgentboxError

OK = 0
FAILED = 1
USAGE = 2  # wrong use, or refused before anything was touched
UNDECIDABLE = 3  # doctor: nothing failed, something could not be found out
INTERRUPTED = 130

MEANINGS = {
    OK: "done; for doctor: healthy, or healthy with warnings",
    FAILED: "something failed; the message says what, on what and what to do next",
    USAGE: "wrong use, or refused before anything was touched",
    UNDECIDABLE: "doctor only: nothing failed, but something could not be found out",
    INTERRUPTED: "interrupted by Ctrl-C or SIGTERM",
}


class UsageError(AgentboxError):
    """Wrong use, or a request refused before anything was touched (exit 2)."""
