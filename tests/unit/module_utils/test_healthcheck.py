"""What a declaration makes of the engine's health check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentbox._shared._healthcheck import NONE, PROBE, healthcheck
from agentbox._shared._values import InvalidValueError


@pytest.mark.parametrize(
    ("declared", "seconds"),
    [(5, 5), ("5", 5), ("90s", 90), ("2m", 120), ("1h30m", 5400), ("1m30s", 90), ("24h", 86400)],
)
def test_durations(declared: object, seconds: int) -> None:
    assert healthcheck({"interval": declared}) == replace(PROBE, interval=seconds)


def test_what_is_not_declared_is_as_usual() -> None:
    assert healthcheck(None) == healthcheck({}) == PROBE
    assert healthcheck("none") == NONE
    assert healthcheck({"command": ["true"], "retries": "1"}) == replace(PROBE, command=("true",), retries=1)
    assert healthcheck({"command": "test -e a && test -e b"}).command == ("sh", "-c", "test -e a && test -e b")


@pytest.mark.parametrize(
    ("declared", "key", "message"),
    [
        (True, "", "must be none or a mapping of command, interval, timeout, start_period, retries"),
        ({"test": ["true"]}, ".test", "unknown key"),
        ({"interval": 0}, ".interval", "must be between 1 and 86400, not 0"),
        ({"interval": "25h"}, ".interval", "must be between 1 and 86400, not 90000"),
        ({"interval": ""}, ".interval", "must be seconds, or a duration such as 90s or 2m, not ''"),
        ({"interval": "1d"}, ".interval", "must be seconds, or a duration"),
        ({"interval": 1.5}, ".interval", "must be seconds, or a duration"),
        ({"timeout": True}, ".timeout", "must be seconds, or a duration"),
        ({"timeout": False}, ".timeout", "must be seconds, or a duration"),
        ({"timeout": None}, ".timeout", "must be seconds, or a duration"),
        ({"retries": 0}, ".retries", "must be between 1 and 1000, not 0"),
        ({"command": []}, ".command", "must be a command as text or as a list"),
        ({"command": ""}, ".command", "must be a command as text or as a list"),
        ({"command": ["test", 1]}, ".command[1]", "must be text, not the number 1"),
    ],
)
def test_what_is_no_health_check_is_named(declared: Any, key: str, message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        healthcheck(declared)
    assert caught.value.key == key
    assert caught.value.message.startswith(message)
