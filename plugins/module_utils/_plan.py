"""From a resolved box and what exists to the ordered actions that make it so.

Pure: everything read before stands in ``Situation``; applying is the matter of ``_apply.py``. Check mode is this plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import _drift, _naming, _state
from ._actions import (
    CREATE,
    FINISH_SWAP,
    JOIN_NETWORK,
    LEAVE_NETWORK,
    MAKE_DIRECTORY,
    MAKE_WORKSPACE,
    RECREATE,
    REMOVE,
    REMOVE_PATH,
    REMOVE_VOLUME,
    RENAME,
    SEED_LOGIN,
    SET_ACL,
    START,
    STOP,
    UNPAUSE,
    UPDATE,
    WRITE_FILE,
    Action,
    Replacement,
)
from ._box import Box, ImageFacts
from ._creatable import check_creatable
from ._credentials_host import Seed
from ._drift import Drift, Live, Recorded
from ._errors import AgentboxError, DeclarationError
from ._files import staying_files
from ._health_facts import CgroupFacts
from ._ownership import check_owner, check_schema, check_workspace
from ._payload import create_payload
from ._spec import SCHEMA
from ._state import Directory, File, Found
from ._swap import Swap
from ._values import human_size
from ._volumes import Volume

RUNNING_STATES = ("running", "paused", "restarting")


@dataclass(frozen=True)
class Situation:
    """What exists for one box. All of it was read at one moment."""

    live: Mapping[str, Any] | None  # inspect of its container
    image: ImageFacts | None = None  # of the declared reference
    image_environment: tuple[str, ...] = ()  # of the image that live runs
    enforced: CgroupFacts | None = None  # see _drift.Live, as networks and replaced
    networks: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, str] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    swap: Swap | None = None  # an interrupted recreation
    free: tuple[Directory | File, ...] = ()  # see _files.py; those that differ from the disk
    bound: tuple[File, ...] = ()
    found: Mapping[str, Found] = field(default_factory=dict)  # on disk, by path, of free and bound
    digest: Callable[[bytes], str] = lambda _: ""  # stands for the content of a file in a diff
    leftovers: tuple[str, ...] = ()  # paths that nothing declares any more
    volumes: Mapping[str, Volume] = field(default_factory=dict)  # that exist, by name
    unprepared: tuple[str, ...] = ()  # volumes whose root has to be given to the box uid
    seeds: tuple[Seed, ...] = ()  # logins of the host to be written into volumes
    port_problem: str | None = None  # after the key that declares the port
    upgrade: bool = False  # an upgrade was asked for, see may_recreate()
    attached: bool = False  # somebody looks at its terminal
    predict: bool = False  # check mode: an image may yet come


@dataclass(frozen=True)
class BoxPlan:
    """What to do for one box. ``before`` and ``after`` hold only what differs."""

    name: str
    container: str
    actions: tuple[Action, ...]
    drift: tuple[Drift, ...] = ()  # stays
    repaired: tuple[Drift, ...] = ()  # goes with the actions
    payload: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def untouched(self) -> BoxPlan:
        """The plan of leaving everything as it is."""
        return replace(
            self, actions=(), drift=self.drift + self.repaired, repaired=(), before={}, after={}, warnings=()
        )


def status(live: Mapping[str, Any] | None) -> str:
    """State of a container as the engine names it; ``absent`` without one."""
    return str(live["State"]["Status"]) if live else "absent"


def plan_box(box: Box, situation: Situation) -> BoxPlan:
    """Plan for a box that shall exist, started or stopped."""
    live = situation.live
    check_owner(f"{box.spec.path}.name", live, box.setting.instance, box.spec.name, box.setting.state_dir)
    check_schema(box, live)
    check_workspace(box, live)
    if status(live) == "removing":
        raise AgentboxError(f"container {box.container} is being removed", "Try again in a moment")
    payload = create_payload(box, situation.image.context if situation.image else "")
    drift = find_drift(box, situation, payload)
    recreate = needs_new(drift) and may_recreate(box, situation)
    made_anew = recreate or live is None or status(live) == "dead"
    if made_anew:
        check_creatable(box, situation.image, situation.volumes, predict=situation.predict)
    wants_port = made_anew or status(live) not in RUNNING_STATES
    if box.spec.state == "started" and wants_port and situation.port_problem:
        raise DeclarationError(f"{box.spec.path}.{situation.port_problem}", "Free the port or declare another")
    repaired = [item for item in drift if recreate or item.in_place]
    kept = [item for item in drift if item not in repaired]
    files, lost = _files_now(box, situation, kept, recreate=recreate)
    kept += lost
    actions = [
        *_recovery(situation),
        *_preparation(box, files),
        *_container_actions(box, situation, payload, repaired, recreate=recreate),
    ]
    before, after = _difference(box, situation, actions, repaired)
    return BoxPlan(
        name=box.spec.name,
        container=box.container,
        actions=tuple(actions),
        drift=tuple(kept),
        repaired=tuple(repaired),
        payload=payload,
        before=before,
        after=after,
        warnings=tuple(_warnings(box, situation, kept)),
    )


def find_drift(box: Box, situation: Situation, payload: Mapping[str, Any]) -> list[Drift]:
    """Differences of the live container, those that can be put right in place and those that only a new one can."""
    if situation.live is None or status(situation.live) == "dead":
        return []
    live = Live(
        situation.live,
        situation.image_environment,
        enforced=situation.enforced,
        networks=situation.networks,
        volumes=situation.volumes or None,
        replaced=situation.replaced,
        image=situation.image.id if situation.image else None,
        # Podman's update call knows only some of the limits, and that of gVisor's container depends on its version.
        updatable=not box.setting.engine.podman and box.spec.runtime == "runc",
    )
    return _drift.compare(payload, live, box.spec.canonical(), _recorded(situation))


def _recorded(situation: Situation) -> Recorded:
    record = situation.record
    if record.get("schema") != SCHEMA or not isinstance(record.get("spec"), Mapping):
        return Recorded()
    return Recorded(record["spec"], str(record.get("context")))


def needs_new(drift: Iterable[Drift]) -> bool:
    """Whether only a new container puts all of ``drift`` right."""
    return any(not item.in_place for item in drift)


def may_recreate(box: Box, situation: Situation) -> bool:
    """Whether the declaration, or an upgrade, allows to make a differing box anew now."""
    if box.spec.recreate == "always":
        return True
    return (situation.upgrade or box.spec.recreate == "drift") and not situation.attached


def _recovery(situation: Situation) -> Iterator[Action]:
    if situation.swap:
        yield Action(FINISH_SWAP, situation.swap.describe(), situation.swap)


def _files_now(
    box: Box, situation: Situation, kept: Iterable[Drift], *, recreate: bool
) -> tuple[Situation, list[Drift]]:
    """What is to be written now, and which files can't be written because the container stays as it is."""
    if recreate:  # files other than secrets come with the new container, or not at all
        free = tuple(item for item in situation.free if isinstance(item, Directory) or item.secret)
        return replace(situation, free=free, bound=()), []
    if not kept:
        return situation, []
    labels = situation.live["Config"].get("Labels") or {} if situation.live else {}
    record = situation.record if _recorded(situation).is_of(labels) else None
    files, lost = staying_files(box, situation.bound, situation.found, record, {item.path for item in kept})
    return replace(situation, bound=tuple(files)), [Drift(f"file {path}", "present", None) for path in lost]


def _preparation(box: Box, situation: Situation) -> Iterator[Action]:
    if box.workspace_missing:
        yield Action(MAKE_WORKSPACE, box.workspace, Directory(box.workspace, 0o755, box.uid))
    if box.acl_uids:
        uids = ", ".join(str(uid) for uid in box.acl_uids)
        yield Action(SET_ACL, f"{box.workspace} for uid {uids}", (box.workspace, box.acl_uids))
    for item in situation.free + situation.bound:
        yield Action(MAKE_DIRECTORY if isinstance(item, Directory) else WRITE_FILE, item.path, item)
    for path in situation.leftovers:
        yield Action(REMOVE_PATH, path, path)


def _container_actions(
    box: Box, situation: Situation, payload: Mapping[str, Any], repaired: Iterable[Drift], *, recreate: bool
) -> Iterator[Action]:
    name, started = box.container, box.spec.state == "started"
    live, state = situation.live, status(situation.live)
    seeds = [Action(SEED_LOGIN, f"{seed.login.agent} from {seed.login.source}", seed) for seed in situation.seeds]
    if recreate and live:
        yield from seeds
        free = tuple(item for item in situation.free if isinstance(item, File) and not item.secret)
        yield Action(RECREATE, name, Replacement(live, free + situation.bound, situation.unprepared))
        return
    if live:
        yield from _renaming(box, situation)
    if state == "dead":
        yield Action(REMOVE, name)
        state = "absent"
    if state == "absent":
        yield Action(CREATE, name, situation.unprepared)
    elif not started and state in RUNNING_STATES:
        yield Action(STOP, name)
    elif started and state == "paused":
        yield Action(UNPAUSE, name)
    yield from _repairs(name, situation, payload, repaired)
    yield from seeds
    if started and state not in RUNNING_STATES:
        yield Action(START, name)


def _renaming(box: Box, situation: Situation) -> Iterator[Action]:
    """Give a container its name back; an interrupted recreation does that itself."""
    name = str(situation.live["Name"]).lstrip("/") if situation.live else box.container
    if name != box.container and situation.swap is None:
        yield Action(RENAME, f"{name} to {box.container}", (name, box.container))


def _repairs(
    name: str, situation: Situation, payload: Mapping[str, Any], repaired: Iterable[Drift]
) -> Iterator[Action]:
    """What puts a living container right."""
    paths = {item.path for item in repaired}
    if situation.live and paths & {"network", "networks"}:
        leaving, joining = _drift.network_changes(payload, Live(situation.live, networks=situation.networks))
        yield from (Action(LEAVE_NETWORK, f"{name} from {network}", (name, network)) for network in leaving)
        yield from (Action(JOIN_NETWORK, f"{name} to {network}", (name, network)) for network in joining)
    keys = sorted({key for item in repaired for key in item.updates})
    if keys:
        yield Action(UPDATE, name, {key: payload["HostConfig"][key] for key in keys})


def _difference(
    box: Box, situation: Situation, actions: Iterable[Action], repaired: Iterable[Drift]
) -> tuple[dict[str, Any], dict[str, Any]]:
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    kinds = {action.kind for action in actions}
    if kinds & {CREATE, START, STOP, UNPAUSE, REMOVE}:
        before["state"], after["state"] = status(situation.live), box.spec.state
    if CREATE in kinds:
        after.update(_summary(box))
    for drift in repaired:
        before[drift.path], after[drift.path] = drift.live, drift.declared
    for action in actions:
        if action.kind == SET_ACL:
            before["workspace_acl"] = None
            after["workspace_acl"] = [f"user:{uid}:rwX, also as default" for uid in box.acl_uids]
        elif action.kind == MAKE_WORKSPACE:
            before[action.detail], after[action.detail] = None, f"directory, uid {box.uid}"
        elif action.kind == RENAME:
            before["container"], after["container"] = action.subject
        elif action.kind == SEED_LOGIN:
            key = f"login of {action.subject.login.agent}"
            before[key], after[key] = None, f"from {action.subject.login.source}"
        elif action.kind in (MAKE_DIRECTORY, WRITE_FILE):
            found = situation.found.get(action.detail)
            before[action.detail], after[action.detail] = _state.shown(action.subject, found, situation.digest)
        elif action.kind == REMOVE_PATH:
            before[action.detail], after[action.detail] = "present", None
    return before, after


def _summary(box: Box) -> dict[str, Any]:
    return {
        "container": box.container,
        "image": box.spec.image,
        "uid": box.uid,
        "workspace": box.workspace,
        "memory": human_size(box.memory),
        "cpus": box.cpus,
        "publish": str(box.spec.publish) if box.spec.publish else "none",
        "network": box.network,
    }


def _warnings(box: Box, situation: Situation, drift: Iterable[Drift]) -> Iterator[str]:
    found = ", ".join(item.path for item in drift)
    if found:
        reason = " while somebody is attached" if situation.attached else ""
        kept = f"it is kept{reason} (recreate: {box.spec.recreate})"
        yield f"box {box.spec.name} differs from its declaration in {found}; {kept}"
    live = situation.live
    if status(live) == "restarting" and live:
        yield f"box {box.spec.name} ends again and again, last with exit code {live['State'].get('ExitCode')}"
    if box.acl_uids and live and status(live) in RUNNING_STATES:
        yield f"box {box.spec.name}: the workspace's access control list changes while the box runs"


def plan_absent(
    instance: str,
    state_dir: str,
    name: str,
    live: Mapping[str, Any] | None,
    *,
    swap: Swap | None,
    helpers: Iterable[str],
    paths: Iterable[str],
    volume_names: Iterable[str],
) -> BoxPlan:
    """Plan for a box that shall not exist. ``helpers``, ``paths`` and ``volume_names`` exist and go with it."""
    container = _naming.container_name(instance, name)
    check_owner(f"box {name}", live, instance, name, state_dir)
    actions = [*_recovery(Situation(live, swap=swap))]
    if live:
        present = container if swap else str(live["Name"]).lstrip("/")  # an interrupted recreation is taken back first
        actions += [Action(STOP, present)] if status(live) in RUNNING_STATES else []
        actions.append(Action(REMOVE, present))
    actions += [Action(REMOVE, helper) for helper in helpers]
    actions += [Action(REMOVE_VOLUME, volume, volume) for volume in volume_names]
    actions += [Action(REMOVE_PATH, path, path) for path in paths]
    before = {action.detail: "present" for action in actions if action.kind in (REMOVE_VOLUME, REMOVE_PATH)}
    after: dict[str, Any] = dict.fromkeys(before)
    if live:
        before["state"], after["state"] = status(live), "absent"
    return BoxPlan(name, container, tuple(actions), before=before, after=after)
