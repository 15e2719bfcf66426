"""Verdicts about one box: state, mounts, page, tmux, lead, Observer, hooks, credentials, versions, network. Pure."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import _proxy
from ._advisory import unenforced_limits
from ._credentials import EXPLICIT
from ._health import Check, plain
from ._health_facts import (
    BoxFacts,
    CgroupFacts,
    CredentialFacts,
    EngineFacts,
    Expected,
    Hidden,
    HookFacts,
    HostFacts,
    LeadFacts,
    ObserverFacts,
    PageFacts,
    ProbeFacts,
    SessionFacts,
    SupervisorFacts,
)
from ._health_hardening import hardening_check, limits_check, pressure_check
from ._health_host import differing_versions, proxy_check
from ._naming import WINDOW_LEAD, WINDOW_OBSERVER

# What can be known only while the box runs, in the order of the checklist.
LIVE_IDS = (
    "image-current",
    "hardening",
    "limits",
    "pressure",
    "ca",
    "proxy",
    "probe",
)
# What the box itself reports.
PROBE_IDS = ("supervisor", "tmux", "lead", "observer", "hook-event", "credentials", "versions", "writable")
# What a box needs for its work, of that.
_WORKING_IDS = ("probe", "supervisor", "tmux", "lead", "observer", "writable")
# Environment variables of a proxy, in both spellings.
PROXY_VARIABLES = tuple(spelling for name in _proxy.VARIABLES for spelling in (name.upper(), name))

_SIGNAL_BASE = 128  # a shell's exit code for "ended by signal n" is this plus n
_INTERRUPTED = _SIGNAL_BASE + signal.SIGINT
_KILLED = _SIGNAL_BASE + signal.SIGKILL
# What the engine and shells mean by an exit code, and what to do about it.
_KNOWN_EXITS = {
    0: ("ended as asked", ""),
    126: ("its program cannot be executed", "Run `agentbox rebuild`"),
    127: (
        "its program was not found: a mounted file or the image's bash is missing",
        "Run site.yml, which writes the files again",
    ),
    _KILLED: ("killed: it did not end in time, or somebody killed it", ""),
}

# The engine tries once when the host boots, and what it mounts may not be there yet.
_UNSTARTABLE = (
    "Correct what it names, then run site.yml or `agentbox up`. A path that is mounted late in the boot: let the "
    "engine start after it"
)
# What can be wrong where an agent writes, and what to do about it.
_FULL = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
_READ_ONLY = os.strerror(errno.EROFS)


def box_checks(facts: BoxFacts, host: HostFacts, engine_socket: str, predicting: bool) -> list[Check]:
    """All checks of one box, on an engine that answers.

    ``predicting`` says that a missing box would be made by the
    run this is part of.
    """
    box = facts.expected
    if box.state == "adopted":
        return [adopted_check(facts)]
    state = state_check(facts, predicting)
    if facts.inspect is None:
        return _not_there(facts, state, predicting)
    checks = [state, *source_checks(facts), _page_check_of(facts), *hook_settings_checks(facts)]
    if not running(facts.inspect):
        if box.state == "started":
            checks += _open_checks(box, state, "the box is not running", (*LIVE_IDS, *PROBE_IDS))
        return checks
    unenforced = unenforced_limits(host.engine.info) if isinstance(host.engine, EngineFacts) else frozenset[str]()
    checks += [
        image_current_check(facts, host),
        hardening_check(facts, engine_socket),
        limits_check(facts, unenforced),
        pressure_check(facts),
        box_ca_check(facts, host),
        proxy_check(box.name, proxy_variables(facts.inspect)),
    ]
    return checks + _probe_checks(facts)


def troubles(facts: BoxFacts) -> list[Check]:
    """What keeps a box from its work, of what is known at a glance; the pressure on it only as the reason of more."""
    if facts.inspect is None or not running(facts.inspect):
        return [state for state in [state_check(facts, predicting=False)] if state.verdict != "ok"]
    checks = [state_check(facts, predicting=False)]
    checks += [check for check in _probe_checks(facts) if check.id in _WORKING_IDS]
    found = [check for check in checks if check.verdict in ("fail", "warn")]
    return [*found, pressure] if found and (pressure := pressure_check(facts)).verdict == "warn" else found


def unreachable_box_checks(box: Expected, reason: str) -> list[Check]:
    """The checks of a box nobody can ask about, because the engine does not answer."""
    if box.state == "adopted":
        return [Check("state", box.name, "unknown", reason)]
    open_ids = ("state", "mounts", "port", "hook-settings", *LIVE_IDS, *PROBE_IDS)
    return [Check(check_id, box.name, "unknown", reason) for check_id in open_ids]


def _not_there(facts: BoxFacts, state: Check, predicting: bool) -> list[Check]:
    box = facts.expected
    if box.state != "started":
        return [state]
    reason = "the box is not there yet" if predicting else "there is no such box"
    checks = [state, *_workspace_checks(facts), _page_check_of(facts)]
    return checks + _open_checks(box, state, reason, ("hook-settings", *LIVE_IDS, *PROBE_IDS))


def _open_checks(box: Expected, cause: Check, reason: str, ids: Iterable[str]) -> list[Check]:
    return [Check(check_id, box.name, "unknown", reason, settling=cause.settling) for check_id in ids]


def running(inspect: Mapping[str, Any]) -> bool:
    """Whether programs in the container make progress."""
    return _status(inspect) == "running"


def _status(inspect: Mapping[str, Any]) -> str:
    return str((inspect.get("State") or {}).get("Status") or "unknown")


# --- the container's state ------------------------------------------------------------------------------------------


def adopted_check(facts: BoxFacts) -> Check:
    """All that is judged of an adopted box: its container is there."""
    box = facts.expected
    if facts.inspect is None:
        return Check(
            "state",
            box.name,
            "fail",
            f"its adopted container {box.container} is gone",
            f"Bring the container back, or forget the box: {box.command('down')}, and no longer declare it",
        )
    seen = f"adopted container {box.container} is {plain(_status(facts.inspect), 30)}; Agentbox leaves it as it is"
    return Check("state", box.name, "ok", seen)


def state_check(facts: BoxFacts, predicting: bool) -> Check:
    """The container's state against the declared one."""
    box = facts.expected
    if facts.inspect is None:
        if box.state == "started":
            return _missing_check(box, predicting)
        return Check("state", box.name, "ok", f"there is no container {box.container}; declared is {box.state}")
    if box.state == "started":
        return _started_check(box, facts.inspect)
    status = _status(facts.inspect)
    if box.state == "stopped" and status in ("exited", "created"):
        return Check("state", box.name, "ok", f"stopped, as it should be ({_ending(facts.inspect)[0]})")
    return Check(
        "state", box.name, "warn", f"{plain(status, 30)}; declared is {box.state}", "Run site.yml, or change `state`"
    )


def _missing_check(box: Expected, predicting: bool) -> Check:
    seen = f"there is no container {box.container}"
    if predicting:
        return Check("state", box.name, "unknown", f"{seen} yet; this run would create it")
    return Check("state", box.name, "fail", seen, f"Run `{box.command('up')}` or site.yml")


def _started_check(box: Expected, inspect: Mapping[str, Any]) -> Check:
    status = _status(inspect)
    restarts = int(inspect.get("RestartCount") or 0)
    again = f", restarted {restarts} times" if restarts else ""
    if status == "running":
        return _health_check(box, inspect, again)
    if status == "paused":
        return Check(
            "state", box.name, "fail", "paused: everything in it stands still", f"docker unpause {box.container}"
        )
    if status == "created":
        return Check(
            "state",
            box.name,
            "fail",
            f"created, not started{_engine_error(inspect)}",
            f"Run `{box.command('up')}` or site.yml",
            settling=True,
        )
    ending, advice = _ending(inspect)
    return Check(
        "state",
        box.name,
        "fail",
        f"{plain(status, 30)}: {ending}{again}",
        advice or f"Run `{box.command('up')}` or site.yml",
        settling=status == "restarting",
    )


def _health_check(box: Expected, inspect: Mapping[str, Any], again: str) -> Check:
    health = (inspect.get("State") or {}).get("Health") or {}
    status = str(health.get("Status") or "none")
    if status == "unhealthy":
        log = health.get("Log") or [{}]
        return Check(
            "state",
            box.name,
            "fail",
            f"running{again}, unhealthy: {plain(log[-1].get('Output') or 'no output')}",
            f"Look at `{box.command('logs')}`",
            settling=True,
        )
    note = {
        "healthy": ", healthy",
        "starting": "; the engine's own health check has no result yet",
        "none": "; it has no health check of the engine",
    }.get(status, "")
    return Check("state", box.name, "ok", f"running{note}{again}")


def _ending(inspect: Mapping[str, Any]) -> tuple[str, str]:
    """How the container ended, and what to do about it."""
    state: Mapping[str, Any] = inspect.get("State") or {}
    error = _engine_error(inspect)
    if state.get("Status") == "created":
        return f"never started{error}", ""
    if error:
        return f"the engine could not start it{error}", _UNSTARTABLE
    return explain_exit(int(state.get("ExitCode") or 0), bool(state.get("OOMKilled")))


def _engine_error(inspect: Mapping[str, Any]) -> str:
    error = plain((inspect.get("State") or {}).get("Error") or "")
    return f" ({error})" if error else ""


def explain_exit(code: int, out_of_memory: bool) -> tuple[str, str]:
    """What an exit code of a container means, and what to do about it."""
    if out_of_memory:
        return (
            f"exit code {code}, the kernel killed processes at the memory limit",
            "Raise `memory`, or give the agent smaller work",
        )
    if code in _KNOWN_EXITS:
        meaning, advice = _KNOWN_EXITS[code]
        return f"exit code {code}, {meaning}", advice
    if code > _SIGNAL_BASE:
        return f"exit code {code}, ended by {_signal_name(code - _SIGNAL_BASE)}", ""
    return f"exit code {code}, its start script failed", "Look at `agentbox logs`"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# --- files on the host ----------------------------------------------------------------------------------------------


def source_checks(facts: BoxFacts) -> list[Check]:
    """What is mounted into the box exists on the host and is what it has to be."""
    name = facts.expected.name
    problems = [*_mount_problems(facts), *_state_file_problems(facts)]
    if problems:
        return [Check("mounts", name, "fail", "; ".join(problems), "Correct the named paths, then run site.yml")]
    unreadable = [mount.source for mount in facts.mounts if mount.kind == "unreadable"]
    if unreadable:
        return [Check("mounts", name, "unknown", f"not allowed to look at {', '.join(map(plain, unreadable))}")]
    return [Check("mounts", name, "ok", f"all {len(facts.mounts)} mounted paths are there")]


def _mount_problems(facts: BoxFacts) -> Iterator[str]:
    for mount in facts.mounts:
        source = plain(mount.source)
        if mount.kind == "missing":
            yield f"{source} (for {plain(mount.target)}) is missing"
        elif mount.same is False:
            yield f"{source} was made anew while the box ran; the box still holds the old one until it is restarted"
    workspace = facts.expected.workspace
    if workspace and facts.workspace_kind not in ("directory", "missing", "unreadable", None):
        yield f"the workspace {plain(workspace)} is a {facts.workspace_kind}, not a directory"


def _state_file_problems(facts: BoxFacts) -> Iterator[str]:
    for file in facts.state_files:
        if file.kind == "missing":
            yield f"{file.path} is missing"
        elif file.kind not in (file.wanted, "unreadable"):
            yield f"{file.path} is a {file.kind}, not a {file.wanted}"


def _workspace_checks(facts: BoxFacts) -> list[Check]:
    """For a box that is not there yet, all that can be said about mounts is whether its workspace exists."""
    box = facts.expected
    if not box.workspace or facts.workspace_kind is None:
        return []
    path = plain(box.workspace)
    if facts.workspace_kind == "directory":
        return [Check("mounts", box.name, "ok", f"the workspace {path} is there")]
    if facts.workspace_kind == "unreadable":
        return [Check("mounts", box.name, "unknown", f"not allowed to look at the workspace {path}")]
    what = "is missing" if facts.workspace_kind == "missing" else f"is a {facts.workspace_kind}, not a directory"
    return [Check("mounts", box.name, "fail", f"the workspace {path} {what}", "Make it, or correct `workspace`")]


def hook_settings_checks(facts: BoxFacts) -> list[Check]:
    """The hook settings that agents read are exactly those that Agentbox renders."""
    name, problems = facts.expected.name, []
    for settings in facts.hooks:
        if settings.problem:
            problems.append(f"{settings.agent}: {settings.path} {plain(settings.problem)}")
        elif settings.found != settings.wanted:
            problems.append(f"{settings.agent}: {settings.path} differs from what Agentbox writes")
    if problems:
        return [Check("hook-settings", name, "fail", "; ".join(problems), "Run site.yml, which writes them again")]
    if not facts.hooks:
        return [Check("hook-settings", name, "ok", "no agent of this box has hooks")]
    agents = ", ".join(settings.agent for settings in facts.hooks)
    return [Check("hook-settings", name, "ok", f"in place for {agents}")]


# --- the page -------------------------------------------------------------------------------------------------------


def _page_check_of(facts: BoxFacts) -> Check:
    return page_check(facts.expected, facts.page, facts.inspect is not None and running(facts.inspect))


def page_check(box: Expected, page: PageFacts | None, box_runs: bool) -> Check:
    """Whether the published address is free, answered by this box, or held by something else."""
    if box.publish is None or page is None:
        return Check("port", box.name, "ok", "the page is not published on the host")
    address = f"{box.publish[0]}:{box.publish[1]}"
    if page.taken is None:
        return _free_port_check(box, address, box_runs)
    if page.container != box.container or not box_runs:
        return _foreign_port_check(box, page, address)
    return _own_page_check(box, page, address)


def _free_port_check(box: Expected, address: str, box_runs: bool) -> Check:
    if box.state == "started" and box_runs:
        return Check(
            "port",
            box.name,
            "fail",
            f"nothing listens on {address}",
            "Run site.yml; if the port is not published, recreate the box",
        )
    return Check("port", box.name, "ok", f"{address} is free")


def _foreign_port_check(box: Expected, page: PageFacts, address: str) -> Check:
    seen = f"{address} is published by container {plain(page.container)}" if page.container else plain(page.taken)
    return Check(
        "port",
        box.name,
        "fail" if box.state == "started" else "warn",
        seen,
        "Stop what holds it, or choose another address with `publish` (`--port`)",
    )


def _own_page_check(box: Expected, page: PageFacts, address: str) -> Check:
    if page.ours and page.healthy is not False:
        return Check("port", box.name, "ok", f"the page answers on http://{address}")
    what = "answers, and says" if page.ours else "does not answer as a box Observer"
    return Check(
        "port",
        box.name,
        "fail",
        f"the page on http://{address} {what}: {page.reason}",
        f"Look at `{box.command('logs')}`",
        settling=True,
    )


# --- image, certificates, environment -------------------------------------------------------------------------------


def image_current_check(facts: BoxFacts, host: HostFacts) -> Check:
    """Whether the box runs the image its tag means now."""
    box, inspect = facts.expected, facts.inspect or {}
    used = str(inspect.get("Image") or "")
    tagged = next((image.inspect for image in host.images if image.reference == box.image), None)
    if tagged is None:
        return Check("image-current", box.name, "unknown", f"there is no image {box.image} to compare with")
    if used != tagged.get("Id"):
        return Check(
            "image-current",
            box.name,
            "warn",
            f"runs an earlier image than {box.image} means now",
            "Recreate the box when it suits you: `agentbox rebuild`, or `recreate: drift`",
        )
    return Check("image-current", box.name, "ok", f"runs the current {box.image}")


def environment(inspect: Mapping[str, Any]) -> dict[str, str]:
    """Variables the container was created with."""
    pairs = (str(entry).partition("=") for entry in (inspect.get("Config") or {}).get("Env") or [])
    return {name: value for name, separator, value in pairs if separator}


def proxy_variables(inspect: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in environment(inspect).items() if name in PROXY_VARIABLES}


def box_ca_check(facts: BoxFacts, host: HostFacts) -> Check:
    """What the host trusts the box trusts: the files its variables name are there and hold the host's certificates."""
    name = facts.expected.name
    missing = sorted(path for path, digests in facts.ca_files.items() if not digests)
    if missing:
        return Check(
            "ca",
            name,
            "fail",
            f"variables of the box name {', '.join(map(plain, missing))}, which hold no certificate in it",
            "Run `agentbox rebuild`",
        )
    if not facts.ca_files:
        return Check(
            "ca", name, "warn", "no variable of the box names a bundle of certificates", "Run `agentbox rebuild`"
        )
    held = frozenset[str]().union(*(digests or () for digests in facts.ca_files.values()))
    lacking = host.ca_digests - held
    if lacking:
        return Check(
            "ca",
            name,
            "warn",
            f"the box lacks {len(lacking)} of the {len(host.ca_digests)} certificates the host trusts",
            "Run `agentbox rebuild`, which takes the host's bundle along",
        )
    return Check("ca", name, "ok", f"the box trusts all {len(host.ca_digests)} certificates the host trusts")


# --- what the box reports -------------------------------------------------------------------------------------------


def _probe_checks(facts: BoxFacts) -> list[Check]:
    box, probe = facts.expected, facts.probe
    if not isinstance(probe, ProbeFacts):
        reason = probe.reason if isinstance(probe, Hidden) else "not asked"
        failed = Check(
            "probe",
            box.name,
            "fail",
            f"the box does not report about itself: {reason}",
            f"Look at `{box.command('logs')}`",
            settling=True,
        )
        return [failed, *_open_checks(box, failed, "the box does not report about itself", PROBE_IDS)]
    judged: tuple[tuple[str, object, Callable[[Any], Iterable[Check]]], ...] = (
        ("supervisor", probe.supervisor, lambda part: [supervisor_check(box, part)]),
        ("tmux", probe.session, lambda part: [tmux_check(box, part)]),
        ("lead", probe.lead, lambda part: [lead_check(box, lead_now(part, probe.session), _out_of_memory(facts))]),
        ("observer", probe.observer, lambda part: [observer_check(box, part)]),
        ("hook-event", probe.hook, lambda part: [hook_event_check(box, part)]),
        ("credentials", probe.credentials, lambda part: credential_checks(box, part)),
        ("versions", probe.versions, lambda part: [versions_check(box, part)]),
        ("writable", probe.writable, lambda part: [writable_check(box, part)]),
    )
    checks = [Check("probe", box.name, "ok", "the box reports about itself")]
    for check_id, part, judge in judged:
        checks += _untold(box, check_id, part) if isinstance(part, Hidden) else judge(part)
    return checks


def _untold(box: Expected, check_id: str, part: Hidden) -> list[Check]:
    return [Check(check_id, box.name, "unknown", f"the box could not find out: {part.reason}", settling=True)]


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


def _out_of_memory(facts: BoxFacts) -> bool:
    """Whether the kernel has killed a process of the box at its memory limit."""
    return isinstance(facts.cgroup, CgroupFacts) and bool(facts.cgroup.oom_kills)


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
    if lead.code == _KILLED and out_of_memory:
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
    if code > _SIGNAL_BASE:
        return f"code {code} ({_signal_name(code - _SIGNAL_BASE)})"
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


def credential_checks(box: Expected, credentials: Mapping[str, CredentialFacts]) -> list[Check]:
    """Whether each agent has credentials. Never whether they are valid: only their vendor could tell."""
    return [_credential_check(box, agent, credentials.get(agent)) for agent in box.agents or tuple(sorted(credentials))]


def _credential_check(box: Expected, agent: str, found: CredentialFacts | None) -> Check:
    manifest = box.manifests.get(agent)
    if manifest is not None and not manifest.get("credentials"):
        return Check("credentials", box.name, "ok", f"{agent}: needs none")
    if found is None:
        return Check("credentials", box.name, "unknown", f"{agent}: the box does not say")
    if found.present:
        kind = f" ({found.kind})" if found.kind else ""
        return Check("credentials", box.name, "ok", f"{agent}: present{kind}, not validated")
    if box.credentials == "none":
        return Check("credentials", box.name, "ok", f"{agent}: none, as declared")
    login = ((manifest or {}).get("credentials") or {}).get("login") or f"{agent}'s own log-in"
    inside = f"Log in inside the box: `{login}` (`{box.command('shell')}`), or declare a secret"
    if box.credentials in EXPLICIT:
        seen = f"{agent}: none, though its declaration says {box.credentials}"
        return Check("credentials", box.name, "fail", seen, inside)
    return Check("credentials", box.name, "warn", f"{agent}: none", inside)


def versions_check(box: Expected, versions: Mapping[str, str | None]) -> Check:
    """The agents' own version commands against the pinned versions."""
    told = {name: version for name, version in versions.items() if version}
    silent = [agent for agent in box.agents if agent not in told]
    if silent:
        return Check(
            "versions", box.name, "fail", f"{', '.join(silent)} does not tell its version", "Run `agentbox rebuild`"
        )
    differing = differing_versions(told, box.manifests)
    if differing:
        return Check("versions", box.name, "warn", "; ".join(differing), "Run `agentbox rebuild`, recreate the box")
    listed = ", ".join(f"{name} {version}" for name, version in sorted(told.items()))
    return Check("versions", box.name, "ok", listed or "no agents")


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
