"""Logins in the volumes of boxes: looking at one, putting the host's in, and the place for one that is mounted."""

from __future__ import annotations

from collections.abc import Iterable

from . import _helper, _naming
from ._box import Box, Login
from ._credentials import MOST_BYTES, LoginFacts, login_facts
from ._credentials_host import Seed
from ._engine import Engine
from ._errors import EngineError
from ._helper import Entry
from ._payload import home_directories, keeping_volume
from ._volumes import Volume

_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700
# Run as the box's user: the file is its own, it alone can read it, and all of it has arrived.
_CHECK = '[[ -O $1 && -r $1 && $(stat -c %a:%s -- "$1") == "$2" ]]'
_CHECK_SECONDS = 60


def held(engine: Engine, container: str, box: Box, login: Login) -> LoginFacts | None:
    """What a box's container holds in the place of ``login`` now; None when that is no login."""
    found = _helper.get(engine, container, login.target, MOST_BYTES)
    return login_facts(box.agents[login.agent]["credentials"], *found) if found else None


def seed(engine: Engine, box: Box, wanted: Seed) -> Volume:
    """Copy a login of the host into a volume and return that. Raises ``EngineError`` when the box can't read it."""
    login = wanted.login
    command = ["bash", "-c", _CHECK, "check", login.target, f"{_FILE_MODE:o}:{len(login.content)}"]
    with _helper.helper(engine, box, [wanted.mount], command) as container:
        file = Entry(login.target, _FILE_MODE, login.content, login.facts.modified)
        _helper.put(engine, container, box, [*_directories(box, login.target, wanted.mount["Target"]), file])
        engine.client.start(container)
        ended = engine.client.wait(container, timeout=_CHECK_SECONDS)
        volume = Volume.from_api(engine.client.inspect_volume(wanted.mount["Source"]))
    if ended["StatusCode"] != 0:
        raise EngineError(
            f"uid {box.uid} can't read the login of {login.agent} that was copied to {login.target} of {box.container}",
            "Look at the volume's file system and at the engine's user namespaces",
        )
    return volume


def make_mount_points(engine: Engine, box: Box, logins: Iterable[Login]) -> None:
    """Make the files that logins of the host are mounted over; the engine would make them root's."""
    for login in logins:
        mount = keeping_volume(box, login.target)
        if mount is None:
            continue
        with _helper.helper(engine, box, [mount]) as container:
            if _helper.get(engine, container, login.target, MOST_BYTES) is None:
                empty = Entry(login.target, _FILE_MODE, b"")
                _helper.put(engine, container, box, [*_directories(box, login.target, mount["Target"]), empty])


def _directories(box: Box, file: str, root: str) -> list[Entry]:
    """The directories of a volume mounted at ``root`` that lead to ``file``, parents first."""
    parts = file.removeprefix(f"{root}/").split("/")[:-1]
    paths = ["/".join([root, *parts[:depth]]) for depth in range(1, len(parts) + 1)]
    modes = {f"{_naming.BOX_HOME}/{below}": mode for below, mode in home_directories(box).items()}
    return [Entry(path, modes.get(path, 0o755 if path != paths[-1] else _DIRECTORY_MODE)) for path in paths]
