"""The person who runs the command: under sudo the one who called it, whose home, configuration and identity count."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentbox._shared import _host, _naming

from .exits import UsageError

CONFIG_FILE = "agentbox/config.yml"


@dataclass(frozen=True)
class User:
    """``home`` and ``config_home`` are the person's; ``state_root`` is root's when the process is root's."""

    home: Path
    config_home: Path
    state_root: Path
    is_root: bool

    @property
    def config_file(self) -> Path:
        return self.config_home / CONFIG_FILE

    @property
    def own_workspace(self) -> Path:
        """Made for the purpose by the box module when no workspace is declared."""
        return self.home / _host.DEFAULT_WORKSPACE

    def expand(self, path: str) -> Path:
        """``path`` with a leading ``~`` read as this person's home, relative to the current directory."""
        if path == "~" or path.startswith("~/"):
            return self.home / path[2:]
        if path.startswith("~"):
            try:
                return Path(path).expanduser()
            except RuntimeError as error:
                raise UsageError(f"{path}: no such user") from error
        return Path.cwd() / path


def current(environ: Mapping[str, str], euid: int) -> User:
    """Who runs this process."""
    home = _home(environ, euid)
    configured = environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says to ignore a relative path.
    config_home = Path(configured) if Path(configured).is_absolute() else home / ".config"
    state_root = Path(_naming.default_state_root(euid, {**environ, "HOME": str(home)}))
    return User(home, config_home, state_root, is_root=euid == 0)


def _home(environ: Mapping[str, str], euid: int) -> Path:
    caller = environ.get("SUDO_UID", "")
    if euid == 0 and caller.isdigit() and int(caller) != 0:
        return _home_of(int(caller))
    home = environ.get("HOME", "")
    return Path(home) if Path(home).is_absolute() else _home_of(os.getuid())


def _home_of(uid: int) -> Path:
    try:
        return Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        raise UsageError(f"user id {uid} has no entry in the user database, so it has no home") from None
