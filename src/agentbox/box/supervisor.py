"""Builds the tmux session of the box and keeps it: the process the container lives by.

It waits for tmux to report a change, looks, and acts. It never starts a second lead beside one that still runs. It is
no tmux client while it waits for a person, holds no secret, and ends on SIGTERM only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType

from agentbox._shared import _naming

from . import status as status_file
from .config import Box
from .ends import Process, await_ends, make_tmux_look, wait_for_end
from .home import prepare
from .status import Lead, Status
from .tmux import Pane, Tmux, TmuxBusyError, TmuxError
from .watch import Watch

MAX_REBUILDS = 5
REBUILD_WINDOW = 600.0  # seconds
_LOOK = 15.0  # seconds between looks when tmux reports nothing
_LOOK_AT_SILENT = 5.0  # seconds between looks at an Observer that does not answer
_SETTLE = 1.0  # seconds before the next attempt after tmux refused
_NO_ROOM = 5.0  # seconds before the next look when there is no room for a process to wait with
_REAPING = 0.1  # seconds tmux gets to notice an ended process
_FAREWELL = 0.7  # seconds the panes get after SIGTERM
_HANG_UP = 3.0  # seconds a process that lost its terminal gets to end by itself
_REOPENING = 1.0  # seconds a tmux server gets to make its socket anew
_log = logging.getLogger("agentbox")


class _StopRequested(Exception):  # noqa: N818 - a request, no error
    """SIGTERM arrived."""


def main(box: Box) -> int:
    return Supervisor(box, Tmux(box.tmux_conf)).run()


class Supervisor:
    """One box's session. ``run`` returns the exit code of the container."""

    def __init__(self, box: Box, tmux: Tmux, clock: Callable[[], float] = time.monotonic) -> None:
        self._box = box
        self._tmux = tmux
        self._clock = clock
        self._rebuilds: deque[float] = deque()
        self._watch = Watch(box.page_port, clock)
        self._lead_pane = self._observer_pane = ""
        self._server: Process | None = None
        self._lead: Process | None = None
        self._observer: Process | None = None
        self._running: set[int] = set()  # processes of panes
        self._ended: set[int] = set()  # those of them that are known to have ended
        self._waiter: subprocess.Popen[bytes] | None = None
        lead_state = "running" if box.lead else "none"
        self._status = Status("starting", "", Lead(box.lead, lead_state))

    def run(self) -> int:
        """Until SIGTERM. Never returns because of tmux, the lead or the Observer."""
        signal.signal(signal.SIGTERM, _raise_stop)
        signal.signal(signal.SIGINT, _raise_stop)
        try:
            self._start()
            while self._status.state != "parked":
                self._wait(self._tend())
            while True:
                signal.pause()
        except _StopRequested:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._stop()
        return 0

    def _start(self) -> None:
        self._save()
        self._status.notes = prepare(self._box, os.environ)
        for note in self._status.notes:
            _log.warning("%s", note)
        self._wait(self._attempt(self._build))

    # --- looking and acting ---------------------------------------------------------------------------------------

    def _tend(self) -> float:
        """One look at the session, repairs included. Returns the seconds until the next look is due."""
        try:
            panes = {pane.id: pane for pane in self._tmux.panes()}
        except TmuxBusyError as error:  # a reason to wait, not to start a second lead
            _log.warning("%s", error)
            return _LOOK
        except TmuxError as error:
            return self._heal(f"the tmux session is lost ({error})", self._rebuild)
        lead = panes.get(self._lead_pane)
        if lead is None:
            return self._heal("the lead's pane is gone", self._replace_lead)
        self._note_running(panes.values())
        self._note_lead(lead)
        delay = self._tend_observer(panes.get(self._observer_pane))
        self._attempt(self._tmux.end_forgotten_views)
        self._status.state = "ready"
        self._save()
        if lead.dead and lead.status is None:
            self._attempt(lambda: make_tmux_look(self._tmux))
            return min(delay, _SETTLE)
        return delay

    def _note_running(self, panes: Iterable[Pane]) -> None:
        """Whose end to wait for. Each end counts once, even while tmux still shows the pane as alive."""
        pids = {pane.pid for pane in panes if not pane.dead}
        self._ended &= pids
        self._running = pids - self._ended

    def _note_lead(self, pane: Pane) -> None:
        lead = self._status.lead
        if pane.dead and lead.state != "exited":
            _log.warning("the lead ended with status %s; %s starts it again", pane.status, "C-b R")
        lead.pane, lead.pid = pane.id, None if pane.dead else pane.pid
        self._lead = None if pane.dead else Process.of(pane.pid)
        lead.code = pane.status
        lead.state = "exited" if pane.dead else "running" if self._box.lead else "none"

    def _tend_observer(self, pane: Pane | None) -> float:
        if pane is not None and not pane.dead:
            return self._ask_observer(pane)
        delay = self._watch.delay()
        if delay > 0:
            return delay
        self._watch.restarted()
        self._status.observer_restarts = self._watch.restarts
        _log.warning("the box Observer ended; restarting it")
        return self._attempt(lambda: self._restart_observer(pane)) or _LOOK

    def _ask_observer(self, pane: Pane) -> float:
        """An Observer whose process runs has to serve too; one that hangs is ended, and then started again."""
        self._observer = Process.of(pane.pid)
        if self._watch.serves():
            return _LOOK
        if self._observer and self._watch.hangs():
            _log.warning("the box Observer does not answer any more; ending it")
            self._observer.send(signal.SIGKILL)
        return _LOOK_AT_SILENT

    def _heal(self, what: str, repair: Callable[[], None]) -> float:
        """Repair, at most MAX_REBUILDS times in REBUILD_WINDOW seconds; then park."""
        now = self._clock()
        while self._rebuilds and now - self._rebuilds[0] > REBUILD_WINDOW:
            self._rebuilds.popleft()
        if len(self._rebuilds) >= MAX_REBUILDS:
            self._park(f"{what}; rebuilt {MAX_REBUILDS} times within {REBUILD_WINDOW / 60:.0f} minutes")
            return 0.0
        self._rebuilds.append(now)
        self._status.rebuilds += 1
        self._status.state = "starting"
        _log.warning("%s; rebuilding", what)
        self._save()
        return self._attempt(repair)

    def _attempt(self, act: Callable[[], None]) -> float:
        try:
            act()
        except TmuxError as error:
            _log.error("%s", error)
            return _SETTLE
        return 0.0

    def _park(self, reason: str) -> None:
        self._status.state, self._status.reason = "parked", reason
        _log.error("parked: %s. Restart the box to try again", reason)
        self._save()

    # --- tmux -----------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        """Session, lead and Observer in one command list, so that nobody ever sees half of it."""
        size = ("-x", str(self._box.columns), "-y", str(self._box.rows))
        name = ("-s", _naming.TMUX_SESSION, "-n", _naming.WINDOW_LEAD)
        session = ("new-session", "-d", *name, *size, *self._lead_command())
        self._tmux.run("start-server")  # a command of its own: its line is what process lists show of the server
        output = self._tmux.run(*session, ";", *_keep(_naming.WINDOW_LEAD), ";", *_observer_window())
        self._lead_pane, self._observer_pane = output.split()
        self._server = Process.of(self._tmux.server_pid())

    def _rebuild(self) -> None:
        self._recover_server()
        if self._tmux.session_exists():
            return  # only the way to it was lost
        member = self._tmux.group_member()
        if member is not None:  # a viewer still holds the windows, and with them the lead
            self._tmux.run("new-session", "-d", "-s", _naming.TMUX_SESSION, "-t", f"={member}")
            return
        _end(self._lead)
        _end(self._observer)
        self._build()

    def _recover_server(self) -> None:
        """A server whose socket was removed makes it anew when told to; one that stays out of reach is ended."""
        if self._server is None or not self._server.runs():
            return
        deadline = time.monotonic() + _REOPENING
        while not self._tmux.server_answers():
            if time.monotonic() > deadline:
                self._server.send(signal.SIGKILL)
                return
            self._server.send(signal.SIGUSR1)
            time.sleep(_REOPENING / 10)

    def _replace_lead(self) -> None:
        _end(self._lead)
        if any(pane.window == _naming.WINDOW_LEAD for pane in self._tmux.panes()):
            start: tuple[str, ...] = ("split-window", "-t", _target(_naming.WINDOW_LEAD))
        else:
            start = ("new-window", "-d", "-t", _SESSION, "-n", _naming.WINDOW_LEAD)
        output = self._tmux.run(*start, *self._lead_command(), ";", *_keep(_naming.WINDOW_LEAD))
        self._lead_pane = output.strip()

    def _lead_command(self) -> tuple[str, ...]:
        return (*_TELL_PANE, "-c", self._box.workspace, *_python("agentbox.box", "lead"))

    def _restart_observer(self, pane: Pane | None) -> None:
        if pane is not None:
            self._tmux.run("respawn-pane", "-k", "-t", pane.id)
        else:
            _end(self._observer)
            self._observer_pane = self._tmux.run(*_observer_window()).strip()

    # --- waiting and ending ---------------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        """Until tmux reports a change, its server or a pane's process ends, or the time is up."""
        if seconds <= 0:
            return
        if self._waiter is None or self._waiter.poll() is not None:
            try:
                self._waiter = self._tmux.waiter()
            except TmuxBusyError:  # the look that follows tells
                time.sleep(min(seconds, _NO_ROOM))
                return
        ended = self._first_ended(self._waiter, seconds)
        if ended & self._running:
            self._ended |= ended
            time.sleep(_REAPING)
            self._attempt(lambda: make_tmux_look(self._tmux))
        if self._waiter.poll() is not None:
            if self._waiter.returncode != 0:
                time.sleep(min(seconds, _SETTLE))
            self._waiter = None

    def _first_ended(self, waiter: subprocess.Popen[bytes], seconds: float) -> set[int]:
        try:
            return wait_for_end({waiter.pid, *self._running}, seconds)
        except OSError:  # without pidfd_open the end of a pane's process is seen at the next look
            with contextlib.suppress(subprocess.TimeoutExpired):
                waiter.wait(timeout=seconds)
            return set()

    def _save(self) -> None:
        try:
            status_file.save(self._box.status_file, self._status)
        except OSError as error:
            _log.error("the status can't be written: %s", error)

    def _stop(self) -> None:
        processes: list[Process | None] = []
        with contextlib.suppress(TmuxError):  # parked: a server without a session
            processes = [Process.of(pane.pid) for pane in self._tmux.panes() if not pane.dead]
        with contextlib.suppress(TmuxError):
            self._tmux.run("kill-server", timeout=1)
        await_ends([process for process in processes if process], _FAREWELL)


_SESSION = f"={_naming.TMUX_SESSION}:"
_TELL_PANE = ("-P", "-F", "#{pane_id}")


def _target(window: str) -> str:
    """The active pane of a window, by exact names."""
    return f"{_SESSION}={window}"


def _keep(window: str) -> tuple[str, ...]:
    """Keep the window's active pane when its process ends, so that its end can be seen."""
    return ("set-option", "-p", "-t", _target(window), "remain-on-exit", "on")


def _observer_window() -> tuple[str, ...]:
    name = _naming.WINDOW_OBSERVER
    window = ("new-window", "-d", "-t", _SESSION, "-n", name, *_TELL_PANE, *_python("agentbox.observer"))
    return (*window, ";", *_keep(name))


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    """A module of this package as argv; several arguments, so tmux runs it without a shell."""
    return (sys.executable, "-m", module, *arguments)


def _end(process: Process | None) -> None:
    """Let nothing outlive its terminal: it would write the conversation that the next resumes, or hold the port."""
    if process:
        await_ends([process], _HANG_UP)
        process.send(signal.SIGKILL)


def _raise_stop(_signal: int, _frame: FrameType | None) -> None:
    raise _StopRequested
