"""Verdicts about the parts of a box that have to work, as the box reports them. Pure."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping

from ._health import Check
from ._health_facts import (
    Expected,
    Hidden,
    HookFacts,
    LeadFacts,
    ObserverFacts,
    SessionFacts,
    SupervisorFacts,
)
from ._health_state import KILLED, SIGNAL_BASE, signal_name
from ._naming import WINDOW_LEAD, WINDOW_OBSERVER

_INTERRUPTED = SIGNAL_BASE + signal.SIGINT
# What can be wrong where an agent writes, and what to do about it.
_FULL = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
_READ_ONLY = os.strerror(errno.EROFS)


def supervisor_check(box: Expected, supervisor: SupervisorFacts) -> Check:
    reason = f": {supervisor.reason}" if supervisor.reason else ""
    if supervisor.state == "parked":
        return Check(
            "supervisor",
            box.name,
            "fail",
            f"parked after too many restarts of its session{reason}",
            f"Correct the cause, then `docker restart {box.container}`",
        )
    if supervisor.state == "starting":
        return Check("supervisor", box.name, "unknown", f"still starting{reason}", "Wait", settling=True)
    if supervisor.notes:
        return Check(
            "supervisor", box.name, "warn", f"ready; {'; '.join(supervisor.notes)}", "Correct what it names in HOME"
        )
    return Check("supervisor", box.name, "ok", "ready")


def tmux_check(box: Expected, session: SessionFacts) -> Check:
    """The session has its two windows, and nothing has died in them but perhaps the lead."""
    missing = [window for window in (WINDOW_LEAD, WINDOW_OBSERVER) if window not in session.windows]
    dead = [
        f"{pane.window} {pane.id} (status {pane.status})"
        for pane in session.panes
        if pane.dead and pane.window != WINDOW_LEAD
    ]
    if not missing and not dead:
        return Check("tmux", box.name, "ok", f"windows {', '.join(session.windows)}")
    problems = [f"window {window} is missing" for window in missing] + [f"pane {pane} is dead" for pane in dead]
    return Check(
        "tmux",
        box.name,
        "fail",
        "; ".join(problems),
        f"The supervisor rebuilds them; if it does not, `docker restart {box.container}`",
        settling=True,
    )


def lead_now(lead: LeadFacts, session: SessionFacts | Hidden) -> LeadFacts:
    """What the supervisor knows of the lead, corrected by its pane, which the supervisor may not have looked at yet."""
    panes = [pane for pane in session.panes if pane.window == WINDOW_LEAD] if isinstance(session, SessionFacts) else []
    if lead.state == "none" or len(panes) != 1 or not panes[0].dead:
        return lead
    return LeadFacts(lead.agent, "exited", lead.code if panes[0].status is None else panes[0].status)


def lead_check(box: Expected, lead: LeadFacts, out_of_memory: bool) -> Check:
    """The lead runs, or has ended with a code that tells how."""
    if lead.state == "running":
        return Check("lead", box.name, "ok", f"{lead.agent or 'the lead'} is running")
    if lead.state == "none":
        return _no_lead_check(box)
    agent = lead.agent or box.lead or "the lead"
    title = str(box.manifests.get(agent, {}).get("title") or agent)
    seen = f"{title} exited with {_code_text(lead.code)}"
    todo = f"Attach (`{box.command('attach')}`); window {WINDOW_LEAD} says how to start it again"
    if lead.code in (0, _INTERRUPTED):
        return Check("lead", box.name, "warn", seen, todo)
    if lead.code == KILLED and out_of_memory:
        seen = f"{seen}; the kernel killed processes of this box at the memory limit"
        todo = f"Raise `memory` or give the agent smaller work. {todo}"
    elif lead.code == os.EX_CONFIG:
        seen = f"{title} was not started (code {os.EX_CONFIG})"
        todo = f"Attach (`{box.command('attach')}`); window {WINDOW_LEAD} says why, and how to start it again"
    return Check("lead", box.name, "fail", seen, todo)


def _no_lead_check(box: Expected) -> Check:
    if box.lead is None:
        return Check("lead", box.name, "ok", "no lead is declared")
    return Check(
        "lead", box.name, "fail", f"{box.lead} has not been started", f"Look at window {WINDOW_LEAD}", settling=True
    )


def _code_text(code: int | None) -> str:
    if code is None:
        return "an unknown code"
    if code > SIGNAL_BASE:
        return f"code {code} ({signal_name(code - SIGNAL_BASE)})"
    return f"code {code}"


def observer_check(box: Expected, observer: ObserverFacts) -> Check:
    down = [name for name, up in (("its page", observer.page), ("its hook sink", observer.hooks)) if not up]
    if down:
        reason = f": {observer.reason}" if observer.reason else ""
        return Check(
            "observer",
            box.name,
            "fail",
            f"{' and '.join(down)} does not answer in the box{reason}",
            f"The supervisor starts it again; if it does not, look at window {WINDOW_OBSERVER}",
            settling=True,
        )
    if observer.reason:
        return Check("observer", box.name, "warn", observer.reason, f"Look at window {WINDOW_OBSERVER} of the box")
    return Check("observer", box.name, "ok", "page and hook sink answer in the box")


def hook_event_check(box: Expected, hook: HookFacts) -> Check:
    """A synthetic event went the way of a real one: posted to the sink, found in the store."""
    if hook.ok:
        took = "" if hook.seconds is None else f" in {hook.seconds:.2f} s"
        return Check("hook-event", box.name, "ok", f"a synthetic event made the round trip{took}")
    reason = f": {hook.reason}" if hook.reason else ""
    return Check(
        "hook-event",
        box.name,
        "fail",
        f"a synthetic event was lost{reason}",
        f"Look at window {WINDOW_OBSERVER} of the box",
        settling=True,
    )


def writable_check(box: Expected, writable: Mapping[str, str]) -> Check:
    """The agent can write where its work and its state go."""
    closed = {path: problem for path, problem in sorted(writable.items()) if problem}
    if closed:
        listed = ", ".join(f"{path} ({problem})" for path, problem in closed.items())
        todo = ". ".join(dict.fromkeys(_make_writable(box, problem) for problem in closed.values()))
        return Check("writable", box.name, "fail", f"the agent cannot write to {listed}", todo)
    return Check("writable", box.name, "ok", f"the agent can write to {', '.join(sorted(writable))}")


def _make_writable(box: Expected, problem: str) -> str:
    if problem in _FULL:
        return f"Free space there (`{box.command('shell')}`), or on the host's disk or quota that holds it"
    if problem == _READ_ONLY:
        return "Look at the host's kernel log: a disk with errors becomes read-only; then restart the box"
    return "Check the owner on the host, or `workspace_access`; site.yml sets both"
