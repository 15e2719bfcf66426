"""Gathering: looks at the host, asks the engine, asks the boxes. Decides nothing and changes nothing.

The one trace it leaves is the synthetic event that each box's probe sends through the hooks.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from . import _adopt
from ._adopt import Adoption
from ._engine import Engine
from ._errors import AgentboxError, DeclarationError, EngineError, EngineUnreachableError, EngineUnsupportedError
from ._health_ask import probe_box
from ._health_box import PROXY_VARIABLES, environment
from ._health_cgroup import read_cgroup, read_process
from ._health_expected import (
    Capacity,
    Manifests,
    Origin,
    agents_by_image,
    expected_adopted,
    expected_from_engine,
    expected_from_spec,
)
from ._health_facts import (
    CA_VARIABLES,
    BaseFacts,
    BoxFacts,
    EngineFacts,
    EngineFailure,
    Expected,
    HookSettings,
    HostFacts,
    ImageFacts,
    MountFacts,
    PathKind,
    Space,
    StateFile,
)
from ._health_host import USER_NAMESPACE_SETTINGS
from ._health_page import page_facts
from ._health_state import running
from ._hooks import managed_settings
from ._image_plan import Record
from ._image_types import record_path
from ._naming import HOOK_PORT, LABEL_BOX, LABEL_INSTANCE, BoxPaths, container_name, is_name
from ._spec import BoxSpec
from ._state import read_file, read_json
from ._trust import bundle_path, read_bundle

_CA_TIMEOUT = 10.0
_MOST_CA_BYTES = 4 * 1024**2
_MOST_THREADS = 8
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----([^-]+)-----END CERTIFICATE-----")

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class Request:
    """What to look at. ``specs`` None means every box of the instance that the engine has, or those in ``only``."""

    instance: str
    state_dir: str
    image: str  # looked at when no box names one
    specs: Sequence[BoxSpec] | None
    manifests: Manifests
    environ: Mapping[str, str]
    only: Sequence[str] | None = None


def engine_failure(error: AgentboxError) -> EngineFailure:
    """The failure behind an exception of ``_engine.connect``."""
    if isinstance(error, EngineUnreachableError):
        kind = error.kind
    else:
        kind = "unsupported" if isinstance(error, EngineUnsupportedError) else "error"
    return EngineFailure(kind, error.message, error.hint)


def engine_facts(engine: Engine) -> EngineFacts:
    """What the engine says about itself."""
    identity = engine.identity
    return EngineFacts(identity.host, identity.api, identity.version, identity.podman, engine.info())


def gather_host(engine: EngineFacts | EngineFailure, request: Request, images: Sequence[ImageFacts]) -> HostFacts:
    """Facts of the host itself; nothing here asks the engine."""
    bundle = bundle_path(None, request.environ)
    root = str(engine.info.get("DockerRootDir") or "") if isinstance(engine, EngineFacts) else ""
    spaces = [("engine", root)] if root else []
    return HostFacts(
        engine=engine,
        now=time.time(),
        images=tuple(images),
        spaces=tuple(free_space(*place) for place in [*spaces, ("state directory", request.state_dir)]),
        proxy={name: request.environ[name] for name in PROXY_VARIABLES if name in request.environ},
        ca_bundle=bundle[0] if bundle else None,
        ca_digests=_host_certificates(request.environ),
        user_namespaces=user_namespace_settings(),
    )


def gather_images(engine: Engine, request: Request, boxes: Iterable[Expected]) -> list[ImageFacts]:
    """Facts of every image that a box shall run, with what those boxes need in it; without boxes of one."""
    agents = agents_by_image(boxes) or {request.image: {}}
    return [
        ImageFacts(name, engine.inspect_image(name), needed, _base_facts(engine, record_path(request.state_dir, name)))
        for name, needed in agents.items()
    ]


def _base_facts(engine: Engine, path: str) -> BaseFacts | None:
    base = Record.from_json(_json(path)).base
    if base is None:
        return None
    found = engine.inspect_image(base.reference)
    return BaseFacts(base.reference, str(found["Id"]) if found else None)


def free_space(purpose: str, path: str) -> Space:
    """Free bytes where ``path`` is, or will be when it does not exist yet."""
    place = Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        found = os.statvfs(place)
    except OSError as error:
        return Space(purpose, path, None, error.strerror or str(error))
    return Space(purpose, path, found.f_bavail * found.f_frsize)


def expected_boxes(engine: Engine, request: Request, info: Mapping[str, Any]) -> list[Expected]:
    """What to compare with: the declarations, else every box of the instance in the order of their names."""
    capacity = Capacity(int(info.get("NCPU") or 0), int(info.get("MemTotal") or 0))
    if request.specs is not None:
        return [expected_from_spec(spec, request.instance, request.manifests, capacity) for spec in request.specs]
    answers = engine.inspect_containers(_instance_containers(engine, request))
    inspected = (answer.result() for answer in answers.values())
    found = [
        expected_from_engine(inspect, _origin(inspect, request.state_dir), request.manifests, capacity)
        for inspect in inspected
        if inspect is not None
    ]
    return sorted([*found, *_adopted(request, {box.name for box in found})], key=lambda box: box.name)


def _adopted(request: Request, taken: Container[str]) -> Iterator[Expected]:
    """The adopted boxes, but for those whose name Agentbox gave to a box of its own."""
    for adoption in _adopt.known(str(Path(request.state_dir).parent), request.instance):
        if adoption.box not in taken and (request.only is None or adoption.box in request.only):
            yield expected_adopted(request.instance, adoption.box, adoption.container)


def _origin(inspect: Mapping[str, Any], state_dir: str) -> Origin:
    labels: Mapping[str, Any] = (inspect.get("Config") or {}).get("Labels") or {}
    name = str(labels.get(LABEL_BOX))
    if not is_name(name):  # anybody's word, of which no path is made
        return Origin()
    paths = BoxPaths(state_dir, name)
    return Origin(record=_json(paths.record), box_json=_json(f"{paths.mount}/box.json"))


def _json(path: str) -> Mapping[str, Any]:
    try:
        return read_json(path) or {}
    except AgentboxError:
        return {}


def _instance_containers(engine: Engine, request: Request) -> list[str]:
    """Names of the containers that are wanted boxes of the instance; not those that a swap has put aside."""
    listed = engine.containers(stopped=True, labels=[f"{LABEL_INSTANCE}={request.instance}", LABEL_BOX])
    boxes = [str((container.get("Labels") or {}).get(LABEL_BOX)) for container in listed]
    present = {str(name).lstrip("/") for container in listed for name in container.get("Names") or []}
    chosen = [box for box in boxes if is_name(box) and (request.only is None or box in request.only)]
    return sorted({container_name(request.instance, box) for box in chosen} & present)


def gather_boxes(engine: Engine, boxes: Sequence[Expected], request: Request) -> list[BoxFacts]:
    """Facts of every box, all at once, in the order of ``boxes``."""
    containers = engine.containers()
    return _in_threads(lambda box: gather_box(engine, box, request, containers), boxes)


def _in_threads(work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    if not items:
        return []
    with ThreadPoolExecutor(min(_MOST_THREADS, len(items))) as pool:
        return list(pool.map(work, items))


def gather_box(engine: Engine, box: Expected, request: Request, containers: Iterable[Mapping[str, Any]]) -> BoxFacts:
    """Facts of one box. ``containers`` is the engine's list of running containers."""
    if box.state == "adopted":
        adoption = Adoption(request.instance, box.name, box.container, request.state_dir)
        return BoxFacts(box, _adopt.inspect(engine, adoption))
    inspect = engine.inspect_container(box.container)
    labels: Mapping[str, Any] = ((inspect or {}).get("Config") or {}).get("Labels") or {}
    if inspect is not None and labels.get(LABEL_INSTANCE) != request.instance:
        inspect = None  # somebody else's container of that name; module box refuses it by name
    page = page_facts(box.publish, containers) if box.publish and box.state == "started" else None
    workspace_kind = path_kind(box.workspace, follow=True) if box.workspace else None
    if inspect is None:
        return BoxFacts(box, None, page=page, workspace_kind=workspace_kind)
    paths = BoxPaths(request.state_dir, box.name)
    live = running(inspect)
    pid = int((inspect.get("State") or {}).get("Pid") or 0)
    return BoxFacts(
        expected=box,
        inspect=inspect,
        process=read_process(pid) if live else None,
        cgroup=read_cgroup(pid, str(inspect["Id"])) if live else None,
        probe=probe_box(engine, str(inspect["Id"])) if live else None,
        page=page,
        workspace_kind=workspace_kind,
        mounts=mount_facts(inspect, pid if live else 0),
        state_files=state_files(paths),
        hooks=hook_settings(box, paths),
        ca_files=_box_certificates(engine, inspect) if live else {},
    )


def glance(engine: Engine, inspect: Mapping[str, Any], state_dir: str) -> BoxFacts:
    """What is quickly known of the box that ``inspect`` is of: its own report and its cgroup."""
    expected = expected_from_engine(inspect, _origin(inspect, state_dir), {}, Capacity())
    if not running(inspect):
        return BoxFacts(expected, inspect)
    pid, container = int((inspect.get("State") or {}).get("Pid") or 0), str(inspect["Id"])
    return BoxFacts(expected, inspect, cgroup=read_cgroup(pid, container), probe=probe_box(engine, container))


def mount_facts(inspect: Mapping[str, Any], pid: int) -> tuple[MountFacts, ...]:
    """Bind mounts; ``pid`` is the box's first process, 0 when it does not run."""
    mounts = [mount for mount in inspect.get("Mounts") or [] if mount.get("Type") == "bind"]
    return tuple(_mount(mount, pid) for mount in mounts)


def _mount(mount: Mapping[str, Any], pid: int) -> MountFacts:
    source, target = str(mount.get("Source") or ""), str(mount.get("Destination") or "")
    kind = path_kind(source, follow=True)
    # A read-only file is one that its owner replaces, and the box takes the new one at its next start.
    lasting = kind == "directory" or (kind == "file" and mount.get("RW"))
    same = _is_same(source, f"/proc/{pid}/root{target}") if pid and lasting else None
    return MountFacts(source, target, kind, same)


def _is_same(source: str, inside: str) -> bool | None:
    """Whether both paths are one file or directory; None when this user may not look into the box."""
    try:
        outer, inner = Path(source).stat(), Path(inside).stat()
    except OSError:
        return None
    return (outer.st_dev, outer.st_ino) == (inner.st_dev, inner.st_ino)


def path_kind(path: str, *, follow: bool) -> PathKind:
    """What is at ``path``; ``follow`` looks at what a symbolic link points to."""
    try:
        mode = (os.stat if follow else os.lstat)(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:
        return "unreadable"
    kinds: tuple[tuple[Callable[[int], bool], PathKind], ...] = (
        (stat.S_ISREG, "file"),
        (stat.S_ISDIR, "directory"),
        (stat.S_ISLNK, "link"),
        (stat.S_ISSOCK, "socket"),
    )
    return next((kind for is_kind, kind in kinds if is_kind(mode)), "other")


def state_files(paths: BoxPaths) -> tuple[StateFile, ...]:
    """The files and directories of a box's state directory that every box has."""
    wanted: dict[str, PathKind] = {paths.mount: "directory", paths.relay: "directory", paths.passwd: "file"}
    for name in ("entry.sh", "attach.sh", "tmux.conf", "box.json"):
        wanted[f"{paths.mount}/{name}"] = "file"
    return tuple(StateFile(path, kind, path_kind(path, follow=False)) for path, kind in wanted.items())


def hook_settings(box: Expected, paths: BoxPaths) -> tuple[HookSettings, ...]:
    """Hook settings of each agent of the box whose manifest says where they go."""
    found = []
    for agent in box.agents:
        manifest = box.manifests.get(agent, {})
        file = (manifest.get("hooks") or {}).get("file")
        if file:
            found.append(_hook_settings(agent, f"{paths.agent_settings(agent)}/{file}", manifest))
    return tuple(found)


def _hook_settings(agent: str, path: str, manifest: Mapping[str, Any]) -> HookSettings:
    wanted = managed_settings(manifest, HOOK_PORT)
    try:
        content = read_file(path)
    except AgentboxError as error:
        return HookSettings(agent, path, wanted, None, error.message.replace(path, "").strip())
    if content is None:
        return HookSettings(agent, path, wanted, None, "is missing")
    try:
        return HookSettings(agent, path, wanted, json.loads(content))
    except ValueError:
        return HookSettings(agent, path, wanted, None, "is not JSON")


def certificate_digests(text: str) -> frozenset[str]:
    """sha256 of every certificate in a PEM bundle, so that order, comments and line lengths do not matter."""
    found = set()
    for body in _CERTIFICATE.findall(text):
        try:
            found.add(hashlib.sha256(base64.b64decode("".join(body.split()), validate=True)).hexdigest())
        except binascii.Error:
            continue
    return frozenset(found)


def _host_certificates(environ: Mapping[str, str]) -> frozenset[str]:
    try:
        return certificate_digests(read_bundle(None, environ))
    except DeclarationError:
        return frozenset()


def _box_certificates(engine: Engine, inspect: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Certificates in each file that a variable of the box names; none for a file that is not there."""
    variables = environment(inspect)
    paths = dict.fromkeys(variables[name] for name in CA_VARIABLES if variables.get(name))
    return {path: _certificates_in(engine, str(inspect["Id"]), path) for path in paths}


def _certificates_in(engine: Engine, container: str, path: str) -> frozenset[str]:
    try:
        _, text = engine.run(container, ("cat", "--", path), timeout=_CA_TIMEOUT, most=_MOST_CA_BYTES)
    except EngineError:
        return frozenset()
    return certificate_digests(text.decode("ascii", "replace"))


def user_namespace_settings(proc: Path = Path("/proc")) -> dict[str, int]:
    """Values of those sysctls about user namespaces that the kernel has."""
    found = {}
    for name in USER_NAMESPACE_SETTINGS:
        with contextlib.suppress(OSError, ValueError):
            found[name] = int((proc / "sys" / name.replace(".", "/")).read_text(encoding="ascii"))
    return found
