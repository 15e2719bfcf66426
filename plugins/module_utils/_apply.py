"""Carrying out a plan on the real engine and file system, action by action."""

from __future__ import annotations

import io
import secrets
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _acl, _naming, _plan, _state, _swap
from ._box import Box
from ._engine import Engine
from ._errors import EngineAbsentError, EngineError
from ._naming import BoxPaths
from ._payload import STOP_SECONDS, home_directories
from ._plan import Action, BoxPlan
from ._progress import Report
from ._volumes import Volume, forget, mark_prepared

PREPARE = ".prepare"  # no box name holds a dot


class Applier:
    """Applies plans of one instance; its methods may run in several threads at once.

    Without an engine it can still remove what lies on the disk.
    """

    def __init__(
        self, engine: Engine | None, state_dir: str, instance: str, report: Report, health_wait: float
    ) -> None:
        self._connected = engine
        self._state_dir = state_dir
        self._instance = instance
        self._report = report
        self._health_wait = health_wait
        self._markers = threading.Lock()
        self._shared: dict[str, Callable[[Action], None]] = {
            _plan.MAKE_DIRECTORY: lambda action: _state.ensure_directory(action.subject),
            _plan.WRITE_FILE: lambda action: _state.write_file(action.subject),
            _plan.REMOVE_PATH: lambda action: _state.remove_tree(action.subject),
            _plan.MAKE_WORKSPACE: lambda action: _state.ensure_directory(action.subject),
            _plan.SET_ACL: lambda action: _acl.grant(*action.subject),
            _plan.CREATE_NETWORK: self._create_network,
            _plan.REMOVE_NETWORK: self._remove_network,
            _plan.REMOVE_VOLUME: self._remove_volume,
            _plan.REMOVE: lambda action: self._change_state(action.kind, action.detail),
            _plan.RENAME: lambda action: self._rename(*action.subject),
            _plan.LEAVE_NETWORK: lambda action: self._leave(*action.subject),
            _plan.JOIN_NETWORK: lambda action: self._join(*action.subject),
            _plan.UPDATE: lambda action: self._engine.update_container(action.detail, action.subject),
        }

    @property
    def _engine(self) -> Engine:
        if self._connected is None:
            raise EngineAbsentError("no engine is installed", "Run the docker role")
        return self._connected

    def apply_shared(self, actions: Iterable[Action]) -> None:
        """Actions that belong to no box."""
        for action in actions:
            self._shared[action.kind](action)

    def apply(self, plan: BoxPlan, box: Box | None) -> None:
        """All actions of one box in order; ``box`` is None for one that goes. The first error ends it."""
        paths = BoxPaths(self._state_dir, plan.name)
        for action in plan.actions:
            self._report(f"{plan.container}: {action.kind.replace('_', ' ')} {action.detail}")
            if action.kind in self._shared:
                self._shared[action.kind](action)
            elif action.kind == _plan.FINISH_SWAP:
                _swap.resume(self._engine, paths, action.subject)
            elif action.kind == _plan.CREATE and box:
                self._create(box, plan.payload, action.subject)
            elif action.kind == _plan.RECREATE and box:
                self._recreate(box, plan, action)
            else:
                self._change_state(action.kind, action.detail)

    def _recreate(self, box: Box, plan: BoxPlan, action: Action) -> None:
        _swap.recreate(
            self._engine,
            box.paths,
            box.container,
            action.subject.live,
            files=action.subject.files,
            create=lambda: self._create(box, plan.payload, action.subject.volumes),
            wait=self._health_wait if box.spec.state == "started" else None,
            report=self._report,
        )

    def _create(self, box: Box, payload: Mapping[str, Any], unprepared: tuple[str, ...]) -> str:
        if unprepared:
            self._prepare_volumes(box, payload, unprepared)
        with self._engine.doing(f"create container {box.container}"):
            created = self._engine.client.create_container_from_config(_in_one_network(payload), box.container)
        self._join_networks(str(created["Id"]), payload)
        return str(created["Id"])

    def _join_networks(self, container: str, payload: Mapping[str, Any]) -> None:
        """Put a container that does not run yet into its further networks; one that can't be is removed again."""
        endpoints, first = payload["NetworkingConfig"]["EndpointsConfig"], payload["HostConfig"]["NetworkMode"]
        try:
            for network in endpoints:
                if network != first:
                    self._join(container, network)
        except EngineError:
            with self._engine.doing(f"remove container {container}"):
                self._engine.client.remove_container(container, force=True)
            raise

    def _prepare_volumes(self, box: Box, payload: Mapping[str, Any], names: tuple[str, ...]) -> None:
        """Give the roots of new volumes to the box uid, by a container that is never started."""
        mounts = [mount for mount in payload["HostConfig"]["Mounts"] if mount["Source"] in names]
        helper = f"{box.container}{PREPARE}"
        config = {
            "Image": payload["Image"],
            "Cmd": ["true"],
            "Labels": {
                _naming.LABEL_MANAGED: "true",
                _naming.LABEL_INSTANCE: self._instance,
                _naming.LABEL_STATE_DIR: self._state_dir,
            },
            "HostConfig": {"NetworkMode": "none", "Mounts": [_with_content(mount) for mount in mounts]},
        }
        self._remove_helper(helper)
        with self._engine.doing(f"prepare the volumes of {box.container}"):
            created = self._engine.client.create_container_from_config(config, helper)
            self._engine.client.put_archive(
                created["Id"], "/", _directories(box, [mount["Target"] for mount in mounts])
            )
            self._engine.client.remove_container(created["Id"], force=True)
            volumes = [Volume.from_api(self._engine.client.inspect_volume(name)) for name in names]
        with self._markers:
            mark_prepared(self._state_dir, volumes)

    def _rename(self, old: str, new: str) -> None:
        with self._engine.doing(f"rename container {old}"):
            self._engine.client.rename(old, new)

    def _leave(self, container: str, network: str) -> None:
        with self._engine.doing(f"take container {container} out of network {network}"):
            # By force, because the network itself may be gone.
            self._engine.client.disconnect_container_from_network(container, network, force=True)

    def _join(self, container: str, network: str) -> None:
        with self._engine.doing(f"put container {container} into network {network}"):
            self._engine.client.connect_container_to_network(container, network)

    def _change_state(self, kind: str, name: str) -> None:
        client = self._engine.client
        with self._engine.doing(f"{kind} container {name}"):
            if kind == _plan.STOP:
                client.stop(name, timeout=STOP_SECONDS)
            elif kind == _plan.UNPAUSE:
                client.unpause(name)
            elif kind == _plan.REMOVE:
                client.remove_container(name, force=True)
            elif kind == _plan.START:
                client.start(name)
        if kind == _plan.START:
            self._check_started(name)

    def _check_started(self, name: str) -> None:
        """A start that ends at once is an error here and now; whether the box is healthy is for ``health``."""
        found = self._engine.inspect_container(name)
        if not found or not found["State"]["Running"]:
            output = _swap.last_lines(self._engine, name)
            raise EngineError(f"container {name} ended at once: {_swap.explain_exit(found)}{output}")

    def _remove_helper(self, name: str) -> None:
        """Remove what a killed run left."""
        found = self._engine.inspect_container(name)
        if not found:
            return
        if not _plan.is_own(found["Config"].get("Labels") or {}, self._instance, self._state_dir):
            raise _plan.ForeignBoxError(f"container {name} exists and was not made by this run's user", "Rename it")
        with self._engine.doing(f"remove container {name}"):
            self._engine.client.remove_container(found["Id"], force=True)

    def _create_network(self, action: Action) -> None:
        with self._engine.doing(f"create network {action.detail}"):
            self._engine.client.create_network(
                action.detail,
                driver="bridge",
                options={"com.docker.network.bridge.enable_icc": "false"},
                labels={_naming.LABEL_MANAGED: "true", _naming.LABEL_INSTANCE: self._instance},
            )

    def _remove_network(self, action: Action) -> None:
        with self._engine.doing(f"remove network {action.detail}"):
            self._engine.client.remove_network(action.detail)

    def _remove_volume(self, action: Action) -> None:
        with self._engine.doing(f"remove volume {action.detail}"):
            self._engine.client.remove_volume(action.detail)
        forget(self._state_dir, action.detail)


def _in_one_network(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload as engines take it: before API 1.44 they join one network at creation."""
    first = payload["HostConfig"]["NetworkMode"]
    endpoints = {name: end for name, end in payload["NetworkingConfig"]["EndpointsConfig"].items() if name == first}
    return {**payload, "NetworkingConfig": {"EndpointsConfig": endpoints}}


def _with_content(mount: Mapping[str, Any]) -> dict[str, Any]:
    """A volume's mount, writable, that takes the image's content with it; a volume that it makes gets a mark."""
    labels = {**mount["VolumeOptions"]["Labels"], _naming.LABEL_MARK: secrets.token_hex(8)}
    return {**mount, "ReadOnly": False, "VolumeOptions": {"NoCopy": False, "Labels": labels}}


def _directories(box: Box, targets: list[str]) -> bytes:
    """A tar archive of directory entries that belong to the box uid: roots of volumes, and what lies in HOME."""
    paths = sorted(targets)
    if _naming.BOX_HOME in targets:
        paths += [f"{_naming.BOX_HOME}/{below}" for below in home_directories(box)]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in paths:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o755, box.uid, _naming.BOX_GID
            entry.mtime = time.time()
            archive.addfile(entry)
    return buffer.getvalue()
