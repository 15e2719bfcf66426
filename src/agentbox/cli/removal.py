"""What ``down`` removed and what it left, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_HOME = "its HOME volume with logins and conversations"
_CACHES = "the caches"


def removed_volumes(actions: Iterable[Mapping[str, str]], home: str) -> list[str]:
    """The volumes that the box module's ``actions`` removed, as people call them; ``home`` names the HOME volume."""
    names = [action["detail"] for action in actions if action["action"] == "remove_volume"]
    parts = [_HOME] if home in names else []
    return [*parts, _CACHES] if any(name != home for name in names) else parts


def told(name: str, *, existed: bool, volumes: list[str], command: str | None) -> str:
    """The sentence that ends ``down``.

    ``volumes`` have been removed; ``command`` would remove the HOME volume, None where there is none any more.
    """
    rest = f"; its HOME volume stays, `{command}` removes it" if command else ""
    if existed:
        return f"removed: {', '.join([f'box {name}', *volumes])}{rest}"
    if volumes:
        return f"there is no box {name}; removed: {', '.join(volumes)}{rest}"
    return f"there is no box {name}, nothing to do{rest}"
