"""Verdicts about a container's state, and what exit codes mean. Pure."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from ._health import Check, plain
from ._health_facts import BoxFacts, Expected

SIGNAL_BASE = 128  # a shell's exit code for "ended by signal n" is this plus n
KILLED = SIGNAL_BASE + signal.SIGKILL
# What the engine and shells mean by an exit code, and what to do about it.
_KNOWN_EXITS = {
    0: ("ended as asked", ""),
    126: ("its program cannot be executed", "Run `agentbox rebuild`"),
    127: (
        "its program was not found: a mounted file or the image's bash is missing",
        "Run site.yml, which writes the files again",
    ),
    KILLED: ("killed: it did not end in time, or somebody killed it", ""),
}
# The engine tries once when the host boots, and what it mounts may not be there yet.
_UNSTARTABLE = (
    "Correct what it names, then run site.yml or `agentbox up`. A path that is mounted late in the boot: let the "
    "engine start after it"
)


def running(inspect: Mapping[str, Any]) -> bool:
    """Whether programs in the container make progress."""
    return _status(inspect) == "running"


def _status(inspect: Mapping[str, Any]) -> str:
    return str((inspect.get("State") or {}).get("Status") or "unknown")


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
    if code > SIGNAL_BASE:
        return f"exit code {code}, ended by {signal_name(code - SIGNAL_BASE)}", ""
    return f"exit code {code}, its start script failed", "Look at `agentbox logs`"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
