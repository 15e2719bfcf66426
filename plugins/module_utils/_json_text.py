"""Changing JSON text in place: what a change does not concern keeps every byte, and new text is indented as found.

Pure. A place in a document is a path of keys and indexes from its outermost object. The functions that change take
text that ``parsed()`` took.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

Path = Sequence[str | int]

EMPTY = "{}\n"
_INDENT = "  "  # of documents that show none
_DEEPEST = 100  # levels; Python's parser gives up near its own limit, which depends on who calls it
_SPACE = re.compile(r"[ \t\r\n]*")


def parsed(text: str) -> Any:
    """The document; ``ValueError`` for what is not strict JSON. Its message holds none of the text.

    Python's own parser also takes ``NaN``, and of a key that stands twice the last.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _is_deeper(document, _DEEPEST):
        raise ValueError("nested too deeply")
    return document


def _is_deeper(document: Any, levels: int) -> bool:
    """Whether there is a value below ``levels`` objects and arrays."""
    level = [document]
    while level and levels:
        containers = [value for value in level if isinstance(value, dict | list)]
        level = [value for found in containers for value in (found.values() if isinstance(found, dict) else found)]
        levels -= 1
    return bool(level)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def put(text: str, path: Path, value: Any) -> str:
    """``text`` with ``value`` at ``path``: in the place of what is there, else as the last of its container."""
    *above, key = path
    container = _container(text, _position(text, above))
    there = container.member(key)
    if there is not None:
        shown = _shown(value, text, _margin(text, there.start) if container.spread(text) else None)
        return text[: there.value] + shown + text[there.end :]
    return _appended(text, container, key, value)


def removed(text: str, path: Path, going: Collection[str | int]) -> str:
    """``text`` without the members ``going`` of the object or array at ``path``."""
    container = _container(text, _position(text, path))
    members = container.members
    gone = [member.key in going for member in members]
    if all(gone):
        return text[: container.opening + 1] + text[container.closing :]
    for index in reversed(range(len(members))):  # so that the offsets of those before stay true
        if gone[index] and all(gone[:index]):
            text = text[: members[index].start] + text[members[index + 1].start :]
        elif gone[index]:
            text = text[: members[index - 1].end] + text[members[index].end :]
    return text


def keys(text: str, path: Path) -> list[str | int]:
    """The keys of the object, or the indexes of the array, at ``path``."""
    return [member.key for member in _container(text, _position(text, path)).members]


@dataclass(frozen=True)
class _Member:
    """An entry of an object or array. All but ``key`` are offsets: of the entry, of its value, and behind it."""

    key: str | int
    start: int
    value: int
    end: int


@dataclass(frozen=True)
class _Container:
    """An object or array, and the offsets of its brackets."""

    opening: int
    closing: int
    members: list[_Member]

    def member(self, key: str | int) -> _Member | None:
        return next((member for member in self.members if member.key == key), None)

    def spread(self, text: str) -> bool:
        """Whether its members stand on lines of their own."""
        return bool(self.members) and "\n" in text[self.opening : self.members[0].start]


def _position(text: str, path: Path) -> int:
    """Offset of the value at ``path``."""
    position = _skip(text, 0)
    for key in path:
        member = _container(text, position).member(key)
        if member is None:
            raise KeyError(key)
        position = member.value
    return position


@lru_cache(maxsize=8)  # one change looks at the same few several times, and settings can be long
def _container(text: str, opening: int) -> _Container:
    decoder = json.JSONDecoder()
    members: list[_Member] = []
    position = _skip(text, opening + 1)
    while text[position] not in "}]":
        start, key = position, len(members)
        if text[opening] == "{":
            key, position = decoder.raw_decode(text, start)
            position = _skip(text, _skip(text, position) + 1)  # behind the colon
        _, end = decoder.raw_decode(text, position)
        members.append(_Member(key, start, position, end))
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return _Container(opening, position, members)


def _appended(text: str, container: _Container, key: str | int, value: Any) -> str:
    name = f"{json.dumps(key)}: " if isinstance(key, str) else ""
    newline, unit = _newline(text), _unit(text)
    if container.members:
        last = container.members[-1]
        margin = _margin(text, container.members[0].start) if container.spread(text) else None
        gap = " " if margin is None else newline + margin
        return text[: last.end] + "," + gap + name + _shown(value, text, margin) + text[last.end :]
    head, tail = text[: container.opening + 1], text[container.closing :]
    if unit is None:
        return head + name + _shown(value, text, None) + tail
    outer = _margin(text, container.opening)
    inner = outer + unit
    return head + newline + inner + name + _shown(value, text, inner) + newline + outer + tail


def _shown(value: Any, text: str, margin: str | None) -> str:
    """``value`` as JSON: over several lines behind ``margin``, or on one where there is none."""
    unit = _unit(text)
    if margin is None or unit is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", _newline(text) + margin)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str | None:
    """What one level is indented by; None where the document stands on one line."""
    container = _container(text, _skip(text, 0))
    if not container.members:
        return _INDENT
    return _margin(text, container.members[0].start) if container.spread(text) else None


def _margin(text: str, position: int) -> str:
    """The white space that the line of ``position`` begins with."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position
