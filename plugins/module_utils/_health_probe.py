"""What a box reports about itself, checked field by field.

The report comes from inside a box, where the agent can forge anything. So: a bounded number of bytes, only known
fields of known types, every text made printable. A report that is wrong in one place is wrong as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ._health import plain
from ._health_facts import CredentialFacts, Hidden, LeadFacts, Pane, ProbeFacts

SCHEMA = 1
MOST_BYTES = 256 * 1024
_MOST_ITEMS = 64  # windows, panes, agents, versions, mounts

_T = TypeVar("_T")


class _WrongError(Exception):
    """``message`` names the field."""


def parse_probe(output: bytes) -> ProbeFacts | Hidden:
    """The report in ``output``, or why it is none."""
    if len(output) > MOST_BYTES:
        return Hidden(f"its report is longer than {MOST_BYTES // 1024} KiB")
    try:
        document = json.loads(output)
        return _probe(_mapping(document, "the report"))
    except (ValueError, RecursionError):
        return Hidden(f"its report is not JSON: {plain(output[:80].decode('utf-8', 'replace'))}")
    except _WrongError as error:
        return Hidden(f"its report is not valid: {error}")


def _probe(report: Mapping[str, Any]) -> ProbeFacts:
    if report.get("schema") != SCHEMA:
        raise _WrongError(f"schema is {plain(report.get('schema'), 20)}, not {SCHEMA}")
    supervisor = _part(report, "supervisor")
    observer = _part(report, "observer")
    hook = _part(report, "hook")
    windows = _items(report, "windows")
    return ProbeFacts(
        supervisor=_choice(supervisor, "state", ("starting", "ready", "parked")),
        supervisor_reason=_text(supervisor, "reason"),
        windows=tuple(_text(window, "name") for window in windows),
        panes=tuple(pane for window in windows for pane in _panes(window)),
        page=_boolean(observer, "page"),
        hooks=_boolean(observer, "hooks"),
        observer_reason=_text(observer, "reason"),
        lead=_lead(_part(report, "lead")),
        hook_ok=_boolean(hook, "ok"),
        hook_seconds=_number(hook, "seconds"),
        hook_reason=_text(hook, "reason"),
        credentials=_named(report, "credentials", _credentials),
        versions={plain(name, 60): plain(value, 60) for name, value in _entries(report, "versions").items()},
        writable=_named(report, "mounts", lambda mount: _boolean(mount, "writable")),
    )


def _panes(window: Mapping[str, Any]) -> Iterable[Pane]:
    name = _text(window, "name")
    for pane in _items(window, "panes"):
        yield Pane(
            window=name,
            id=_text(pane, "id"),
            dead=_boolean(pane, "dead"),
            status=_integer(pane, "status"),
            command=_text(pane, "command"),
        )


def _lead(lead: Mapping[str, Any]) -> LeadFacts:
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


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _WrongError(f"{what} is not an object")
    return value


def _part(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _mapping(parent.get(key), key)


def _entries(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    entries = _part(parent, key)
    if len(entries) > _MOST_ITEMS:
        raise _WrongError(f"{key} has more than {_MOST_ITEMS} entries")
    return entries


def _named(parent: Mapping[str, Any], key: str, read: Callable[[Mapping[str, Any]], _T]) -> dict[str, _T]:
    return {
        plain(name, 200): read(_mapping(entry, f"an entry of {key}")) for name, entry in _entries(parent, key).items()
    }


def _items(parent: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = parent.get(key)
    if not isinstance(value, list) or len(value) > _MOST_ITEMS:
        raise _WrongError(f"{key} is not a list of at most {_MOST_ITEMS}")
    return [_mapping(item, f"an item of {key}") for item in value]


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
