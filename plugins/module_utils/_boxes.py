"""Converging all boxes of an instance: read once, plan each, apply each in a thread, one result per box."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _actions, _adopt, _backup_note, _credentials_host, _files, _naming, _plan, _state, _volumes
from ._actions import Action
from ._apply import Applier
from ._box import Box, ImageFacts, Setting
from ._engine import Engine
from ._errors import AgentboxError, DeclarationError
from ._gather import Gatherer
from ._helper import SUFFIX as PREPARE
from ._naming import BoxPaths
from ._plan import BoxPlan
from ._progress import Report
from ._spec import BoxSpec, parse_boxes
from ._state import Directory
from ._swap import ASIDE, HEALTH_SECONDS
from ._values import InvalidValueError, secret_values

_THREADS = 8
# What boxes share goes after the last of them.
_LAST = (_actions.REMOVE, _actions.REMOVE_NETWORK, _actions.REMOVE_VOLUME, _actions.REMOVE_PATH)


@dataclass(frozen=True)
class Request:
    """What is asked for.

    ``engine`` is None where none is installed: check mode on a pristine host, or nothing but absence is asked for.
    """

    setting: Setting
    boxes: object  # as declared
    secrets: object  # per box, name to value
    engine: Engine | None
    report: Report
    check: bool = False
    coming: ImageFacts | None = None  # an image that check mode takes for built
    absent: bool = False  # of the whole instance nothing stays
    prune: bool = False
    upgrade: bool = False
    remove_volumes: bool = False
    recreate_busy: bool = False
    lock_timeout: float = 120.0
    health_wait: float = HEALTH_SECONDS


@dataclass
class BoxResult:
    """What became of one box."""

    name: str
    container: str
    state: str
    spec: BoxSpec | None = None
    plan: BoxPlan | None = None
    uid: int | None = None
    workspace: str | None = None
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        plan, publish = self.plan, self.spec.publish if self.spec else None
        return {
            "name": self.name,
            "container": self.container,
            "state": self.state,
            "changed": bool(plan and plan.actions),
            "failed": bool(self.error),
            "msg": self.error,
            "actions": [action.as_dict() for action in plan.actions] if plan else [],
            "drift": [drift.as_dict() for drift in plan.drift] if plan else [],
            "page": f"http://{publish}" if publish and self.state == "started" else None,
            "attach": None if self.state == "adopted" else _naming.attach_command(self.container),
            "uid": self.uid,
            "workspace": self.workspace,
        }


@dataclass
class Outcome:
    """What the whole run did, or in check mode would do."""

    boxes: list[BoxResult] = field(default_factory=list)
    shared: list[Action] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def failures(self) -> list[str]:
        failed = [f"box {box.name}: {box.error}" for box in self.boxes if box.error]
        return failed + ([self.error] if self.error else [])

    def as_dict(self) -> dict[str, Any]:
        plans = [box.plan for box in self.boxes if box.plan]
        actions = [{"box": "", **action.as_dict()} for action in self.shared]
        actions += [{"box": plan.name, **action.as_dict()} for plan in plans for action in plan.actions]
        before = {plan.name: dict(plan.before) for plan in plans if plan.before or plan.after}
        after = {plan.name: dict(plan.after) for plan in plans if plan.before or plan.after}
        for action in self.shared:
            gone = action.kind.startswith("remove")
            before.setdefault("", {})[action.detail] = "present" if gone else None
            after.setdefault("", {})[action.detail] = None if gone else "present"
        return {
            "changed": bool(actions),
            "boxes": [box.as_dict() for box in self.boxes],
            "actions": actions,
            "drift": [{"box": plan.name, **drift.as_dict()} for plan in plans for drift in plan.drift],
            "diff": {"before": before, "after": after},
        }


def only_absence(boxes: object) -> bool:
    """Whether a declaration asks for no box to be there, so that it is fulfilled where there is no engine."""
    if boxes is None or boxes == "":
        return True
    return isinstance(boxes, list) and all(isinstance(box, Mapping) and box.get("state") == "absent" for box in boxes)


def converge(request: Request) -> Outcome:
    """Bring every declared box to its declaration.

    A wrong declaration raises ``DeclarationError`` before anything changes. What goes wrong with one box stands in
    its result and does not stop the others.
    """
    setting = request.setting
    if not _naming.is_name(setting.instance):
        raise DeclarationError(f"instance: '{setting.instance}' is no valid name")
    for name, manifest in setting.manifests.items():
        if not isinstance(manifest, Mapping):
            raise DeclarationError(f"manifests.{name}: must be a mapping")
    try:
        secrets = secret_values(request.secrets)
    except InvalidValueError as error:
        raise DeclarationError(f"secrets{error.key}: {error.message}") from None
    specs = parse_boxes(request.boxes, instance=setting.instance, manifests=setting.manifests, secrets=secrets)
    if specs and request.absent:
        raise DeclarationError("boxes: no box can be declared of an instance that shall not be there")
    if not specs and not (request.prune or request.absent):
        return Outcome()
    staying = any(spec.state != "absent" for spec in specs)
    missing = [item for item in _files.shared_directories(setting.state_dir) if _state.directory_differs(item)]
    shared = [Action(_actions.MAKE_DIRECTORY, item.path, item) for item in missing if staying]
    with _lock(request, missing, staying=staying):
        run = _Run(request, specs, secrets, shared)
        run.plan()
        if not request.check:
            run.apply()
    return run.outcome


def _lock(request: Request, missing: Iterable[Directory], *, staying: bool) -> AbstractContextManager[None]:
    """The instance's lock; none in check mode, nor where there is nothing but absence and no state directory."""
    state_dir = request.setting.state_dir
    if request.check or not (staying or Path(state_dir).is_dir()):
        return nullcontext()
    for directory in missing if staying else ():
        _state.ensure_directory(directory)
    return _state.locked(state_dir, "module box", request.lock_timeout)


class _Run:
    """One convergence under the lock."""

    def __init__(
        self, request: Request, specs: list[BoxSpec], secrets: Mapping[str, Mapping[str, str]], shared: list[Action]
    ) -> None:
        self._request = request
        self._specs = specs
        staying = any(spec.state != "absent" for spec in specs)
        digester = _state.digester(request.setting.state_dir, create=staying and not request.check)
        self._gather = Gatherer(
            request.setting, specs, request.engine, secrets, digester, predict=request.check, coming=request.coming
        )
        self._boxes: dict[str, Box] = {}
        self.outcome = Outcome(shared=shared)

    def plan(self) -> None:
        """Fill the outcome with plans; no side effects."""
        for spec in self._specs:
            self.outcome.boxes.append(self._plan_one(spec))
        if self._request.prune or self._request.absent:
            self._plan_prune()
        if self._request.absent:
            self._plan_rest()
        else:
            self._plan_shared()
        self.outcome.warnings += self._gather.warnings
        self.outcome.warnings += [text for box in self.outcome.boxes if box.plan for text in box.plan.warnings]

    def _plan_one(self, spec: BoxSpec) -> BoxResult:
        result = BoxResult(spec.name, self._container(spec.name), spec.state, spec)
        try:
            if spec.state == "absent":
                result.plan = self._plan_absent(spec.name)
            elif spec.state == "adopted":
                result.container = str(spec.container)
                result.plan = self._plan_adopted(spec)
            else:
                box = self._gather.resolve(spec)
                self._boxes[spec.name] = box
                result.uid, result.workspace = box.uid, box.workspace
                situation = self._gather.situation(
                    box, recreate_busy=self._request.recreate_busy, upgrade=self._request.upgrade
                )
                result.container = box.container
                result.plan = _adopt.forgotten(_plan.plan_box(box, situation), self._gather.adopted.get(spec.name))
        except (AgentboxError, OSError) as error:
            result.error = str(error)
        return result

    def _container(self, name: str) -> str:
        """Name of the container that a box has, or would have."""
        adopted = self._gather.adopted.get(name)
        return adopted.container if adopted else _naming.container_name(self._request.setting.instance, name)

    def _plan_adopted(self, spec: BoxSpec) -> BoxPlan:
        setting, container = self._request.setting, self._gather.container(str(spec.container))
        taken = spec.name in self._gather.own_boxes()
        return _adopt.plan(spec, setting.state_dir, setting.instance, container, taken=taken)

    def _plan_absent(self, name: str, *, pruned: bool = False) -> BoxPlan:
        setting = self._request.setting
        paths = BoxPaths(setting.state_dir, name)
        live, swap = self._gather.live(name)
        adopted = self._gather.adopted.get(name)
        if (pruned or adopted) and live and not self._gather.is_own(str(live["Name"]).lstrip("/")):
            live = None  # the adopted one, or somebody else's, who took the name of a box that is half gone
        plan = _plan.plan_absent(
            setting.instance,
            setting.state_dir,
            name,
            live,
            swap=swap,
            helpers=self._gather.helpers(name, swap),
            paths=[path for path in (paths.relay, paths.directory) if os.path.lexists(path)],
            volume_names=self._gather.home_volumes(name) if self._request.remove_volumes else (),
        )
        return _adopt.forgotten(plan, adopted)

    def _plan_prune(self) -> None:
        declared = {spec.name for spec in self._specs}
        for name in sorted((self._gather.own_boxes() | self._gather.adopted.keys()) - declared):
            result = BoxResult(name, self._container(name), "absent")
            try:
                result.plan = self._plan_absent(name, pruned=True)
            except (AgentboxError, OSError) as error:
                result.error = str(error)
            self.outcome.boxes.append(result)

    def _plan_shared(self) -> None:
        """What boxes share lasts from the first to the last of them: the network, and the caches unless they stay."""
        network = _naming.network_name(self._request.setting.instance)
        bridged = any(box.network == network for box in self._boxes.values())
        going = {box.name for box in self.outcome.boxes if box.state == "absent"}
        staying = {box.name for box in self.outcome.boxes if box.state != "adopted"} - going
        if bridged and not self._gather.networks.get(network):
            self.outcome.shared.append(Action(_actions.CREATE_NETWORK, network))
        elif bridged:
            spare = self._gather.networks.spare(network, self._request.setting.instance)
            self.outcome.shared += [Action(_actions.REMOVE_SPARE_NETWORK, f"{it.name} {it.id}", it.id) for it in spare]
        elif (going or self._request.prune) and not staying and not self._gather.own_boxes() - going:
            free = [it for it in self._gather.free_networks if it.name == network]
            self.outcome.shared += [Action(_actions.REMOVE_NETWORK, it.name, it.id) for it in free]
            if self._request.remove_volumes:
                caches = self._gather.cache_volumes()
                self.outcome.shared += [Action(_actions.REMOVE_VOLUME, volume, volume) for volume in caches]

    def _plan_rest(self) -> None:
        """All that an instance has besides its boxes; what somebody else's box uses stays."""
        gather, setting = self._gather, self._request.setting
        own, foreign = gather.parted_containers()
        names = [box.container for box in self.outcome.boxes]
        known = {f"{name}{suffix}" for name in names for suffix in ("", ASIDE, PREPARE)}
        gone = {action.detail for box in self.outcome.boxes if box.plan for action in box.plan.actions}
        volumes = gather.free_volumes
        there = [name for name in volumes if gather.has_volume(name)]
        staying = there if self._request.engine else _volumes.noted(setting.state_dir)
        paths = self._paths(keep_notes=bool(staying) and not self._request.remove_volumes)
        going = volumes if self._request.remove_volumes else []
        self.outcome.shared += [
            *(Action(_actions.REMOVE, name) for name in own if name not in known | gone),
            *(Action(_actions.REMOVE_NETWORK, it.name, it.id) for it in gather.free_networks),
            *(Action(_actions.REMOVE_VOLUME, name, name) for name in going if name not in gone),
            *(Action(_actions.REMOVE_PATH, path, path) for path in paths),
        ]
        self.outcome.warnings += [
            f"container {name} is another user's and stays, with what it uses" for name in foreign
        ]
        if staying and self._request.remove_volumes and not self._request.engine:
            self.outcome.warnings.append(f"no engine is installed to remove the volumes {', '.join(staying)}")

    def _paths(self, *, keep_notes: bool) -> list[str]:
        """What goes of the state directory: all of it, or all but what is noted of volumes that stay."""
        state_dir = self._request.setting.state_dir
        if keep_notes:
            notes = (_volumes.notes, _credentials_host.directory, _backup_note.directory)
            kept = [_naming.lock_path(state_dir), *(directory(state_dir) for directory in notes)]
            return [path for path in _state.entries(state_dir) if path not in kept]
        return [state_dir] if os.path.lexists(state_dir) else []

    def apply(self) -> None:
        request, setting = self._request, self._request.setting
        applier = Applier(request.engine, setting.state_dir, setting.instance, request.report, request.health_wait)
        last = [action for action in self.outcome.shared if action.kind in _LAST]
        if not self._apply_shared(applier, [action for action in self.outcome.shared if action not in last]):
            return
        if request.upgrade:
            self._apply_in_turn(applier)
        else:
            with ThreadPoolExecutor(_THREADS) as pool:
                list(pool.map(lambda result: self._apply_one(applier, result), self.outcome.boxes))
        if last and not self.outcome.failures:
            self._apply_shared(applier, last)

    def _apply_in_turn(self, applier: Applier) -> None:
        """One box after the other; those after the first that fails are left as they are."""
        failed = ""
        for result in self.outcome.boxes:
            if not failed:
                self._apply_one(applier, result)
                failed = result.name if result.error else ""
            elif result.plan and result.plan.actions:
                result.plan = result.plan.untouched()
                self.outcome.warnings.append(f"box {result.name} was left as it is, because box {failed} failed")

    def _apply_shared(self, applier: Applier, actions: Iterable[Action]) -> bool:
        """Whether all ``actions`` succeeded."""
        try:
            applier.apply_shared(actions)
        except AgentboxError as error:
            self.outcome.error = str(error)
        return not self.outcome.error

    def _apply_one(self, applier: Applier, result: BoxResult) -> None:
        if result.plan is None:
            return
        try:
            applier.apply(result.plan, self._boxes.get(result.name))
        except (AgentboxError, OSError) as error:
            result.error = str(error)
