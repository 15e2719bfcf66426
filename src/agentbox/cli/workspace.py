"""Which directory becomes the workspace, and which directory never may."""

from __future__ import annotations

import pwd
import sys
from pathlib import Path

from agentbox._shared import _host, _naming

from . import collection
from .exits import UsageError
from .options import WORKSPACE, Settings
from .user import User

_PERSONS = 1000  # first uid of people, as Debian counts


def choose(settings: Settings, user: User, cwd: Path) -> Path | None:
    """The workspace to declare; None means the one that is made for the purpose in the user's home.

    Raises ``UsageError`` for one that is missing or that must not be given to an agent.
    """
    setting = settings.setting(WORKSPACE)
    if not setting.asked and _in_clone(cwd):
        return None
    path = (user.expand(setting.value) if setting.asked else cwd).resolve()
    reason = _refusal(path, user)
    if reason:
        raise UsageError(f"this cannot be a workspace: {reason}", "Choose another directory with --workspace")
    if not path.exists():
        raise UsageError(f"the workspace {path} does not exist", f"Create it: mkdir -p {path}")
    if not path.is_dir():
        raise UsageError(f"the workspace {path} is not a directory")
    return path


def is_meant(existing: Path, settings: Settings, user: User, cwd: Path) -> bool:
    """Whether a call from ``cwd`` means ``existing``, the workspace of a box that is there.

    It does unless somebody asked for a workspace, stands in another directory that could be one itself, or the box
    works in somebody else's home.
    """
    if settings.setting(WORKSPACE).asked:
        return False
    here, workspace = cwd.resolve(), existing.resolve()
    if workspace in (here, *here.parents):
        return True
    return not _is_somebody_elses(workspace, user) and (_in_clone(here) or _refusal(here, user) is not None)


def _is_somebody_elses(workspace: Path, user: User) -> bool:
    """Whether it lies in another person's home. Who logs in as root may mean anybody's."""
    people = [entry for entry in pwd.getpwall() if entry.pw_uid == 0 or entry.pw_uid >= _PERSONS]
    homes = {Path(entry.pw_dir).resolve() for entry in people} - {Path("/")}
    mine = user.home.resolve()
    if mine in workspace.parents or mine == Path(pwd.getpwuid(0).pw_dir).resolve():
        return False
    return any(home in workspace.parents for home in homes)


def declared(existing: Path, user: User) -> Path | None:
    """``existing``, the workspace of a box that is there, as ``choose`` gives it."""
    return None if existing.resolve() == user.own_workspace.resolve() else existing


def _in_clone(directory: Path) -> bool:
    return collection.root() in (directory, *directory.parents)


def _refusal(path: Path, user: User) -> str | None:
    return _host.refusal(str(path), [str(place) for place in protected(user)])


def protected(user: User) -> list[Path]:
    """Agentbox's own code, interpreter, configuration and state: what an agent must not be able to change."""
    places = [collection.root(), collection.PACKAGE, user.config_file.parent, user.state_root]
    if sys.prefix != sys.base_prefix:  # a virtual environment; the system's own directories are refused anyway
        places.append(Path(sys.prefix))
    return [place.resolve() for place in places]


def proposed_name(directory: Path, taken: str) -> str:
    """A name for a box that works in ``directory``, other than ``taken``."""
    name = _naming.slug(directory.name)
    return name if name != taken else _naming.slug(str(directory))
