"""The tmux server of a box: one socket, one session, exact targets only."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from agentbox._shared import _naming

_VIEW = "view-"  # attach.sh names its sessions so
CHANGED = "agentbox-changed"  # wait-for channel; the hooks in tmux.conf signal it
_TIMEOUT = 5.0
_SEPARATOR = "\t"
_FIELDS = (
    "window_name",
    "pane_id",
    "pane_pid",
    "pane_dead",
    "pane_dead_status",
    "pane_dead_signal",
    "pane_current_command",
    "pane_title",
)
_SIGNAL_BASE = 128  # a shell's convention for "ended by a signal"


class TmuxError(Exception):
    """tmux refused a command or did not answer; the message is tmux's own."""


class TmuxBusyError(TmuxError):
    """tmux can't be asked now: it does not answer in time, or there is no room for a process. It is not gone."""


@dataclass(frozen=True)
class Pane:
    """One pane as tmux reports it. ``title`` and ``command`` come from inside the pane: untrusted text."""

    window: str
    id: str
    pid: int
    dead: bool
    status: int | None  # exit code of a dead pane, 128 + n if signal n ended it
    command: str
    title: str


class Tmux:
    """Commands for the box's server. Every call is a short-lived client with a timeout."""

    def __init__(self, conf: Path) -> None:
        self._argv = ["tmux", "-u", "-L", _naming.TMUX_SOCKET, "-f", str(conf)]

    def run(self, *arguments: str, timeout: float = _TIMEOUT) -> str:
        """Run one command list; returns its output. Raises TmuxError."""
        try:
            done = subprocess.run(
                [*self._argv, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TmuxBusyError(f"tmux did not answer within {timeout:g} s") from error
        except OSError as error:
            raise TmuxBusyError(f"tmux can't be run: {error}") from error
        if done.returncode != 0:
            message = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
            raise TmuxError(f"tmux {arguments[0]}: {message}")
        return done.stdout.decode(errors="replace")

    def version(self) -> str:
        return self.run("-V").removeprefix("tmux").strip()

    def server_pid(self) -> int:
        """The process id of the server that has the session. Raises TmuxError."""
        return int(self.run("display-message", "-p", "#{pid}"))

    def server_answers(self) -> bool:
        """Whether there is a server behind the socket. Raises TmuxBusyError."""
        return self._accepts("show-options", "-s", "exit-empty")

    def session_exists(self) -> bool:
        """Raises TmuxBusyError."""
        return self._accepts("has-session", "-t", f"={_naming.TMUX_SESSION}")

    def _accepts(self, *command: str) -> bool:
        try:
            self.run(*command)
        except TmuxBusyError:
            raise
        except TmuxError:
            return False
        return True

    def panes(self) -> list[Pane]:
        """Panes of the session, in order. Raises TmuxError when the session is lost."""
        layout = _SEPARATOR.join(f"#{{{field}}}" for field in _FIELDS)
        output = self.run("list-panes", "-s", "-t", f"={_naming.TMUX_SESSION}", "-F", layout)
        return [_pane(line) for line in output.splitlines() if line]

    def group_member(self) -> str | None:
        """A viewer's session that still holds the windows of the lost one, if there is any. Raises TmuxBusyError."""
        try:
            output = self.run("list-sessions", "-F", f"#{{session_group}}{_SEPARATOR}#{{session_name}}")
        except TmuxBusyError:
            raise
        except TmuxError:
            return None
        for line in output.splitlines():
            group, _, name = line.partition(_SEPARATOR)
            if group == _naming.TMUX_SESSION:
                return name
        return None

    def end_forgotten_views(self) -> None:
        """End viewers' sessions that nobody is attached to: their ``attach.sh`` was killed and could not."""
        layout = f"#{{session_attached}}{_SEPARATOR}#{{session_name}}"
        for line in self.run("list-sessions", "-F", layout).splitlines():
            attached, _, name = line.partition(_SEPARATOR)
            if attached == "0" and name.startswith(_VIEW):
                self.run("kill-session", "-t", f"={name}")

    def tail(self, pane: str, scrolled: int) -> list[str]:
        """What a pane shows and the ``scrolled`` lines above it, without the empty lines at the end."""
        return self.run("capture-pane", "-p", "-S", f"-{scrolled}", "-t", pane).rstrip().split("\n")

    def waiter(self) -> subprocess.Popen[bytes]:
        """A client that ends when something changed or the server is gone. Raises TmuxBusyError."""
        try:
            return subprocess.Popen(
                [*self._argv, "wait-for", CHANGED],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise TmuxBusyError(f"tmux can't be run: {error}") from error


def _pane(line: str) -> Pane:
    window, pane_id, pid, dead, status, signal, command, title = line.split(_SEPARATOR, len(_FIELDS) - 1)
    return Pane(
        window=window,
        id=pane_id,
        pid=int(pid or 0),
        dead=dead == "1",
        status=_exit_code(status, signal) if dead == "1" else None,
        command=command,
        title=title,
    )


def _exit_code(status: str, signal: str) -> int | None:
    if signal.isdecimal() and int(signal):
        return _SIGNAL_BASE + int(signal)
    return int(status) if status.isdecimal() else None
