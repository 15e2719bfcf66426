"""Filters for optional lists of the inventory, which people also write as nothing or as one text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError


def as_list(value: Any) -> list[str]:
    """Sorted, unique texts: of a list, of text separated by commas, or none for None and empty text."""
    return sorted(set(_texts("as_list", value.split(",") if isinstance(value, str) else value)))


def as_lines(value: Any) -> list[str]:
    """Texts in their order: of a list, the lines of a text, or none for None. Commas belong to what the lines hold."""
    return _texts("as_lines", value.splitlines() if isinstance(value, str) else value)


def _texts(name: str, items: Any) -> list[str]:
    """The texts of a list without surrounding blanks, and without those that are nothing else."""
    if items is None:
        return []
    if not isinstance(items, list):
        raise AnsibleFilterError(f"{name} takes a list or text, not {type(items).__name__}")
    wrong = [item for item in items if not isinstance(item, str)]
    if wrong:
        raise AnsibleFilterError(f"{name} takes texts, not {wrong[0]!r}")
    return [item.strip() for item in items if item.strip()]


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"as_lines": as_lines, "as_list": as_list}
