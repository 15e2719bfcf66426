"""What a box reports about itself, checked field by field.

The report comes from inside a box, where the agent can forge anything. So: a bounded number of bytes, only known
fields of known types, every text made printable. A report that is wrong in one place is wrong as a whole; a part
that the box says it could not find out is missing and leaves the rest standing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ._health import plain
from ._health_facts import (
    CredentialFacts,
    Hidden,
    HookFacts,
    LeadFacts,
    ObserverFacts,
    Pane,
    ProbeFacts,
    SessionFacts,
    SupervisorFacts,
)

SCHEMA = 1
MOST_BYTES = 256 * 1024
_MOST_ITEMS = 64  # windows, panes, agents, versions, mounts

_T = TypeVar("_T")


class _WrongError(Exception):
    """A field is not what it has to be."""


def parse_probe(output: bytes) -> ProbeFacts | Hidden:
    """The report in ``output``, or why it is none."""
    return _parsed(output, _probe)


def parse_credentials(output: bytes) -> dict[str, CredentialFacts] | Hidden:
    """By agent whether it has a login, or why that is not known."""
    return _parsed(output, lambda report: _named(report, _credentials))


def _parsed(output: bytes, read: Callable[[Mapping[str, Any]], _T]) -> _T | Hidden:
    if len(output) > MOST_BYTES:
        return Hidden(f"its report is longer than {MOST_BYTES // 1024} KiB")
    try:
        return read(_mapping(json.loads(output)))
    except (ValueError, RecursionError):
        return Hidden(f"its report is not JSON: {plain(output[:80].decode('utf-8', 'replace'))}")
    except _WrongError as error:
        return Hidden(f"its report is not valid: {error}")


def _probe(report: Mapping[str, Any]) -> ProbeFacts:
    if report.get("schema") != SCHEMA:
        raise _WrongError(f"schema is {plain(report.get('schema'), 20)}, not {SCHEMA}")
    return ProbeFacts(
        supervisor=_told(report, "supervisor", _supervisor),
        session=_told(report, "windows", _session),
        observer=_told(report, "observer", _observer),
        lead=_told(report, "lead", _lead),
        hook=_told(report, "hook", _hook),
        credentials=_told(report, "credentials", lambda part: _named(part, _credentials)),
        versions=_told(report, "versions", _versions),
        writable=_told(report, "mounts", lambda part: _named(part, _writing_problem)),
    )


def _told(report: Mapping[str, Any], key: str, read: Callable[[Any], _T]) -> _T | Hidden:
    """A part of the report. In place of a part that failed or hung the box gives nothing but a ``reason``."""
    part = report.get(key)
    if isinstance(part, dict) and set(part) == {"reason"}:
        return Hidden(_text(part, "reason"))
    try:
        return read(part)
    except _WrongError as error:
        raise _WrongError(f"{key}: {error}") from None


def _supervisor(part: object) -> SupervisorFacts:
    supervisor = _mapping(part)
    return SupervisorFacts(
        state=_choice(supervisor, "state", ("starting", "ready", "parked")),
        reason=_text(supervisor, "reason"),
        notes=tuple(plain(note) for note in _list(supervisor.get("notes", []))),
    )


def _session(part: object) -> SessionFacts:
    windows = [_mapping(window) for window in _list(part)]
    return SessionFacts(
        windows=tuple(_text(window, "name") for window in windows),
        panes=tuple(pane for window in windows for pane in _panes(window)),
    )


def _observer(part: object) -> ObserverFacts:
    observer = _mapping(part)
    return ObserverFacts(_boolean(observer, "page"), _boolean(observer, "hooks"), _text(observer, "reason"))


def _hook(part: object) -> HookFacts:
    hook = _mapping(part)
    return HookFacts(_boolean(hook, "ok"), _number(hook, "seconds"), _text(hook, "reason"))


def _versions(part: object) -> dict[str, str | None]:
    """Versions by program; None for a program that did not tell."""
    versions = _entries(part)
    return {plain(name, 60): plain(_text(versions, name), 60) or None for name in versions}


def _panes(window: Mapping[str, Any]) -> Iterable[Pane]:
    name = _text(window, "name")
    for item in _list(window.get("panes")):
        pane = _mapping(item)
        yield Pane(
            window=name,
            id=_text(pane, "id"),
            dead=_boolean(pane, "dead"),
            status=_integer(pane, "status"),
            command=_text(pane, "command"),
        )


def _lead(part: object) -> LeadFacts:
    lead = _mapping(part)
    return LeadFacts(
        agent=_text(lead, "agent") or None,
        state=_choice(lead, "state", ("running", "exited", "none")),
        code=_integer(lead, "code"),
    )


def _credentials(entry: Mapping[str, Any]) -> CredentialFacts:
    return CredentialFacts(
        present=_choice(entry, "state", ("present", "none")) == "present",
        kind=_text(entry, "kind") or None,
    )


def _writing_problem(mount: Mapping[str, Any]) -> str:
    return "" if _boolean(mount, "writable") else _text(mount, "reason") or "no reason given"


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _WrongError("is not an object")
    return value


def _entries(value: object) -> Mapping[str, Any]:
    entries = _mapping(value)
    if len(entries) > _MOST_ITEMS:
        raise _WrongError(f"has more than {_MOST_ITEMS} entries")
    return entries


def _named(value: object, read: Callable[[Mapping[str, Any]], _T]) -> dict[str, _T]:
    return {plain(name, 200): read(_mapping(entry)) for name, entry in _entries(value).items()}


def _list(value: object) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_ITEMS:
        raise _WrongError(f"is not a list of at most {_MOST_ITEMS}")
    return value


def _text(parent: Mapping[str, Any], key: str) -> str:
    """A text that may be missing or null."""
    value = parent.get(key)
    if value is not None and not isinstance(value, str):
        raise _WrongError(f"{key} is not a text")
    return plain(value or "")


def _boolean(parent: Mapping[str, Any], key: str) -> bool:
    value = parent.get(key)
    if not isinstance(value, bool):
        raise _WrongError(f"{key} is not true or false")
    return value


def _integer(parent: Mapping[str, Any], key: str) -> int | None:
    value = parent.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _WrongError(f"{key} is not a whole number")
    return value


def _number(parent: Mapping[str, Any], key: str) -> float | None:
    value = parent.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _WrongError(f"{key} is not a number")
    return float(value)


def _choice(parent: Mapping[str, Any], key: str, choices: tuple[_T, ...]) -> _T:
    value = parent.get(key)
    for choice in choices:
        if value == choice:
            return choice
    raise _WrongError(f"{key} is none of {', '.join(map(str, choices))}")
