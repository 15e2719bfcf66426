"""The declaration that a box was last made to fulfil, from the canonical form that its record keeps. Pure.

For who has no inventory at hand. What rules a run and not the box (``recreate``, ``workspace_access``) is not recorded:
nothing is made anew, and no access list is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ._errors import StateError
from ._healthcheck import NONE, Healthcheck
from ._options import OPTIONS
from ._ports import Port, Publish

_KNOWN = frozenset(option.name for option in OPTIONS)


def declaration(name: str, state: str, recorded: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, Any]:
    """What somebody would declare to get box ``name`` as it is recorded; it parses to the same canonical form.

    ``secrets`` are the values that are there; one that is missing counts as empty, so that it is seen to differ. Raises
    ``StateError`` for a record that is none.
    """
    try:
        values = {key: _SPELLINGS.get(key, _as_is)(value) for key, value in recorded.items() if key in _KNOWN}
        names = [str(secret) for secret in recorded["secrets"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateError(f"the record of box {name} is damaged", "Run what declares the box again") from error
    given = {secret: secrets.get(secret, "") for secret in names}
    return {**values, "name": name, "state": state, "secrets": given, "workspace_access": "none"}


def _as_is(value: Any) -> Any:
    return value


def _or(word: str) -> Callable[[Any], Any]:
    """For keys whose absence has a word of its own."""
    return lambda value: word if value is None else value


def _publish(value: Any) -> str:
    return "none" if value is None else str(Publish(value["address"], value["port"]))


def _ports(value: Any) -> list[str]:
    ports = [Port(**item) for item in value]
    return [f"{Publish(port.address, port.host)}:{port.box}/{port.protocol}" for port in ports]


def _healthcheck(value: Any) -> Any:
    check = Healthcheck(**{**value, "command": tuple(value["command"])})
    return "none" if check == NONE else {**value, "command": list(check.command)}


def _volumes(value: Any) -> list[dict[str, Any]]:
    return [{"name": item["source"], "target": item["target"], "read_only": item["read_only"]} for item in value]


# Keys whose canonical form is not how people write it.
_SPELLINGS: Mapping[str, Callable[[Any], Any]] = {
    "lead": _or("none"),
    "uid": _or("auto"),
    "publish": _publish,
    "ports": _ports,
    "healthcheck": _healthcheck,
    "volumes": _volumes,
}
