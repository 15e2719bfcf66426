"""Processes of the panes: whether they have ended, noticed also when tmux does not, and ending them.

tmux records terminals through libutempter, which sets SIGCHLD to its default while its helper runs: each time a
pane's terminal opens or closes, so just when the process of a pane ends. About half of these signals are lost. The
process then stays a zombie, and tmux tells neither its status nor that it ended until the next signal arrives.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from .tmux import Tmux

_POLL = 0.02  # seconds between looks at processes that are ending
_FIELDS_BEFORE_START = 19  # of /proc/<pid>/stat behind the name: the state first, the time of the start 20th


@dataclass(frozen=True)
class Process:
    """A process, told by its start from a later one that has its number."""

    pid: int
    start: bytes

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has this number now; None when it has ended, noticed by its parent or not (a zombie)."""
        try:
            state, *fields = Path("/proc", str(pid), "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return None
        return None if state == b"Z" else cls(pid, fields[_FIELDS_BEFORE_START - 1])

    def runs(self) -> bool:
        return Process.of(self.pid) == self

    def send(self, number: signal.Signals) -> None:
        """Send a signal, to nobody if it has ended."""
        if self.runs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def await_ends(processes: Collection[Process], seconds: float) -> None:
    """Return when all have ended, or the time is up."""
    deadline = time.monotonic() + seconds
    while any(process.runs() for process in processes) and time.monotonic() < deadline:
        time.sleep(_POLL)


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
    with contextlib.suppress(ProcessLookupError):
        os.kill(tmux.server_pid(), signal.SIGCHLD)
