"""What has to change in an agent's settings so that they hold exactly our hook entries beside everybody else's. Pure.

Ours are the handlers that bear our mark, see ``_hooks.is_owned()``. Each is wanted in an entry of its own that applies
always. Everything else stays as it is, to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _json_text
from ._errors import DeclarationError, SettingsError
from ._hooks import Handler, group, is_owned

HOOKS = "hooks"  # the key of an agent's settings, of which nothing else is looked at, and the one of an entry
# Nothing that a shell or curl takes for more than it is.
_SINK = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[A-Za-z0-9._~-]+)*")


@dataclass
class Merge:
    """Settings with our entries as wanted, and the event types in which something had to be done for it."""

    text: str
    added: list[str] = field(default_factory=list)
    healed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return bool(self.added or self.healed or self.removed)


def sink_address(value: str) -> str:
    """The address of a hook sink without trailing slash.

    Raises ``DeclarationError`` for anything but a plain http(s) address; credentials in it would stand in the settings
    of every user, in command lines and in diffs.
    """
    address = value.rstrip("/")
    if not _SINK.fullmatch(address):
        raise DeclarationError("url: must be a plain http(s) address, such as http://127.0.0.1:4318")
    return address


def merge(text: str, wanted: Mapping[str, Handler], owner: str) -> Merge:
    """Settings ``text`` with exactly the handlers of ``wanted``, by event type, as those of ``owner``.

    Raises ``SettingsError`` for settings in which that is not possible: no JSON, or not of the shape that agents read.
    """
    found = _found(text)
    merge = Merge(text)
    for event in dict.fromkeys([*found, *wanted]):
        _merge_event(merge, event, found.get(event, []), wanted.get(event), owner)
    return merge


def _found(text: str) -> dict[str, Any]:
    """Event type to entries, as they stand in the settings."""
    try:
        settings = _json_text.parsed(text)
    except ValueError as error:
        raise SettingsError(f"is not valid JSON ({error})", "Repair it, or move it away") from None
    if not isinstance(settings, dict):
        raise SettingsError("holds no JSON object", "Repair it, or move it away")
    hooks = settings.get(HOOKS, {})
    if not isinstance(hooks, dict):
        raise SettingsError(f"holds {HOOKS} that are no object", "Repair it")
    return hooks


def _merge_event(merge: Merge, event: str, entries: Any, handler: Handler | None, owner: str) -> None:
    if not isinstance(entries, list):
        if handler:
            raise SettingsError(f"holds {HOOKS}.{event} that is no list", "Repair it")
        return
    ours = {index: own for index, entry in enumerate(entries) if (own := _own_handlers(entry, owner))}
    alone = [index for index, own in ours.items() if len(own) == len(entries[index][HOOKS])]
    exact = [index for index in alone if handler and entries[index] == group(handler)]
    kept = next(iter([*exact, *alone]), None) if handler else None
    if handler and kept is None:
        _add(merge, event, handler, after=entries)
    elif handler and kept is not None and kept not in exact:
        merge.text = _json_text.put(merge.text, [HOOKS, event, kept], group(handler))
    superfluous = {index: own for index, own in ours.items() if index != kept}
    _remove(merge, event, superfluous, alone)
    if handler and not ours:
        merge.added.append(event)
    elif handler and (kept not in exact or superfluous):
        merge.healed.append(event)
    elif ours and not handler:
        merge.removed.append(event)
        _remove_empty(merge, event)


def _own_handlers(entry: Any, owner: str) -> list[int]:
    """Positions of our handlers in an entry of an event type."""
    handlers = entry.get(HOOKS) if isinstance(entry, dict) else None
    if not isinstance(handlers, list):
        return []
    return [index for index, handler in enumerate(handlers) if is_owned(handler, owner)]


def _add(merge: Merge, event: str, handler: Handler, after: Sequence[Any]) -> None:
    if HOOKS not in _json_text.keys(merge.text, []):
        merge.text = _json_text.put(merge.text, [HOOKS], {event: [group(handler)]})
    elif event not in _json_text.keys(merge.text, [HOOKS]):
        merge.text = _json_text.put(merge.text, [HOOKS, event], [group(handler)])
    else:
        merge.text = _json_text.put(merge.text, [HOOKS, event, len(after)], group(handler))


def _remove(merge: Merge, event: str, superfluous: Mapping[int, Sequence[int]], alone: Sequence[int]) -> None:
    """Remove handlers, and whole entries that hold nothing else; these last, so that positions stay true."""
    whole = set(alone) & set(superfluous)
    for index in superfluous.keys() - whole:
        merge.text = _json_text.removed(merge.text, [HOOKS, event, index, HOOKS], superfluous[index])
    if whole:
        merge.text = _json_text.removed(merge.text, [HOOKS, event], whole)


def _remove_empty(merge: Merge, event: str) -> None:
    """Remove what our last handler left empty."""
    if not _json_text.keys(merge.text, [HOOKS, event]):
        merge.text = _json_text.removed(merge.text, [HOOKS], [event])
        if not _json_text.keys(merge.text, [HOOKS]):
            merge.text = _json_text.removed(merge.text, [], [HOOKS])
