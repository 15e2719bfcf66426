"""What a run does, step by step: the kinds of actions, and what each works on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._state import File

# Kinds of actions, in the words of the module's result.
MAKE_DIRECTORY = "make_directory"
WRITE_FILE = "write_file"
REMOVE_PATH = "remove_path"
MAKE_WORKSPACE = "make_workspace"
SET_ACL = "set_acl"
FINISH_SWAP = "finish_swap"
CREATE_NETWORK = "create_network"
REMOVE_NETWORK = "remove_network"
REMOVE_SPARE_NETWORK = "remove_spare_network"
REMOVE_VOLUME = "remove_volume"
CREATE = "create"
RECREATE = "recreate"
RENAME = "rename"
LEAVE_NETWORK = "leave_network"
JOIN_NETWORK = "join_network"
UPDATE = "update"
START = "start"
UNPAUSE = "unpause"
STOP = "stop"
REMOVE = "remove"
SEED_LOGIN = "seed_login"
ADOPT = "adopt"
FORGET = "forget"


@dataclass(frozen=True)
class Action:
    """One step. ``subject`` is what ``_apply.py`` works on; ``detail`` is what people read."""

    kind: str
    detail: str
    subject: Any = None

    def as_dict(self) -> dict[str, str]:
        return {"action": self.kind, "detail": self.detail}


@dataclass(frozen=True)
class Replacement:
    """Subject of a recreation: the old container, the files that come with the new one, volumes to prepare."""

    live: Mapping[str, Any]
    files: tuple[File, ...]
    volumes: tuple[str, ...]
