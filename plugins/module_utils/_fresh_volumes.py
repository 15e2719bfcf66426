"""Giving new volumes to the box's user, before the box runs for the first time.

Where the engine keeps its volumes on this host's disk, under the owners that boxes see, the directories are made there:
a container for it would take longer than the box's own. Any other engine, and HOMEs that an agent may have written to,
get that container, whose view holds nothing but the volumes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from . import _helper, _naming
from ._box import Box
from ._engine import Engine
from ._errors import AgentboxError
from ._helper import Entry
from ._payload import home_directories, leading_to_mounts
from ._volumes import Volume

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def can_be_prepared_here(box: Box, payload: Mapping[str, Any], fresh: tuple[str, ...]) -> bool:
    """Whether the box's own container may make the volumes ``fresh``, to be prepared on the host's disk."""
    setting, home = box.setting, _naming.home_volume(box.setting.instance, box.spec.name)
    if setting.person.euid != 0 or setting.engine.podman or setting.engine.maps_users:
        return False
    if box.spec.credentials == "mount":  # it needs files in HOME before the container is made
        return False
    if home not in fresh and leading_to_mounts(box):
        return False
    return not any(mount["ReadOnly"] for mount in payload["HostConfig"]["Mounts"] if mount["Source"] in fresh)


def create(engine: Engine, box: Box, payload: Mapping[str, Any], fresh: tuple[str, ...]) -> tuple[str, list[Volume]]:
    """Create the box's container with volumes that it makes, and prepare them: its id, and the volumes.

    It has a helper's name, so that the next run removes what a killed one left. Raises ``OSError`` when the volumes
    can't be prepared from here; then the container is gone again.
    """
    mounts = [_with_content(it) if it["Source"] in fresh else it for it in payload["HostConfig"]["Mounts"]]
    making = {**payload, "HostConfig": {**payload["HostConfig"], "Mounts": mounts}}
    place = _helper.place(box)
    _helper.remove_left(engine, place)
    with engine.doing(f"create container {box.container}"):
        created = str(engine.client.create_container_from_config(making, place.name)["Id"])
    with removed_on_error(engine, created):
        with engine.doing(f"look at the volumes of {box.container}"):
            found = {name: engine.client.inspect_volume(name) for name in fresh}
        roots = {it["Target"]: found[it["Source"]]["Mountpoint"] for it in mounts if it["Source"] in fresh}
        for entry in _directories(box, list(roots)):
            target = max((it for it in roots if f"{entry.path}/".startswith(f"{it}/")), key=len)
            _own(roots[target], entry.path.removeprefix(target), entry.mode, box.uid)
    return created, [Volume.from_api(raw) for raw in found.values()]


@contextlib.contextmanager
def removed_on_error(engine: Engine, container: str) -> Iterator[None]:
    """Remove a container that never ran when what makes it complete fails."""
    try:
        yield
    except (AgentboxError, OSError):
        engine.remove_container(container)
        raise


def _own(root: str, below: str, mode: int, uid: int) -> None:
    """Make a directory ``below`` a volume's root, or the root itself, the box user's. Follows no link."""
    descriptor = os.open(root, _OPEN)
    try:
        for name in filter(None, below.split("/")):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=descriptor)
            inner = os.open(name, _OPEN, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        os.fchown(descriptor, uid, _naming.BOX_GID)
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def prepare(engine: Engine, box: Box, payload: Mapping[str, Any], fresh: tuple[str, ...]) -> list[Volume]:
    """Make volumes and prepare them through a container of their own; the volumes."""
    mounts = [mount for mount in payload["HostConfig"]["Mounts"] if mount["Source"] in fresh]
    with _helper.helper(engine, box, [{**_with_content(mount), "ReadOnly": False} for mount in mounts]) as container:
        _helper.put(engine, container, box, _directories(box, [mount["Target"] for mount in mounts]))
        return [Volume.from_api(engine.client.inspect_volume(name)) for name in fresh]


def make_way(engine: Engine, box: Box, payload: Mapping[str, Any]) -> None:
    """Have the box's user own what leads to mounts in a HOME that was prepared before they were declared."""
    home = [mount for mount in payload["HostConfig"]["Mounts"] if mount["Target"] == _naming.BOX_HOME]
    entries = [Entry(f"{_naming.BOX_HOME}/{path}", 0o755) for path in leading_to_mounts(box)]
    with _helper.helper(engine, box, home) as container:
        _helper.put(engine, container, box, entries)


def _with_content(mount: Mapping[str, Any]) -> dict[str, Any]:
    """A volume's mount that takes the image's content with it; a volume that it makes gets a mark."""
    labels = {**mount["VolumeOptions"]["Labels"], _naming.LABEL_MARK: secrets.token_hex(8)}
    return {**mount, "VolumeOptions": {"NoCopy": False, "Labels": labels}}


def _directories(box: Box, targets: list[str]) -> list[Entry]:
    """Directories that belong to the box uid: roots of volumes, and what lies in HOME."""
    modes = dict.fromkeys(sorted(targets), 0o755)
    if _naming.BOX_HOME in targets:
        modes |= {f"{_naming.BOX_HOME}/{below}": mode for below, mode in home_directories(box).items()}
    return [Entry(path, mode) for path, mode in modes.items()]
