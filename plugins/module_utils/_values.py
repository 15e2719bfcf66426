"""Parsers for the values of a box declaration: each takes what the user wrote and returns its canonical form.

Canonical means that two spellings of one thing compare equal (``4g`` and ``4294967296``, ``/srv/x/`` and ``/srv/x``),
so that spelling never looks like a change. A parser raises ``InvalidValueError``; the caller adds the key's path.
"""

from __future__ import annotations

import posixpath
import re
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ._naming import is_name

T = TypeVar("T")
Parser = Callable[[Any], Any]

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HOST_TIMEZONE = "host"
_TIMEZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_LOCALE = re.compile(r"(C|[a-z]{2,3}_[A-Z]{2})\.UTF-8")
_ENGINE_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_MAX_UID = (1 << 31) - 2
# Modes of `network` that would join a namespace of the host, of another container, or the engine's shared bridge.
_FOREIGN_NETWORKS = ("host", "default", "container", "ns", "slirp4netns", "pasta")


class InvalidValueError(ValueError):
    """A value is wrong; ``key`` is the path below the option, e.g. ``.PORT`` or ``[2].target``."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.key = key


@dataclass(frozen=True, order=True)
class Mount:
    """A directory, file or named volume inside a box. ``source`` is a host path, or a volume's name."""

    target: str
    source: str
    read_only: bool


def described(value: object) -> str:
    """How an error message names a value that the user wrote."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    return "a mapping" if isinstance(value, Mapping) else "a list"


def name(value: object) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise InvalidValueError(
            f"{described(value)} is no valid name: at most 41 lower-case letters, digits and hyphens, "
            "not starting with a hyphen"
        )
    return value


def is_engine_name(text: str) -> bool:
    """Whether an engine could have something of that name."""
    return bool(_ENGINE_NAME.fullmatch(text))


def optional_container(value: object) -> str | None:
    """The exact name of a container."""
    if value is None:
        return None
    if not isinstance(value, str) or not is_engine_name(value):
        raise InvalidValueError(f"must be the name of a container, not {described(value)}")
    return value


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidValueError(f"must be true or false, not {described(value)}")
    return value


def integer(low: int, high: int) -> Callable[[object], int]:
    """A parser for whole numbers within ``low`` and ``high``, written as number or as digits."""

    def parse(value: object) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidValueError(f"must be a whole number, not {described(value)}")
        if not low <= value <= high:
            raise InvalidValueError(f"must be between {low} and {high}, not {value}")
        return value

    return parse


def choice(*allowed: str) -> Callable[[object], str]:
    """A parser for one of a few words."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise InvalidValueError(f"must be one of {', '.join(allowed)}, not {described(value)}")
        return value

    return parse


def size(minimum: int = 1) -> Callable[[object], int]:
    """A parser for sizes (``512m``, ``4g``, ``4GiB``, a number of bytes); returns bytes, units are powers of 1024."""

    def parse(value: object) -> int:
        found = _SIZE.fullmatch(str(value)) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
        if not found:
            raise InvalidValueError(f"must be a size such as 512m or 4g, not {described(value)}")
        result = int(float(found[1]) * _UNITS[found[2].lower()])
        if result < minimum:
            raise InvalidValueError(f"must be at least {human_size(minimum)}, not {value}")
        return result

    return parse


def human_size(size_in_bytes: int) -> str:
    """The shortest exact spelling, e.g. ``4g``; plain bytes when no unit divides them."""
    for unit in ("t", "g", "m", "k"):
        if size_in_bytes and size_in_bytes % _UNITS[unit] == 0:
            return f"{size_in_bytes // _UNITS[unit]}{unit}"
    return str(size_in_bytes)


def cpus(value: object) -> float:
    """Number of CPUs, at least 0.1, in steps of 0.01."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        number = float(value)
    except ValueError:
        raise InvalidValueError(f"must be a number of CPUs such as 2 or 1.5, not {described(value)}") from None
    if not 0.1 <= number <= 4096:  # noqa: PLR2004 - also refuses nan and inf
        raise InvalidValueError(f"must be between 0.1 and 4096, not {value}")
    return round(number, 2)


def uid(value: object) -> int | None:
    """A numeric user id, None for ``auto``."""
    if value == "auto":
        return None
    if value in (0, "0") and not isinstance(value, bool):
        raise InvalidValueError("a box never runs as uid 0; name an ordinary uid or auto")
    return integer(1, _MAX_UID)(value)


def absolute_path(value: object) -> str:
    """An absolute path without trailing slash, doubled slashes or dots. Symlinks are left alone."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise InvalidValueError(f"must be an absolute path, not {described(value)}")
    if "\0" in value or "\n" in value:
        raise InvalidValueError("must not contain a line break or NUL")
    return posixpath.normpath("/" + value.lstrip("/"))


def optional(parse: Callable[[object], T]) -> Callable[[object], T | None]:
    """A parser for what may be left out; None then."""
    return lambda value: None if value is None else parse(value)


def network(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidValueError(f"must be bridge, none or the name of a network, not {described(value)}")
    if value.partition(":")[0] in _FOREIGN_NETWORKS:
        raise InvalidValueError(f"'{value}' is refused: a box gets no namespace of its host or of others")
    if not _ENGINE_NAME.fullmatch(value):
        raise InvalidValueError(f"'{value}' is no valid network name")
    return value


def networks(value: object) -> tuple[str, ...]:
    """Names of existing networks that a box joins besides its own one; sorted, each at most once."""
    return tuple(sorted(_each_once(value, _further_network)))


def _further_network(value: object) -> str:
    found = network(value)
    if found in ("bridge", "none"):
        raise InvalidValueError(f"'{found}' is for the key network")
    return found


def mode(value: object) -> str:
    """A permission mode; which ones exist is a matter of the lead's manifest."""
    if not isinstance(value, str) or not value:
        raise InvalidValueError(f"must be the name of a mode, not {described(value)}")
    return value


def timezone(value: object) -> str:
    """A time zone by its name in the database, or ``host``. Without a database only the form is checked."""
    if not isinstance(value, str) or not _TIMEZONE.fullmatch(value):
        raise InvalidValueError(
            f"must be a time zone such as Europe/Berlin, or {HOST_TIMEZONE}, not {described(value)}"
        )
    if value != HOST_TIMEZONE and not _is_zone(value) and _is_zone("UTC"):
        raise InvalidValueError(f"there is no time zone '{value}'")
    return value


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def locale(value: object) -> str:
    """A locale whose encoding is UTF-8, which tmux and the agents' screens need."""
    if not isinstance(value, str) or not _LOCALE.fullmatch(value):
        raise InvalidValueError(f"must be a UTF-8 locale such as C.UTF-8 or de_DE.UTF-8, not {described(value)}")
    return value


def variable_name(value: object) -> str:
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        raise InvalidValueError(f"{described(value)} is no valid name of an environment variable")
    return value


def environment(value: object) -> dict[str, str]:
    """Environment variables; values must be strings, because every other type has more than one spelling."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidValueError(f"must be a mapping of names to strings, not {described(value)}")
    return {key: _environment_value(key, value[key]) for key in sorted(value, key=str)}


def _environment_value(key: object, value: object) -> str:
    known = variable_name(key)
    if not isinstance(value, str):
        raise InvalidValueError(
            f"must be a string, not {described(value)}; quote it, or use the filter string", f".{known}"
        )
    if "\0" in value or "\n" in value:
        raise InvalidValueError("must be one line without NUL", f".{known}")
    return value


def variable_names(value: object) -> tuple[str, ...]:
    """Names of secrets. A mapping is refused without quoting it: its values are secrets in the wrong place."""
    if value is None or value == "":
        return ()
    if isinstance(value, Mapping):
        raise InvalidValueError("must be a list of names here; values belong into the module's option secrets")
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidValueError("must be a list of names")
    return tuple(sorted({variable_name(item) for item in value}))


def secret_values(value: object) -> dict[str, dict[str, str]]:
    """Per box the secrets' values by name. No message quotes a value."""
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping):
        raise InvalidValueError("must be a mapping of boxes to mappings of names to values")
    result: dict[str, dict[str, str]] = {}
    for box, group in value.items():
        if not isinstance(group, Mapping):
            raise InvalidValueError("must be a mapping of names to values", f".{box}")
        for key, secret in group.items():
            if not isinstance(secret, str) or not secret or "\0" in secret:
                raise InvalidValueError("must be a string that is not empty", f".{box}.{key}")
            if "\n" in secret:
                raise InvalidValueError("must be one line", f".{box}.{key}")
        try:
            result[str(box)] = {variable_name(key): secret for key, secret in group.items()}
        except InvalidValueError as error:
            raise InvalidValueError(error.message, f".{box}") from None
    return result


def names(value: object) -> tuple[str, ...]:
    """A list of names, in the order given; duplicates are errors."""
    return tuple(_each_once(value, name))


def mounts(value: object) -> tuple[Mount, ...]:
    """Host paths inside the box: ``source:target[:ro|rw]``, or a mapping for paths that hold a colon."""
    return _mounts(value, "source", absolute_path)


def volumes(value: object) -> tuple[Mount, ...]:
    """Named volumes inside the box: ``name:target[:ro|rw]``, or a mapping."""
    return _mounts(value, "name", _volume_name)


def _volume_name(value: object) -> str:
    if not isinstance(value, str) or not _ENGINE_NAME.fullmatch(value):
        raise InvalidValueError(f"{described(value)} is no valid name of a volume")
    return value


def _mounts(value: object, source_key: str, parse_source: Callable[[object], str]) -> tuple[Mount, ...]:
    return tuple(each(value, lambda item: _mount(item, source_key, parse_source)))


def _mount(item: object, source_key: str, parse_source: Callable[[object], str]) -> Mount:
    fields = _short_mount(item, source_key) if isinstance(item, str) else item
    if not isinstance(fields, Mapping):
        raise InvalidValueError(f"must be {source_key}:target[:ro|rw] or a mapping, not {described(item)}")
    known = (source_key, "target", "read_only")
    for key in fields:
        if key not in known:
            raise InvalidValueError(f"unknown key, known are {', '.join(known)}", f".{key}")
    parsed = {}
    for key, parse in ((source_key, parse_source), ("target", absolute_path), ("read_only", boolean)):
        try:
            parsed[key] = parse(fields.get(key, False if key == "read_only" else None))
        except InvalidValueError as error:
            raise InvalidValueError(error.message, f".{key}{error.key}") from None
    return Mount(str(parsed["target"]), str(parsed[source_key]), bool(parsed["read_only"]))


def _short_mount(text: str, source_key: str) -> dict[str, object]:
    parts = text.split(":")
    mode = parts.pop() if parts[-1] in ("ro", "rw") else "rw"
    if len(parts) != 2:  # noqa: PLR2004 - source and target
        raise InvalidValueError(f"must be {source_key}:target[:ro|rw], not {described(text)}")
    return {source_key: parts[0], "target": parts[1], "read_only": mode == "ro"}


def gpus(value: object) -> str:
    """``none``, ``all`` or a number of devices."""
    if value in ("none", "all"):
        return str(value)
    try:
        return str(integer(1, 64)(value))
    except InvalidValueError:
        raise InvalidValueError(f"must be none, all or a number of devices, not {described(value)}") from None


def image(value: object) -> str | None:
    """An image reference; None means the instance's own image."""
    if value is None:
        return None
    if not isinstance(value, str) or not re.fullmatch(r"[a-zA-Z0-9][\w./:@-]*", value):
        raise InvalidValueError(f"{described(value)} is no image reference")
    return value if ":" in value.rpartition("/")[2] or "@" in value else f"{value}:latest"


def _items(value: object) -> Sequence[object]:
    """A list, empty for an optional value that nobody gave."""
    if value is None or value == "":
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidValueError(f"must be a list, not {described(value)}")
    return value


def each(value: object, parse: Callable[[object], T]) -> list[T]:
    """The items of an optional list, parsed; an error names the item."""
    result = []
    for index, item in enumerate(_items(value)):
        try:
            result.append(parse(item))
        except InvalidValueError as error:
            raise InvalidValueError(error.message, f"[{index}]{error.key}") from None
    return result


def _each_once(value: object, parse: Callable[[object], T]) -> list[T]:
    """As ``each``; duplicates are errors."""
    found = each(value, parse)
    for index, item in enumerate(found):
        if item in found[:index]:
            raise InvalidValueError(f"'{item}' stands twice", f"[{index}]")
    return found
