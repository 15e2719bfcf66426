"""The health check that the engine runs in a box: by default a call of its page, or what the declaration says. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ._naming import PAGE_PORT
from ._values import InvalidValueError, described, integer

_NANO = 1_000_000_000
_DURATION = re.compile(r"(\d{1,8})|(?=.)(?:(\d{1,4})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?")
_MAX_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Healthcheck:
    """``command`` is an argument list, empty for no check at all; times are whole seconds."""

    command: tuple[str, ...]
    interval: int
    timeout: int
    start_period: int
    retries: int

    def payload(self) -> dict[str, Any]:
        """As ``Healthcheck`` of the engine's API, times in nanoseconds."""
        if not self.command:
            return {"Test": ["NONE"]}
        return {
            "Test": ["CMD", *self.command],
            "Interval": self.interval * _NANO,
            "Timeout": self.timeout * _NANO,
            "StartPeriod": self.start_period * _NANO,
            "Retries": self.retries,
        }


# The page answers 503 for a box that is parked or whose terminal session is gone.
PROBE = Healthcheck(
    command=("curl", "-fsS", "-m", "3", f"http://127.0.0.1:{PAGE_PORT}/healthz"),
    interval=30,
    timeout=5,
    start_period=60,
    retries=3,
)
NONE = Healthcheck((), 0, 0, 0, 0)


def healthcheck(value: object) -> Healthcheck:
    """``none``, or a mapping of what differs from the usual check; nothing means the usual one."""
    if value is None:
        return PROBE
    if value == "none":
        return NONE
    if not isinstance(value, Mapping):
        raise InvalidValueError(f"must be none or a mapping of {', '.join(_PARSERS)}, not {described(value)}")
    parsed = {}
    for key, item in value.items():
        if key not in _PARSERS:
            raise InvalidValueError(f"unknown key, known are {', '.join(_PARSERS)}", f".{key}")
        try:
            parsed[key] = _PARSERS[key](item)
        except InvalidValueError as error:
            raise InvalidValueError(error.message, f".{key}{error.key}") from None
    return replace(PROBE, **parsed)


def _command(value: object) -> tuple[str, ...]:
    """A list is run as it is, text by a shell."""
    if isinstance(value, str) and value:
        return ("sh", "-c", value)
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise InvalidValueError(f"must be a command as text or as a list of its arguments, not {described(value)}")
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise InvalidValueError(f"must be text, not {described(item)}", f"[{index}]")
    return tuple(value)


def _seconds(low: int) -> Callable[[object], int]:
    """A parser for durations: seconds as a number, or ``90s``, ``2m``, ``1h30m``."""
    within = integer(low, _MAX_SECONDS)

    def parse(value: object) -> int:
        found = _DURATION.fullmatch(str(value)) if isinstance(value, (int, str)) and value is not True else None
        if not found or value is False:
            raise InvalidValueError(f"must be seconds, or a duration such as 90s or 2m, not {described(value)}")
        plain, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return within(plain + hours * 3600 + minutes * 60 + seconds)

    return parse


_PARSERS: Mapping[str, Callable[[object], Any]] = {
    "command": _command,
    "interval": _seconds(1),
    "timeout": _seconds(1),
    "start_period": _seconds(0),
    "retries": integer(1, 1000),
}
