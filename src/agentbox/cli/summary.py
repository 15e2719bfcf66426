"""What a person reads once a box runs: which one, and how to reach it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from .progress import printable
from .seen import SeenBox

_LABEL = 10  # columns
_COMMAND = 25


def of(box: SeenBox, *, attach_with: str, shell_with: str, logins: Iterable[str]) -> str:
    """One labelled line each for the box, its page if it publishes one, and the commands that lead into it.

    ``attach_with`` and ``shell_with`` are command lines for this box; ``logins`` are those of the agents that have no
    credentials.
    """
    state = "started" if box.running else box.state
    rows = [("box", f"{box.container} ({state}), workspace {printable(box.workspace)}")]
    if box.page:
        rows.append(("page", box.page))
    rows.append(("attach", f"{attach_with:<{_COMMAND - 2}}  (detach with Ctrl-b d; the agent goes on)"))
    rows += [("log in", f"{shell_with}, then: {login}") for login in logins]
    return "\n".join(f"{label:<{_LABEL}}{text}" for label, text in rows)
