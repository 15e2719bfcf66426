"""The users of a host that an inventory names, for whom roles configure something. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ._errors import DeclarationError
from ._values import described

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
_KEYS = ("name", "agents")


@dataclass(frozen=True)
class User:
    """A user of the host; ``agents`` None means those that a role has for everybody."""

    name: str
    agents: tuple[str, ...] | None = None


def parse_users(value: object) -> list[User]:
    """Users in the order given: a list of names and mappings of ``name`` and ``agents``, text separated by commas, or
    nothing.

    Raises ``DeclarationError`` with the path of what is wrong.
    """
    users = [_user(item, f"users[{index}]") for index, item in enumerate(_items(value, "users"))]
    for index, user in enumerate(users):
        if user.name in [other.name for other in users[:index]]:
            raise DeclarationError(f"users[{index}]: '{user.name}' stands twice")
    return users


def parse_names(value: object, path: str) -> tuple[str, ...]:
    """Texts in the order given, from a list, text separated by commas, or nothing."""
    names = _items(value, path)
    for index, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise DeclarationError(f"{path}[{index}]: must be a name, not {described(name)}")
    return tuple(dict.fromkeys(str(name) for name in names))


def _items(value: object, path: str) -> Sequence[object]:
    if value is None:
        return ()
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    if not isinstance(value, Sequence):
        raise DeclarationError(f"{path}: must be a list, not {described(value)}")
    return value


def _user(item: object, path: str) -> User:
    if not isinstance(item, Mapping):
        return User(_name(item, path))
    for key in item:
        if key not in _KEYS:
            raise DeclarationError(f"{path}.{key}: unknown key, known are {', '.join(_KEYS)}")
    agents = item.get("agents")
    name = _name(item.get("name"), f"{path}.name")
    return User(name, None if agents is None else parse_names(agents, f"{path}.agents"))


def _name(value: object, path: str) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise DeclarationError(f"{path}: {described(value)} is no valid name of a user")
    return value
