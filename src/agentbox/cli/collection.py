"""Where the collection lies that belongs to this program: in the clone, or in the installed package."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import agentbox
from agentbox._shared._errors import AgentboxError

Manifest = Mapping[str, Any]

PACKAGE = Path(agentbox.__file__).resolve().parent
NAMESPACE = "agentbox.fleet"
_PLACE = Path("ansible_collections/agentbox/fleet")


def collections_path() -> Path:
    """The directory that holds ``ansible_collections``."""
    clone = PACKAGE.parent.parent / "collections"
    for candidate in (clone, PACKAGE / "collections"):
        if (candidate / _PLACE / "playbooks").is_dir():
            return candidate
    raise AgentboxError(
        f"the collection {NAMESPACE} is missing beside {PACKAGE}",
        "Install Agentbox again, or run it from a whole clone",
    )


def root() -> Path:
    """The collection's own directory; in a clone the clone itself."""
    return (collections_path() / _PLACE).resolve()


def agents() -> list[str]:
    """Names of the agents that come with Agentbox."""
    return [path.stem for path in _manifest_files()]


@functools.cache
def manifests() -> dict[str, Manifest]:
    """The manifests of the agents that come with Agentbox, by name."""
    import yaml  # takes longer to load than a box that runs needs for all else

    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in _manifest_files()}


def _manifest_files() -> list[Path]:
    return sorted((root() / "agents").glob("*.yml"))
