"""Notices that a pane's process has ended, also when tmux does not.

tmux records terminals through libutempter, which sets SIGCHLD to its default while its helper runs: each time a
pane's terminal opens or closes, so just when the process of a pane ends. About half of these signals are lost. The
process then stays a zombie, and tmux tells neither its status nor that it ended until the next signal arrives.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterable

from .tmux import Tmux


def wait_for_end(pids: Iterable[int], seconds: float) -> set[int]:
    """Those of ``pids`` that have ended, as soon as there is one; empty when the time is up.

    Raises OSError where the kernel or a strict system call filter has no pidfd_open.
    """
    with contextlib.ExitStack() as stack:
        poller = select.poll()
        watched = {}
        for pid in pids:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                return {pid}
            stack.callback(os.close, descriptor)
            watched[descriptor] = pid
            poller.register(descriptor, select.POLLIN)
        return {watched[descriptor] for descriptor, _ in poller.poll(seconds * 1000)}


def make_tmux_look(tmux: Tmux) -> None:
    """Send the server the signal it may have lost: it looks for ended children then. Raises TmuxError."""
    server = int(tmux.run("display-message", "-p", "#{pid}"))
    with contextlib.suppress(ProcessLookupError):
        os.kill(server, signal.SIGCHLD)
