"""What is true of a running box, whatever the engine says: read from its host's cgroup files and ``/proc``.

No program is run in the box, and the engine is not asked. Boxes that shall not go on running are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import _files, _mounted
from ._box import Box
from ._health_cgroup import HOST_ROOT, CgroupMount, is_of_container, memory_held, read_limits
from ._health_facts import CgroupFacts


def enforced(
    box: Box, live: Mapping[str, Any], mounts: Iterable[CgroupMount], root: Path = HOST_ROOT
) -> CgroupFacts | None:
    """The limits in force, but for those that this engine can't make the kernel enforce; None when they can't be seen.

    ``mounts`` are the host's. Of gVisor's container it is the sandbox that the kernel knows. The memory a box holds
    is looked at only where some is to be taken away.
    """
    pid = _process(box, live)
    if not pid or box.spec.runtime != "runc":
        return None
    facts = read_limits(pid, str(live["Id"]), mounts, root)
    if not isinstance(facts, CgroupFacts):
        return None
    if "memory" in facts.unlimited or (facts.limits.memory or 0) > box.memory:
        facts = replace(facts, memory_held=memory_held(pid, str(live["Id"]), mounts, root))
    ignored = box.setting.engine.unenforced
    limits = replace(facts.limits, **dict.fromkeys(ignored))
    return replace(facts, limits=limits, unlimited=facts.unlimited - ignored)


def replaced(box: Box, live: Mapping[str, Any], root: Path = HOST_ROOT) -> dict[str, str]:
    """Mounts, target to source, behind which the box does not see what is on its host by now."""
    pid = _process(box, live)
    if not pid or not is_of_container(pid, str(live["Id"]), root):
        return {}
    binds = [mount for mount in live["HostConfig"].get("Mounts") or [] if mount.get("Type") == "bind"]
    sources = {str(mount["Target"]): str(mount["Source"]) for mount in binds}
    contents = {"/etc/passwd": _files.passwd(box.uid).encode()}
    contents |= {login.target: login.content for login in box.logins}
    return _mounted.replaced(pid, sources, contents, root)


def _process(box: Box, live: Mapping[str, Any]) -> int:
    """Process id of a container that shall go on running; 0 for every other."""
    return int(live["State"].get("Pid") or 0) if box.spec.state == "started" else 0
