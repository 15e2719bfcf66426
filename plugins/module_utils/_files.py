"""The files and directories of one box in the state directory, as they have to be.

Pure, but for the digester's key. What is on disk is compared and written by ``_state.py``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from . import _naming
from ._box import RUNTIME_FILES, Box
from ._hooks import managed_settings
from ._spec import LIMITS, SCHEMA
from ._state import Digester, Directory, File, Found, differs, instance_directory, json_file

DEFAULT_SIZE = {"columns": 200, "rows": 50}


def shared_directories(state_dir: str) -> list[Directory]:
    """Directories that the boxes of an instance share, parents first."""
    return [instance_directory(state_dir, below) for below in ("", "/boxes", "/relay")]


def directories(box: Box) -> list[Directory]:
    """Directories of one box, parents first."""
    paths = box.paths
    result = [
        Directory(paths.directory, 0o711),
        Directory(paths.mount, 0o755),
        Directory(paths.relay, 0o755),
    ]
    for agent, manifest in box.agents.items():
        if manifest.get("hooks"):
            settings = paths.agent_settings(agent)
            parts = manifest["hooks"]["file"].split("/")[:-1]
            result += [Directory("/".join([settings, *parts[:depth]]), 0o755) for depth in range(len(parts) + 1)]
    if box.spec.secrets:
        result.append(Directory(paths.secrets, 0o500, box.uid))
    return result


def free_files(box: Box, secrets: Mapping[str, str]) -> list[File]:
    """Files that a box picks up when it next starts or attaches, so they may change under a running one."""
    paths = box.paths
    result = [
        File(f"{paths.mount}/{name}", box.setting.files[name].encode(), mode) for name, mode in RUNTIME_FILES.items()
    ]
    for agent, manifest in box.agents.items():
        if manifest.get("hooks"):
            path = f"{paths.agent_settings(agent)}/{manifest['hooks']['file']}"
            result.append(json_file(path, managed_settings(manifest, _naming.HOOK_PORT), 0o644))
    result += [
        File(f"{paths.secrets}/{name}", secrets[name].encode(), 0o400, box.uid, secret=True)
        for name in box.spec.secrets
    ]
    return result


def bound_files(box: Box, context: str, secrets: Mapping[str, str], digester: Digester) -> list[File]:
    """Files that say what a container was made for; they change only together with it."""
    return [
        File(box.paths.passwd, passwd(box.uid).encode(), 0o644, mounted_alone=True),
        json_file(f"{box.paths.mount}/box.json", box_json(box), 0o644),
        json_file(box.paths.record, record(box, context, secrets, digester), 0o600),
    ]


def staying_files(
    box: Box,
    bound: Iterable[File],
    found: Mapping[str, Found],
    record: Mapping[str, Any] | None,
    kept: Container[str],
) -> tuple[list[File], list[str]]:
    """Which of the ``bound`` files to write while the container differs in ``kept`` and stays, and which are lost.

    They go on telling of the container that is there. Their modes are put right, the user database where the uid is the
    same, and the limits in the ``record`` (None when it is not that of the container). ``found`` is what is on disk.
    """
    files, lost = [], []
    for wanted in bound:
        on_disk = found.get(wanted.path)
        content = on_disk.content if on_disk else None
        if wanted.path == box.paths.passwd and "uid" not in kept:
            content = wanted.content
        elif wanted.path == box.paths.record and content and record:
            content = limits_recorded(box, record, [key for key in LIMITS if key not in kept]).content
        if content is None:
            lost.append(wanted.path)
            continue
        file = replace(wanted, content=content)
        if on_disk is None or differs(file, on_disk):
            files.append(file)
    return files, lost


def limits_recorded(box: Box, recorded: Mapping[str, Any], limits: Iterable[str]) -> File:
    """A record as it was but for ``limits``, which were set on the living container since."""
    declared = box.spec.canonical()
    spec = {**recorded["spec"], **{key: declared[key] for key in limits}}
    return json_file(box.paths.record, {**recorded, "spec": spec}, 0o600)


def passwd(uid: int) -> str:
    """An ``/etc/passwd`` that knows the box uid; many tools fail for a uid without an entry."""
    entries = [
        "root:x:0:0:root:/root:/bin/bash",
        f"{_naming.BOX_USER}:x:{uid}:{_naming.BOX_GID}:{_naming.BOX_USER}:{_naming.BOX_HOME}:/bin/bash",
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
    ]
    return "\n".join(entries) + "\n"


def box_json(box: Box) -> dict[str, Any]:
    """What the runtime in the box knows about itself."""
    spec = box.spec
    return {
        "schema": SCHEMA,
        "instance": box.setting.instance,
        "box": spec.name,
        "container": box.container,
        "workspace": box.target,
        "uid": box.uid,
        "lead": spec.lead,
        "permission_mode": spec.permission_mode,
        "yolo": spec.yolo,
        "agents": sorted(spec.agents),
        "secrets": list(spec.secrets),
        "credentials": spec.credentials,
        "ports": {"page": _naming.PAGE_PORT, "hooks": _naming.HOOK_PORT},
        "size": DEFAULT_SIZE,
        "manifests": dict(box.agents),
    }


def record(box: Box, context: str, secrets: Mapping[str, str], digester: Digester) -> dict[str, Any]:
    """What the next run compares a declaration with, to name the keys that differ. Holds no secret."""
    return {
        "schema": SCHEMA,
        "instance": box.setting.instance,
        "box": box.spec.name,
        "container": box.container,
        "uid": box.uid,
        "context": context,
        "spec": box.spec.canonical(),
        "secrets": {name: digester.digest(box.spec.name, name, secrets[name]) for name in box.spec.secrets},
    }
