"""Where a live container differs from what would be created today.

Pure. Compares the creation payload with ``inspect``, field by field and in one spelling on both sides, because a
label cannot see what was changed behind it (``docker update``), and with what the kernel enforces, because ``inspect``
cannot see what was changed behind the engine.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import _live_fields, _naming, _proxy
from ._health_cgroup import tolerance
from ._health_facts import CgroupFacts
from ._live_fields import FIELDS, Field, as_inspected
from ._spec import digest, unseen

_SHOWN = 12  # characters of a digest
# Fields that the kernel enforces, and what they are called among its limits.
_ENFORCED = {"memory": "memory", "hardening.memory_swap": "memory_swap", "cpus": "cpus", "pids": "pids"}
_NO_NETWORK = "none"  # what the engine calls it when a container is in none
# Labels that follow from what a difference is about.
_EXPLAINED = {
    "image": (_naming.LABEL_CONTEXT, _naming.LABEL_SPEC),
    "schema": (_naming.LABEL_SCHEMA, _naming.LABEL_SPEC),
    "mounts": (_naming.LABEL_WORKSPACE,),
    "yolo": (_naming.LABEL_YOLO,),
}
_DIGESTS = (_naming.LABEL_CONTEXT, _naming.LABEL_SPEC)


@dataclass(frozen=True)
class Drift:
    """One difference. ``path`` is the declaration's key, or ``hardening.<field>`` for what nobody may change.

    ``in_place`` says that the living container can be put right; ``updates`` are then the keys of ``HostConfig`` that
    the engine's update call sets for it.
    """

    path: str
    declared: Any
    live: Any
    in_place: bool = False
    updates: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "declared": self.declared, "live": self.live}


@dataclass(frozen=True)
class Live:
    """A container and what is around it.

    ``enforced`` are the limits that the kernel has for it, None when it does not run or they can't be seen.
    ``networks`` are the engine's networks, name to id. ``replaced`` maps targets in a running container to sources on
    the host that it does not see, because another file or directory is there now than when it was started. ``image`` is
    the id of what its image's name means now, empty for one that is yet to be built, None when there is none.
    ``updatable`` says whether the engine's update call is known to work.
    """

    container: Mapping[str, Any]  # inspect
    image_environment: tuple[str, ...] = ()
    enforced: CgroupFacts | None = None
    networks: Mapping[str, str] = field(default_factory=dict)
    volumes: Container[str] | None = None  # that exist, by name; None when nobody looked
    replaced: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    updatable: bool = True


@dataclass(frozen=True)
class Recorded:
    """What was noted when the container was made, or last put right in place; empty when unknown."""

    spec: Mapping[str, Any] = field(default_factory=dict)  # canonical
    context: str = ""  # digest of its image

    def is_of(self, labels: Mapping[str, str]) -> bool:
        """Whether it tells of the container that has these labels."""
        return bool(self.spec) and digest(self.spec, self.context) == labels.get(_naming.LABEL_SPEC)


def compare(payload: Mapping[str, Any], live: Live, declared: Mapping[str, Any], recorded: Recorded) -> list[Drift]:
    """Every difference, sorted by path. ``declared`` is the canonical form of the declaration."""
    container = live.container
    changed_keys = list(_declaration(payload, container, declared, recorded))
    found = [
        *_fields(payload, live),
        *_mounts(payload, live),
        *_schema(payload, container),
        *_environment(payload, container, live.image_environment),
        *_networks(payload, live),
        *_image(payload, live),
        *changed_keys,
    ]
    told = {drift.path for drift in found}
    found += [drift for drift in _enforced(payload, live) if drift.path not in told]
    explained = {label for path in told for label in _EXPLAINED.get(path, ())}
    explained |= {_naming.LABEL_SPEC} if changed_keys else set()
    found += _labels(payload, container, explained)
    return sorted(found, key=lambda drift: drift.path)


def _fields(payload: Mapping[str, Any], live: Live) -> Iterator[Drift]:
    wanted = as_inspected(payload)
    for item in FIELDS:
        found = item.read(live.container)
        if item.read(wanted) != found:
            yield _of_field(item, payload, live, item.show(found))


def _enforced(payload: Mapping[str, Any], live: Live) -> Iterator[Drift]:
    """Limits that were changed behind the engine, in the files of the cgroup."""
    if live.enforced is None:
        return
    wanted, real = as_inspected(payload), live.enforced
    for item in FIELDS:
        name = _ENFORCED.get(item.path, "")
        limit = getattr(real.limits, name) if name else None
        if name in real.unlimited or (limit is not None and abs(limit - item.read(wanted)) > tolerance(name)):
            yield _of_field(item, payload, live, f"{item.show(limit or 0)} in force")


def _of_field(item: Field, payload: Mapping[str, Any], live: Live, seen: Any) -> Drift:
    declared = item.show(item.read(as_inspected(payload)))
    held = live.enforced.memory_held or 0 if live.enforced else 0
    if "Memory" in item.updates and held > payload["HostConfig"]["Memory"]:
        # The kernel would refuse, or with cgroup v2 end processes.
        return Drift(item.path, declared, f"{seen}, and more in use than declared")
    updates = item.updates if live.updatable and _may_update(item.updates, live.container) else ()
    return Drift(item.path, declared, seen, bool(updates), updates)


def _may_update(keys: Container[str], live: Mapping[str, Any]) -> bool:
    """gVisor's container can't be counted on, and one that was given a quota refuses a number of CPUs."""
    host = live["HostConfig"]
    has_quota = host.get("CpuQuota") or host.get("CpuPeriod")
    return host.get("Runtime") != "runsc" and not ("NanoCpus" in keys and has_quota)


def _mounts(payload: Mapping[str, Any], live: Live) -> Iterator[Drift]:
    """Those that differ, and those behind which is something else by now."""
    wanted, present = _live_fields.mounts(as_inspected(payload)), _live_fields.mounts(live.container)
    differing = sorted(target for target in {*wanted, *present} if wanted.get(target) != present.get(target))
    if differing:
        yield Drift(
            "mounts",
            {target: wanted.get(target) for target in differing},
            {target: present.get(target) for target in differing},
        )
    for target, source in live.replaced.items():
        if target not in differing:
            yield Drift(f"mounts.{target}", source, "what was there when the box was started")
    if live.volumes is None:
        return
    for mount in payload["HostConfig"]["Mounts"]:
        gone = mount["Type"] == "volume" and mount["Source"] not in live.volumes
        if gone and mount["Target"] not in differing:
            yield Drift(f"mounts.{mount['Target']}", mount["Source"], "a volume that was removed")


def _environment(payload: Mapping[str, Any], live: Mapping[str, Any], image: Iterable[str]) -> Iterator[Drift]:
    """Variables that differ; what the image itself sets and nobody declared is no difference."""
    declared, present = _variables(payload.get("Env")), _variables(live["Config"].get("Env"))
    inherited = {name: value for name, value in _variables(image).items() if name not in declared}
    wanted = {**inherited, **declared}
    for name in sorted({*wanted, *present}):
        if wanted.get(name) != present.get(name):
            yield Drift(f"env.{name}", _shown(wanted.get(name)), _shown(present.get(name)))


def _shown(value: str | None) -> str | None:
    return value and _proxy.without_logins(value)


def _variables(items: Iterable[str] | None) -> dict[str, str]:
    return dict(item.partition("=")[::2] for item in items or [])


def _networks(payload: Mapping[str, Any], live: Live) -> Iterator[Drift]:
    """Networks joined, left, or made anew behind the declaration's back."""
    main = payload["HostConfig"]["NetworkMode"]
    if live.container["HostConfig"].get("NetworkMode") != main:
        return  # told as another field
    leaving, joining = network_changes(payload, live)
    if not leaving and not joining:
        return
    wanted = _wanted_networks(payload)
    joined = {f"{name} (removed since)" if name in leaving and name in wanted else name for name in _joined(live)}
    if main in joining:
        yield Drift("network", sorted(wanted), sorted(joined), in_place=True)
    else:
        yield Drift("networks", sorted(wanted - {main}), sorted(joined - {main}), in_place=True)


def network_changes(payload: Mapping[str, Any], live: Live) -> tuple[list[str], list[str]]:
    """Names of the networks that a container has to leave, and of those that it has to join; one can be both."""
    wanted, joined = _wanted_networks(payload), _joined(live)
    whole = {name for name in wanted & {*joined} if _is_there(live, name, joined[name])}
    return sorted({*joined} - whole), sorted(wanted - whole)


def _is_there(live: Live, name: str, network_id: str) -> bool:
    """Whether a network is still the one that a container joined; one that never started has joined by name alone."""
    return not network_id or not live.networks or live.networks.get(name) == network_id


def _wanted_networks(payload: Mapping[str, Any]) -> set[str]:
    return {*payload["NetworkingConfig"]["EndpointsConfig"]}


def _joined(live: Live) -> dict[str, str]:
    """Networks of a container, name to id; that of a container without one does not count."""
    found = (live.container.get("NetworkSettings") or {}).get("Networks") or {}
    return {name: str((point or {}).get("NetworkID") or "") for name, point in found.items() if name != _NO_NETWORK}


def schema(labels: Mapping[str, str] | None) -> int:
    """Which schema the labels of a container follow; 0 for one from before schemas had numbers."""
    text = str((labels or {}).get(_naming.LABEL_SCHEMA, ""))
    return int(text) if text.isdecimal() else 0


def _schema(payload: Mapping[str, Any], live: Mapping[str, Any]) -> list[Drift]:
    """Another version of Agentbox made it."""
    now, then = schema(payload["Labels"]), schema(live["Config"].get("Labels"))
    return [] if now == then else [Drift("schema", now, then)]


def _image(payload: Mapping[str, Any], live: Live) -> list[Drift]:
    """Another image by name, by what it was built from, or by what came out of building the same again."""
    name, then_name = payload["Image"], live.container["Config"].get("Image")
    now = payload["Labels"][_naming.LABEL_CONTEXT]
    then = (live.container["Config"].get("Labels") or {}).get(_naming.LABEL_CONTEXT, "")
    if (name, now) != (then_name, then):
        return [Drift("image", _named(name, now), _named(then_name, then))]
    made_of = live.container["Image"]
    same = live.image in (None, made_of)
    return [] if same else [Drift("image", _named(name, live.image or "built anew"), _named(name, made_of))]


def _named(reference: object, context: str) -> str:
    return f"{reference} ({context.removeprefix('sha256:')[:_SHOWN] or 'unknown'})"


def _declaration(
    payload: Mapping[str, Any], live: Mapping[str, Any], declared: Mapping[str, Any], recorded: Recorded
) -> Iterator[Drift]:
    """Declared keys that changed since the container's creation and that no field of the container tells."""
    labels = live["Config"].get("Labels") or {}
    if labels.get(_naming.LABEL_SPEC) == payload["Labels"][_naming.LABEL_SPEC] or not recorded.is_of(labels):
        return
    for key, value in sorted(unseen(declared).items()):
        if value != recorded.spec.get(key):
            yield Drift(key, value, recorded.spec.get(key))


def _labels(payload: Mapping[str, Any], live: Mapping[str, Any], explained: Container[str]) -> Iterator[Drift]:
    """Labels that differ and nothing else tells why: the record is lost, or somebody else wrote the label."""
    then = live["Config"].get("Labels") or {}
    for name, value in sorted(payload["Labels"].items()):
        if then.get(name) != value and name not in explained:
            shown = _SHOWN if name in _DIGESTS else None
            yield Drift(f"label {name}", value[:shown], str(then.get(name))[:shown])
