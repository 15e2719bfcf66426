"""Reading what exists, once per run: engine, images, networks, volumes, containers, files. Changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from . import _adopt, _backup_note, _box, _files, _host, _naming, _ownership, _plan, _running, _state, _swap, _volumes
from ._adopt import Adoption
from ._advisory import unenforced_limits
from ._box import Box, EngineFacts, ImageFacts, Setting
from ._credentials_gather import Logins
from ._engine import Engine, maps_users
from ._errors import AgentboxError, DeclarationError
from ._health_cgroup import CgroupMount, mounted
from ._helper import SUFFIX as PREPARE
from ._manifests import parse_agents
from ._naming import BoxPaths
from ._networks import Network, Networks
from ._payload import create_payload, volumes
from ._plan import Situation
from ._ports import publisher
from ._spec import BoxSpec
from ._state import Digester, Directory, File, Found
from ._swap import ASIDE, Swap
from ._volumes import Volume, unprepared

_BUILT_IN_NETWORKS = ("none",)
_DIGEST_SHOWN = 12  # characters
_ANSWER_SECONDS, _ANSWER_BYTES = 10.0, 64 << 10  # for what is asked inside a box


def engine_facts(engine: Engine | None) -> EngineFacts:
    """What the engine offers; where there is none yet, what its host has."""
    if engine is None:
        pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        return EngineFacts(cpus=os.cpu_count() or 1, memory=pages * page, runtimes=None)
    info = engine.info()
    return EngineFacts(
        cpus=int(info.get("NCPU") or os.cpu_count() or 1),
        memory=int(info["MemTotal"]),
        runtimes=tuple(sorted(info.get("Runtimes") or {})) or None,
        podman=engine.identity.podman,
        maps_users=maps_users(info),
        data_root=str(info.get("DockerRootDir") or ""),
        unenforced=unenforced_limits(info),
    )


def image_facts(reference: str, raw: Mapping[str, Any]) -> ImageFacts:
    """From the answer of ``inspect``. An image that Agentbox did not build has its id for a context."""
    labels = (raw.get("Config") or {}).get("Labels") or {}
    agents = parse_agents(labels.get(_naming.LABEL_AGENTS, ""))
    return ImageFacts(reference, raw["Id"], labels.get(_naming.LABEL_CONTEXT) or raw["Id"], agents)


class Gatherer:
    """Facts of one run. ``predict`` is check mode; without an engine everything on it counts as absent.

    ``coming`` is an image that check mode takes for built.
    """

    def __init__(
        self,
        setting: Setting,
        specs: Sequence[BoxSpec],
        engine: Engine | None,
        secrets: Mapping[str, Mapping[str, str]],
        digester: Digester,
        *,
        predict: bool,
        coming: ImageFacts | None = None,
    ) -> None:
        self._setting = setting
        self._specs = specs
        self._engine = engine
        self._secrets = secrets
        self._digester = digester
        self._predict = predict
        self._coming = coming if predict else None
        self._images: dict[str, dict[str, Any] | None] = {}
        self.warnings: list[str] = []
        if setting.engine.podman:
            self.warnings.append("the engine is Podman, with which Agentbox is not tested")

    @cached_property
    def _containers(self) -> dict[str, dict[str, Any]]:
        if self._engine is None:
            return {}
        found = self._engine.containers(stopped=True)
        return {name.lstrip("/"): item for item in found for name in item.get("Names") or []}

    @cached_property
    def _volumes(self) -> dict[str, Volume]:
        return _volumes.by_name(self._engine)

    @cached_property
    def networks(self) -> Networks:
        return Networks.of(self._engine, self._containers.values())

    @cached_property
    def _inspected(self) -> dict[str, Future[dict[str, Any] | None]]:
        """The containers of the declared boxes, asked for in one sweep."""
        names = [_naming.container_name(self._setting.instance, spec.name) for spec in self._specs]
        return (
            self._engine.inspect_containers([name for name in names if name in self._containers])
            if self._engine
            else {}
        )

    def own_boxes(self) -> set[str]:
        """Names of all boxes that the engine or the state directory knows of this instance and state directory."""
        labels = [self._labels(name) for name in self._containers if self.is_own(name)]
        result = {str(found.get(_naming.LABEL_BOX)) for found in labels}
        for directory in ("boxes", "relay"):
            result |= {Path(path).name for path in _state.entries(f"{self._setting.state_dir}/{directory}")}
        # Paths and names are made of these, and a label can come from any image.
        return {name for name in result if _naming.is_name(name)}

    @cached_property
    def adopted(self) -> Mapping[str, Adoption]:
        """The adopted boxes of this state directory by name."""
        return _adopt.of_instance(self._setting.state_dir, self._setting.instance)

    def container(self, name: str) -> Mapping[str, Any] | None:
        """What the engine lists of the container of exactly that name."""
        return self._containers.get(name)

    def helpers(self, name: str, swap: Swap | None) -> list[str]:
        """Containers that a killed run left beside a box, but for the one that ``swap`` still needs."""
        container = _naming.container_name(self._setting.instance, name)
        suffixes = (PREPARE,) if swap else (PREPARE, ASIDE)
        return [f"{container}{suffix}" for suffix in suffixes if self.is_own(f"{container}{suffix}")]

    def is_own(self, container: str) -> bool:
        """Whether there is a container of that name and it was made for this instance from this state directory."""
        return _ownership.is_own(self._labels(container), self._setting.instance, self._setting.state_dir)

    def _labels(self, container: str) -> Mapping[str, str]:
        return self._containers.get(container, {}).get("Labels") or {}

    def home_volumes(self, name: str) -> list[str]:
        """The volume that only box ``name`` needs, if it exists: its HOME."""
        home = _naming.home_volume(self._setting.instance, name)
        return [home] if home in self.free_volumes else []

    def cache_volumes(self) -> list[str]:
        """The volumes that the boxes of the instance share."""
        prefix = f"{self._setting.instance}-cache-"
        return [name for name in self.free_volumes if name.startswith(prefix)]

    def _own_volumes(self) -> list[str]:
        """Those that the instance made: ``a-b`` of box ``c`` and ``a`` of box ``b-c`` have one name for their HOME.

        With them those that are gone and still noted: a killed run did not come to forget them.
        """
        own = {item.name for item in self._volumes.values() if item.instance == self._setting.instance}
        noted = set(_volumes.noted(self._setting.state_dir)) if self._engine else set()
        return sorted(own | (noted - self._volumes.keys()))

    def parted_containers(self) -> tuple[list[str], list[str]]:
        """All containers of the instance by name: those that this run may remove, and those of another user's state.

        One without a state directory, such as an image's that is being tried, belongs to everybody; an adopted one is
        in neither list.
        """
        adopted = {adoption.container for adoption in self.adopted.values()}
        wanted = ("true", self._setting.instance)
        own: list[str] = []
        foreign: list[str] = []
        for name, item in sorted(self._containers.items()):
            labels = item.get("Labels") or {}
            ours = (labels.get(_naming.LABEL_MANAGED), labels.get(_naming.LABEL_INSTANCE)) == wanted
            if ours and (name not in adopted or _adopt.is_ours(labels)):
                is_own = labels.get(_naming.LABEL_STATE_DIR, self._setting.state_dir) == self._setting.state_dir
                (own if is_own else foreign).append(name)
        return own, foreign

    @cached_property
    def _others(self) -> list[Mapping[str, Any]]:
        """The containers of the engine that this run may not remove: what they use stays."""
        own, _ = self.parted_containers()
        return [item for name, item in self._containers.items() if name not in own]

    @cached_property
    def free_networks(self) -> list[Network]:
        """Networks of the instance that no container of others is in."""
        return self.networks.unused_by(self._others, self._setting.instance)

    @cached_property
    def free_volumes(self) -> list[str]:
        """Volumes of the instance that no container of others has."""
        used = {mount.get("Name") for item in self._others for mount in item.get("Mounts") or []}
        return [name for name in self._own_volumes() if name not in used]

    def has_volume(self, name: str) -> bool:
        return name in self._volumes

    def live(self, name: str) -> tuple[dict[str, Any] | None, Swap | None]:
        """The container that counts as box ``name``, and the recreation that was interrupted there."""
        swap = _swap.pending(BoxPaths(self._setting.state_dir, name))
        container = _naming.container_name(self._setting.instance, name)
        if self._engine is None:
            return None, swap
        if swap is None and container in self._inspected:
            return self._inspected[container].result(), None
        if swap or container in self._containers:
            return _swap.live_container(self._engine, container, swap), swap
        renamed = self._renamed(name)
        return (self._engine.inspect_container(renamed) if renamed else None), swap

    def _renamed(self, box: str) -> str | None:
        """The container of a box under a name that somebody gave it: it has the box's labels, and its files mounted.

        Labels alone would not do, an image made of the box has them too.
        """
        paths = BoxPaths(self._setting.state_dir, box)
        found = [
            name
            for name, item in sorted(self._containers.items())
            if self.is_own(name)
            and item["Labels"].get(_naming.LABEL_BOX) == box
            and any(mount.get("Source") == paths.mount for mount in item.get("Mounts") or [])
            and not name.endswith((ASIDE, PREPARE))
        ]
        if len(found) > 1:
            raise AgentboxError(
                f"containers {' and '.join(found)} are both box {box}, and neither has its name",
                f"Remove one, or rename the right one to {_naming.container_name(self._setting.instance, box)}",
            )
        return found[0] if found else None

    def resolve(self, spec: BoxSpec) -> Box:
        """The box with everything decided. Raises ``DeclarationError`` for what can't be on this host."""
        path = _box.workspace_path(spec.workspace, self._setting.person)
        box = _box.resolve(spec, self._setting, _host.workspace_facts(path))
        others = {directory for container, directory in self._live_writable if container != box.container}
        writable = self._declared_writable | others
        _check_source(f"{spec.path}.workspace", path, writable)
        for index, mount in enumerate(spec.mounts):
            key = f"{spec.path}.mounts[{index}]"
            problem = _host.mount_problem(mount.source, (*self._setting.protected, self._setting.engine.data_root))
            if problem:
                raise DeclarationError(f"{key}: {problem}")
            _check_source(key, mount.source, writable)
        self._check_network(box)
        logins = self._logins.of(box)
        for login in logins:
            _check_source(f"{spec.path}.credentials", login.source, writable)
        return replace(box, logins=logins)

    @cached_property
    def _logins(self) -> Logins:
        return Logins(self._specs, self._engine, self._containers, self._volumes, self._digester)

    @cached_property
    def _declared_writable(self) -> set[str]:
        """Directories of the host that agents of the boxes declared now write to."""
        result = set()
        for spec in self._specs:
            workspace = os.path.realpath(_box.workspace_path(spec.workspace, self._setting.person))
            if spec.is_made and not _host.refusal(workspace, self._setting.protected):
                result |= {workspace, *(os.path.realpath(item.source) for item in spec.mounts if not item.read_only)}
        return result

    @cached_property
    def _live_writable(self) -> list[tuple[str, str]]:
        """Containers of Agentbox, each with a directory of the host that it writes to."""
        return [
            (name, os.path.realpath(str(mount["Source"])))
            for name, item in self._containers.items()
            if (item.get("Labels") or {}).get(_naming.LABEL_MANAGED) == "true"
            for mount in item.get("Mounts") or []
            if mount.get("Type") == "bind" and mount.get("RW")
        ]

    def _check_network(self, box: Box) -> None:
        for name in box.spec.networks:
            self._check_present(f"{box.spec.path}.networks", name)
        network = self.networks.get(box.network)
        key = f"{box.spec.path}.network"
        if box.spec.network != "bridge":
            if box.network not in _BUILT_IN_NETWORKS:
                self._check_present(key, box.network)
            return
        if network is None:
            return
        if network.instance != self._setting.instance:
            raise DeclarationError(
                f"{key}: a network named {box.network} exists and was not made by Agentbox", "Choose another instance"
            )
        if not network.parts_boxes:
            raise DeclarationError(
                f"{key}: network {box.network} was changed and lets boxes reach each other",
                "Remove its boxes and the network, then run again",
            )

    def _check_present(self, key: str, network: str) -> None:
        if self._engine and not self.networks.get(network):
            raise DeclarationError(f"{key}: the engine has no network {network}", "Create it first")

    def situation(self, box: Box, *, recreate_busy: bool, upgrade: bool) -> Situation:
        """Everything that exists for ``box``."""
        live, swap = self.live(box.spec.name)
        key = f"{box.spec.path}.name"  # checked before anything is asked of the container
        _ownership.check_owner(key, live, self._setting.instance, box.spec.name, self._setting.state_dir)
        _backup_note.check_complete(self._setting.state_dir, self._setting.instance, box.spec.name, self._volumes)
        facts = self._image_facts(box.spec.image)
        self._warn_of_leftover(box, swap)
        if live is None:
            self._warn_of_others(box)
        secrets = self._secrets.get(box.spec.name, {})
        bound = _files.bound_files(box, facts.context if facts else "", secrets, self._digester)
        wanted: list[Directory | File] = [*_files.directories(box), *_files.free_files(box, secrets)]
        free = [item for item in wanted if _differs(item, swap)]
        bound = [item for item in bound if _differs(item, swap)]
        situation = Situation(
            live=live,
            image=facts,
            image_environment=self._image_environment(live),
            enforced=_running.enforced(box, live, self._cgroup_mounts) if live else None,
            networks=self.networks.ids,
            replaced=_running.replaced(box, live) if live else {},
            record=_record(box, swap),
            swap=swap,
            free=tuple(free),
            bound=tuple(bound),
            found={item.path: on_disk for item in (*free, *bound) if (on_disk := _found(item, swap))},
            digest=self._short_digest,
            leftovers=(*_undeclared_secrets(box), *_state.unfinished(box.paths.directory)),
            volumes=self._volumes,
            unprepared=unprepared(
                self._setting.state_dir,
                self._setting.instance,
                [*volumes(box), *(mount.source for mount in box.spec.volumes)],
                self._volumes,
            ),
            seeds=self._logins.due(box, live),
            port_problem=self._port_problem(box, live),
            predict=self._predict,
            upgrade=upgrade,
        )
        sparing = box.spec.recreate == "drift" or (upgrade and box.spec.recreate == "never")
        return self._with_viewers(box, situation) if sparing and not recreate_busy else situation

    @cached_property
    def _cgroup_mounts(self) -> tuple[CgroupMount, ...]:
        return mounted()

    def _warn_of_leftover(self, box: Box, swap: Swap | None) -> None:
        leftover = f"{box.container}{ASIDE}"
        if swap is None and self.is_own(leftover):
            self.warnings.append(
                f"box {box.spec.name}: container {leftover} is left of a recreation whose journal is gone; remove it "
                f"once {box.container} is known to be whole"
            )

    def _warn_of_others(self, box: Box) -> None:
        """Told once, when the box is made: agents in one directory get into each other's way, if that is not meant."""
        for name, item in sorted(self._containers.items()):
            labels = item.get("Labels") or {}
            if labels.get(_naming.LABEL_MANAGED) == "true" and labels.get(_naming.LABEL_WORKSPACE) == box.workspace:
                self.warnings.append(f"box {box.spec.name}: container {name} works in {box.workspace} too")

    def _short_digest(self, content: bytes) -> str:
        return self._digester.of_bytes(content)[:_DIGEST_SHOWN]

    def _image_facts(self, reference: str) -> ImageFacts | None:
        if self._coming and self._coming.reference == reference:
            return self._coming
        image = self._image(reference)
        return image_facts(reference, image) if image else None

    def _image(self, reference: str) -> dict[str, Any] | None:
        if reference not in self._images:
            self._images[reference] = self._engine.inspect_image(reference) if self._engine else None
        return self._images[reference]

    def _image_environment(self, live: Mapping[str, Any] | None) -> tuple[str, ...]:
        image = self._image(live["Image"]) if live else None
        return tuple((image or {}).get("Config", {}).get("Env") or ())

    def _port_problem(self, box: Box, live: Mapping[str, Any] | None) -> str | None:
        """Why the box can't listen on a port of its host, after the key that declares it."""
        held = _published(live) if live else set()
        for key, wanted in box.spec.host_ports() if box.spec.state == "started" else ():
            problem = None if (wanted.port, wanted.protocol) in held else _host.port_problem(wanted)
            if problem:
                holder = publisher(wanted, self._containers.values())
                return f"{key}: {wanted} is taken by container {holder}" if holder else f"{key}: {problem}"
        return None

    def _with_viewers(self, box: Box, situation: Situation) -> Situation:
        """Ask tmux for attached clients, only where the answer decides whether a differing box is made anew."""
        live = situation.live
        if self._engine is None or live is None or _plan.status(live) != "running":
            return situation
        payload = create_payload(box, situation.image.context if situation.image else "")
        if not _plan.needs_new(_plan.find_drift(box, situation, payload)):
            return situation
        command = ["tmux", "-L", _naming.TMUX_SOCKET, "list-clients"]
        code, clients = self._engine.run(live["Id"], command, timeout=_ANSWER_SECONDS, most=_ANSWER_BYTES)
        return replace(situation, attached=code == 0 and bool(clients.strip()))


def _check_source(key: str, source: str, writable: Iterable[str]) -> None:
    """Refuse a path of the host that an agent or a stranger could turn into another one."""
    link = _host.foreign_link(source)
    if link:
        raise DeclarationError(
            f"{key}: {link} is a link of a user who does not own what it leads to", "Name the directory itself"
        )
    problem = _host.exposure(os.path.realpath(source), writable)
    if problem:
        raise DeclarationError(f"{key}: {problem}", "Choose a directory outside of it")


def _published(live: Mapping[str, Any]) -> set[tuple[int, str]]:
    """Ports of the host that a running container holds, with their protocols."""
    if not live["State"].get("Running"):
        return set()
    bindings = live["HostConfig"].get("PortBindings") or {}
    return {
        (int(item["HostPort"]), port.partition("/")[2])
        for port, group in bindings.items()
        for item in group or []
        if item.get("HostPort")
    }


def _record(box: Box, swap: Swap | None) -> dict[str, Any]:
    """The record of the container that counts: with a recreation to take back, the one from before it."""
    if swap is None or not swap.restores(box.paths.record):
        return _state.read_json(box.paths.record) or {}
    before = swap.previous[box.paths.record]
    return dict(json.loads(before[0])) if before else {}


def _differs(item: Directory | File, swap: Swap | None) -> bool:
    """Whether ``item`` has to be written, once an interrupted recreation is taken back."""
    if isinstance(item, File) and swap and swap.restores(item.path):
        before = swap.previous[item.path]
        return before is None or (before[0].encode(), before[1]) != (item.content, item.mode)
    return _state.directory_differs(item) if isinstance(item, Directory) else _state.file_differs(item)


def _found(item: Directory | File, swap: Swap | None) -> Found | None:
    """What is on disk, once an interrupted recreation is taken back."""
    if isinstance(item, File) and swap and swap.restores(item.path):
        before = swap.previous[item.path]
        return Found(before[1], os.geteuid(), before[0].encode()) if before else None
    return _state.find(item)


def _undeclared_secrets(box: Box) -> tuple[str, ...]:
    directory = Path(box.paths.secrets)
    if not directory.is_dir():
        return ()
    return tuple(sorted(str(path) for path in directory.iterdir() if path.name not in box.spec.secrets))
