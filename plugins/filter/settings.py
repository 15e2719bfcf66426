"""Filter over the names of inventory variables: which of them nothing reads."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

_COLLECTION = Path(__file__).resolve().parents[2]
_READERS = ("roles/*/defaults/*.yml", "roles/*/tasks/*.yml", "playbooks/**/*.yml", "plugins/connection/*.py")
_PREFIX = "agentbox_"
_SETTING = re.compile(r"\bagentbox_[a-z0-9_]+")


def unknown_settings(names: Iterable[str]) -> list[str]:
    """A sentence for every ``agentbox_*`` name that no role, playbook or connection reads."""
    known = _known()
    return [f"{name}: nothing reads it{_suggestion(name, known)}" for name in sorted(set(names) - known)]


def _suggestion(name: str, known: Iterable[str]) -> str:
    """Compared without the prefix that all of them share."""
    near = difflib.get_close_matches(name.removeprefix(_PREFIX), [item.removeprefix(_PREFIX) for item in known], n=1)
    return f", did you mean {_PREFIX}{near[0]}?" if near else ""


@functools.cache
def _known() -> frozenset[str]:
    """Read where they are read, so that there is no second list to keep true."""
    texts = (path.read_text(encoding="utf-8") for pattern in _READERS for path in _COLLECTION.glob(pattern))
    return frozenset(name for text in texts for name in _SETTING.findall(text))


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., list[str]]]:
        return {"unknown_settings": unknown_settings}
