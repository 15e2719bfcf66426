"""Carrying out a plan on the real engine and file system, action by action."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import (
    _acl,
    _actions,
    _adopt,
    _backup_note,
    _credentials_box,
    _credentials_host,
    _fresh_volumes,
    _naming,
    _state,
    _swap,
)
from ._actions import Action
from ._box import Box
from ._credentials_host import Seed
from ._engine import Engine
from ._errors import EngineAbsentError, EngineError
from ._naming import BoxPaths
from ._networks import BETWEEN_CONTAINERS, Networks
from ._payload import STOP_SECONDS, leading_to_mounts
from ._plan import BoxPlan
from ._progress import Report
from ._volumes import Volume, forget, mark_prepared


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
            _actions.MAKE_DIRECTORY: lambda action: _state.ensure_directory(action.subject),
            _actions.WRITE_FILE: lambda action: _state.write_file(action.subject),
            _actions.REMOVE_PATH: lambda action: _state.remove_tree(action.subject),
            _actions.MAKE_WORKSPACE: lambda action: _state.ensure_directory(action.subject),
            _actions.SET_ACL: lambda action: _acl.grant(*action.subject),
            _actions.CREATE_NETWORK: self._create_network,
            _actions.REMOVE_NETWORK: lambda action: self._engine.remove_network(action.subject),
            _actions.REMOVE_SPARE_NETWORK: lambda action: self._engine.remove_network(action.subject),
            _actions.REMOVE_VOLUME: self._remove_volume,
            _actions.ADOPT: lambda action: _adopt.write(action.subject),
            _actions.FORGET: lambda action: _state.remove_file(action.subject),
            _actions.REMOVE: lambda action: self._engine.remove_container(action.detail),
            _actions.RENAME: lambda action: self._rename(*action.subject),
            _actions.LEAVE_NETWORK: lambda action: self._leave(*action.subject),
            _actions.JOIN_NETWORK: lambda action: self._join(*action.subject),
            _actions.UPDATE: lambda action: self._engine.update_container(action.detail, action.subject),
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
            elif action.kind == _actions.FINISH_SWAP:
                _swap.resume(self._engine, paths, action.subject)
            elif action.kind == _actions.CREATE and box:
                self._create(box, plan.payload, action.subject)
            elif action.kind == _actions.RECREATE and box:
                self._recreate(box, plan, action)
            elif action.kind == _actions.SEED_LOGIN and box:
                self._seed(box, action.subject)
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

    def _create(self, box: Box, payload: Mapping[str, Any], fresh: tuple[str, ...]) -> str:
        """Create the container, with the volumes ``fresh``, which the box's user does not own yet; its id."""
        created = self._create_with_volumes(box, payload, fresh) or self._create_after_volumes(box, payload, fresh)
        self._join_networks(created, payload)
        return created

    def _create_with_volumes(self, box: Box, payload: Mapping[str, Any], fresh: tuple[str, ...]) -> str | None:
        """None where that can't be: the engine's disk is not this host's, or something is in the way there."""
        if not fresh or not _fresh_volumes.can_be_prepared_here(box, payload, fresh):
            return None
        try:
            created, volumes = _fresh_volumes.create(self._engine, box, _in_one_network(payload), fresh)
        except OSError:
            return None
        with _fresh_volumes.removed_on_error(self._engine, created):
            self._mark_prepared(volumes)
            self._rename(created, box.container)
        return created

    def _create_after_volumes(self, box: Box, payload: Mapping[str, Any], fresh: tuple[str, ...]) -> str:
        if fresh:
            self._mark_prepared(_fresh_volumes.prepare(self._engine, box, payload, fresh))
        if leading_to_mounts(box) and _naming.home_volume(self._instance, box.spec.name) not in fresh:
            _fresh_volumes.make_way(self._engine, box, payload)
        if box.spec.credentials == "mount":
            _credentials_box.make_mount_points(self._engine, box, box.logins)
        with self._engine.doing(f"create container {box.container}"):
            created = self._engine.client.create_container_from_config(_in_one_network(payload), box.container)
        return str(created["Id"])

    def _mark_prepared(self, volumes: Iterable[Volume]) -> None:
        with self._markers:
            mark_prepared(self._state_dir, volumes)

    def _join_networks(self, container: str, payload: Mapping[str, Any]) -> None:
        """Put a container that does not run yet into its further networks; one that can't be is removed again."""
        endpoints, first = payload["NetworkingConfig"]["EndpointsConfig"], payload["HostConfig"]["NetworkMode"]
        with _fresh_volumes.removed_on_error(self._engine, container):
            for network in endpoints:
                if network != first:
                    self._join(container, network)

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

    def _seed(self, box: Box, seed: Seed) -> None:
        volume = _credentials_box.seed(self._engine, box, seed)
        with self._markers:
            _credentials_host.remember(self._state_dir, volume, seed)

    def _change_state(self, kind: str, name: str) -> None:
        client = self._engine.client
        with self._engine.doing(f"{kind} container {name}"):
            if kind == _actions.STOP:
                client.stop(name, timeout=STOP_SECONDS)
            elif kind == _actions.UNPAUSE:
                client.unpause(name)
            elif kind == _actions.START:
                client.start(name)
        if kind == _actions.START:
            self._check_started(name)

    def _check_started(self, name: str) -> None:
        """A start that ends at once is an error here and now; whether the box is healthy is for ``health``."""
        found = self._engine.inspect_container(name)
        if not found or not found["State"]["Running"]:
            output = _swap.last_lines(self._engine, name)
            raise EngineError(f"container {name} ended at once: {_swap.explain_exit(found)}{output}")

    def _create_network(self, action: Action) -> None:
        """Make the network, unless it came since: a killed run's request may have reached the engine."""
        labels = {_naming.LABEL_MANAGED: "true", _naming.LABEL_INSTANCE: self._instance}
        try:
            with self._engine.doing(f"create network {action.detail}"):
                self._engine.client.create_network(
                    action.detail,
                    driver="bridge",
                    options={BETWEEN_CONTAINERS: "false"},
                    check_duplicate=True,  # else the engine makes a second one of the name
                    labels=labels,
                )
        except EngineError:
            found = Networks.of(self._engine).get(action.detail)
            if found is None or found.instance != self._instance:
                raise
        for spare in Networks.of(self._engine).spare(action.detail, self._instance):
            self._engine.remove_network(spare.id)

    def _remove_volume(self, action: Action) -> None:
        self._engine.remove_volume(action.detail)
        forget(self._state_dir, action.detail)
        _credentials_host.forget(self._state_dir, action.detail)
        _backup_note.forget(self._state_dir, action.detail)


def _in_one_network(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload as engines take it: before API 1.44 they join one network at creation."""
    first = payload["HostConfig"]["NetworkMode"]
    endpoints = {name: end for name, end in payload["NetworkingConfig"]["EndpointsConfig"].items() if name == first}
    return {**payload, "NetworkingConfig": {"EndpointsConfig": endpoints}}
