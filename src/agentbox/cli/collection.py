"""Where the collection lies that belongs to this program: in the clone, or in the installed package."""

from __future__ import annotations

from pathlib import Path

import agentbox
from agentbox._shared._errors import AgentboxError

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
