"""The users that this host has accounts for, from whatever directory it knows them."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_NO_LOGIN = ("false", "nologin")


@dataclass(frozen=True)
class Account:
    """A user of this host; ``groups`` are all that the user is a member of, by number."""

    name: str
    uid: int
    gid: int
    groups: Sequence[int]
    home: str
    shell: str

    @property
    def can_log_in(self) -> bool:
        return Path(self.shell).name not in _NO_LOGIN and os.access(self.shell, os.X_OK)


def account(name: str) -> Account | None:
    """The account of ``name``; None when this host has none."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    shell = entry.pw_shell or "/bin/sh"
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, shell)
