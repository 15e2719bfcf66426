"""Exit codes of the command line, and the error that means "you asked for something that can't be"."""

from __future__ import annotations

from agentbox._shared._errors import AgentboxError

OK = 0
FAILED = 1
USAGE = 2  # wrong use, or refused before anything was touched
UNDECIDABLE = 3  # doctor: nothing failed, something could not be found out
DRIFT = 4  # drift: a box differs from its declaration
INTERRUPTED = 130

MEANINGS = {
    OK: "done; for doctor: healthy, or healthy with warnings; for drift: none",
    FAILED: "something failed; the message says what, on what and what to do next",
    USAGE: "wrong use, or refused before anything was touched",
    UNDECIDABLE: "doctor only: nothing failed, but something could not be found out",
    DRIFT: "drift only: something differs from what is declared",
    INTERRUPTED: "interrupted by Ctrl-C or SIGTERM",
}


class UsageError(AgentboxError):
    """Wrong use, or a request refused before anything was touched (exit 2)."""


class RunInterruptedError(Exception):
    """Ctrl-C, SIGTERM or a closed terminal ended a run of a playbook."""
