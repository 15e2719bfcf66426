"""Files that put the agents of a user into the PATH of the user's login shell. Pure.

They are the host's, not the user's. ``/etc/profile.d`` serves every shell that reads ``/etc/profile``; zsh and fish
have files of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import PurePosixPath

from ._agent_clis import Layout

MARK = "# Made by Agentbox"
_BEGIN, _END = "# BEGIN Agentbox", "# END Agentbox"
_BLOCK = re.compile(rf"^{_BEGIN}\n.*?^{_END}\n?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class LoginFile:
    """A file of Agentbox's own, or (``block``) its part of a file of others."""

    path: str
    text: str
    block: bool = False

    def state(self, present: str | None) -> bool | None:
        """Whether ``present``, the file's content, has the text; None when nothing of Agentbox is there."""
        if present is None:
            return None
        if not self.block:
            return present == self.text
        found = _BLOCK.search(present)
        return found and found[0] == self.text

    def with_text(self, present: str | None) -> str:
        """The whole content, as it has to be."""
        if not self.block:
            return self.text
        rest = self.without_text(present)
        return f"{rest}{self.text}" if not rest or rest.endswith("\n") else f"{rest}\n{self.text}"

    def without_text(self, present: str | None) -> str:
        """What remains of a file without Agentbox's part of it."""
        return _BLOCK.sub("", present or "") if self.block else ""

    def is_foreign(self, present: str | None) -> bool:
        """Whether somebody else made a file where Agentbox's own has to be."""
        return present is not None and not self.block and not present.startswith(MARK)


def known_files(layout: Layout) -> dict[str, LoginFile]:
    """All files that this may ever write, by shell; ``""`` stands for every shell that reads /etc/profile."""
    profile = f"{layout.etc}/profile.d/agentbox.sh"
    block = f"{_BEGIN}\n[ ! -r {profile} ] || . {profile}\n{_END}\n"
    return {
        "": LoginFile(profile, _profile(layout.path("users"))),
        "fish": LoginFile(f"{layout.etc}/fish/conf.d/agentbox.fish", _fish(layout.path("users"))),
        "zsh": LoginFile(f"{layout.etc}/zsh/zprofile", block, block=True),
    }


def wanted_files(layout: Layout, shells: Collection[str], exists: Callable[[str], bool]) -> dict[str, LoginFile]:
    """The files that the users with these login ``shells`` (paths) need, by path. None for no users.

    ``exists`` tells of a shell's configuration directory whether this host has it there.
    """
    names = {PurePosixPath(shell).name for shell in shells}
    own = known_files(layout)
    needed = [own[""]] if names else []
    needed += [own[name] for name in sorted(names & set(own)) if exists(f"{layout.etc}/{name}")]
    return {file.path: file for file in needed}


def _profile(users: str) -> str:
    return f"""{MARK}: the agents that a user got stand first in the PATH of that user.
agentbox_bin="{users}/${{USER:-$(id -un)}}"
if [ -d "$agentbox_bin" ]; then
    case ":$PATH:" in
        *":$agentbox_bin:"*) ;;
        *) PATH="$agentbox_bin:$PATH"; export PATH ;;
    esac
fi
unset agentbox_bin
"""


def _fish(users: str) -> str:
    return f"""{MARK}: the agents that a user got stand first in the PATH of that user.
if test -d {users}/$USER; and not contains {users}/$USER $PATH
    set --global --export --prepend PATH {users}/$USER
end
"""
