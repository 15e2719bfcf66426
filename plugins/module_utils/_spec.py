"""The declaration of boxes: validation, canonical form and digest, from the table in ``_options.py``.

Pure. ``parse_boxes()`` takes what the inventory says and returns ``BoxSpec`` objects, or raises one
``DeclarationError`` that lists every problem with the path of its key.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import _values as values
from ._errors import DeclarationError
from ._healthcheck import Healthcheck
from ._naming import (
    BOX_HOME,
    BOX_MOUNT,
    BOX_RELAY,
    CACHES,
    DEFAULT_BOX,
    PAGE_PORT,
    container_name,
    home_volume,
    image_tag,
    is_own_volume,
    network_name,
)
from ._options import OPTIONS, SEALED, SIZES
from ._ports import LOOPBACK, HostPort, Port, Publish
from ._values import InvalidValueError, Mount

SCHEMA = 1

# Inside a box: what Agentbox mounts, the image needs or the kernel provides. Nothing declared may cover any of it.
_RESERVED_TARGETS = frozenset(
    {
        "/",
        "/bin",
        "/dev",
        "/etc",
        "/etc/gitconfig",
        "/etc/passwd",
        "/home",
        "/lib",
        "/opt",
        "/run",
        "/sbin",
        "/tmp",  # noqa: S108 - a path in the box
        "/usr",
        "/var",
        "/var/tmp",  # noqa: S108 - a path in the box
        BOX_HOME,
        f"{BOX_HOME}/.config/gh",
        *(f"{BOX_HOME}/{directory}" for directory in CACHES.values()),
    }
)
_RESERVED_TREES = (BOX_MOUNT, BOX_RELAY, "/opt/agentbox", "/dev", "/proc", "/sys")
_RESERVED_VARIABLES = ("HOME",)
# What a host keeps of its memory for itself: without it, a box at its limit takes its host along.
_HOST_RESERVE = 512 << 20
# Options that rule what a run does and not what the box is, and a template, whose values count; no part of the digest.
_NOT_HASHED = ("state", "container", "recreate", "workspace_access", "name", "size")
# Options that every run compares on the living container (_live_fields.py). A digest of them would call a box different
# whose declaration merely names what it has already, and whose limits were put right in place.
_COMPARED_LIVE = frozenset(
    {
        "workspace",
        "workspace_target",
        "uid",
        "memory",
        "cpus",
        "pids",
        "shm_size",
        "tmp_size",
        "publish",
        "network",
        "networks",
        "ports",
        "healthcheck",
        "env",
        "timezone",
        "locale",
        "mounts",
        "volumes",
        "gpus",
        "runtime",
        "read_only",
        "seccomp",
        "image",
    }
)
# Options that the engine can change on a living container.
LIMITS = ("memory", "cpus", "pids")
# Lists whose order means nothing.
_SETS = ("agents", "mounts", "volumes")
# All that can be declared of a container that Agentbox never changes.
_OF_ADOPTED = ("name", "state", "container")
_BY_NAME = {option.name: option for option in OPTIONS}


@dataclass(frozen=True)
class BoxSpec:
    """One declared box in canonical form. Sizes in bytes; ``uid`` is None for auto, ``lead`` None for none."""

    path: str  # of the declaration, e.g. boxes[1]
    name: str
    state: str
    container: str | None  # of an adopted box
    workspace: str | None
    workspace_target: str
    lead: str | None
    agents: tuple[str, ...]
    permission_mode: str
    yolo: bool
    uid: int | None
    workspace_access: str
    size: str | None
    memory: int
    cpus: float
    pids: int
    shm_size: int
    tmp_size: int
    publish: Publish | None
    network: str
    networks: tuple[str, ...]
    ports: tuple[Port, ...]
    healthcheck: Healthcheck
    env: Mapping[str, str]
    timezone: str  # a name of the time zone database, or HOST_TIMEZONE
    locale: str
    secrets: tuple[str, ...]
    mounts: tuple[Mount, ...]
    volumes: tuple[Mount, ...]
    gpus: str
    runtime: str
    read_only: bool
    seccomp: str
    credentials: str
    sealed: bool
    recreate: str
    image: str

    def host_ports(self) -> list[tuple[str, HostPort]]:
        """What its host listens on for it, each with the key that declares it."""
        page = [("publish", self.publish.at)] if self.publish else []
        return [*page, *(("ports", port.at) for port in self.ports)]

    def canonical(self) -> dict[str, Any]:
        """Plain JSON values, the same for every spelling of one declaration."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        for key in _SETS:
            plain[key].sort(key=str)
        return {key: plain[key] for key in sorted(plain) if key != "path" and key not in _NOT_HASHED}

    @property
    def is_made(self) -> bool:
        """Whether Agentbox makes it and keeps it as declared."""
        return self.state in ("started", "stopped")


def unseen(canonical: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a canonical declaration that no inspection of a container tells."""
    return {key: value for key, value in canonical.items() if key not in _COMPARED_LIVE}


def digest(canonical: Mapping[str, Any], image_context: str) -> str:
    """Value of label ``agentbox.spec``: sha256 of what only a label can tell of a container.

    That is the unseen part of its canonical declaration, and the digest of its image's context.
    """
    text = json.dumps({"schema": SCHEMA, "box": unseen(canonical), "image": image_context}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def most_memory(total: int) -> int:
    """The highest memory limit, in bytes, that a box gets on a host with ``total``; a small host keeps a quarter."""
    return total - min(_HOST_RESERVE, total // 4)


def parse_boxes(
    raw: object,
    *,
    instance: str,
    manifests: Mapping[str, Any],
    secrets: Mapping[str, Iterable[str]] | None = None,
) -> list[BoxSpec]:
    """Validate a list of declarations.

    ``secrets`` holds per box the names that a value exists for (the values themselves are of no concern here).
    None, an empty string and an empty list all mean: no boxes.
    """
    known_secrets = {box: tuple(names) for box, names in (secrets or {}).items()}
    problems: list[str] = []
    boxes: list[BoxSpec] = []
    for index, item in enumerate(_declarations(raw)):
        path = f"boxes[{index}]"
        found = _parse_box(path, item, instance, manifests, known_secrets)
        if isinstance(found, BoxSpec):
            boxes.append(found)
        else:
            problems += found
    problems += _collisions(boxes, instance)
    problems += _orphaned_secrets(known_secrets, raw)
    if problems:
        raise DeclarationError("; ".join(problems))
    return boxes


def _declarations(raw: object) -> Sequence[object]:
    if raw is None or raw == "":
        return ()
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        raise DeclarationError(f"boxes: must be a list of boxes, not {values.described(raw)}")
    return raw


def _parse_box(
    path: str, item: object, instance: str, manifests: Mapping[str, Any], secrets: Mapping[str, tuple[str, ...]]
) -> BoxSpec | list[str]:
    if not isinstance(item, Mapping):
        return [f"{path}: must be a mapping, not {values.described(item)}"]
    parsed, problems = _parse_options(path, item)
    if problems:
        return problems
    given = secrets.get(parsed["name"], ())
    missing = [name for name in parsed["secrets"] if name not in given]
    problems += [f"{path}.secrets.{name}: no value is given for it" for name in missing]
    try:
        parsed["secrets"] = values.variable_names([*parsed["secrets"], *given])
    except InvalidValueError as error:
        problems.append(f"{path}.secrets: {error.message}")
    spec = BoxSpec(path=path, **_with_derived_defaults(parsed, instance))
    problems += [
        f"{path}.volumes: {mount.source} is a volume of Agentbox's own"
        for mount in spec.volumes
        if is_own_volume(instance, mount.source)
    ]
    if network_name(instance) in spec.networks:
        problems.append(f"{path}.networks: {network_name(instance)} is the instance's own, which network bridge joins")
    return problems + _contradictions(spec, item, manifests) or spec


def _parse_options(path: str, item: Mapping[Any, Any]) -> tuple[dict[str, Any], list[str]]:
    parsed: dict[str, Any] = {}
    templates = _templates(item)
    problems = [_unknown(path, str(key)) for key in item if key not in _BY_NAME]
    for option in OPTIONS:
        if option.required and option.name not in item:
            problems.append(f"{path}.{option.name}: is missing")
            continue
        try:
            default = templates.get(option.name, option.default)
            parsed[option.name] = option.parse(item.get(option.name, default))
        except InvalidValueError as error:
            problems.append(f"{path}.{option.name}{error.key}: {error.message}")
    return parsed, problems


def _templates(item: Mapping[Any, Any]) -> dict[str, Any]:
    """Defaults that other keys of the declaration set."""
    size = item.get("size")
    template = SIZES.get(size, {}) if isinstance(size, str) else {}
    return {**template, **(SEALED if item.get("sealed") is True else {})}


def _unknown(path: str, key: str) -> str:
    near = difflib.get_close_matches(key, _BY_NAME, n=1)
    return f"{path}.{key}: unknown key" + (f", did you mean {near[0]}?" if near else "")


def _with_derived_defaults(parsed: Mapping[str, Any], instance: str) -> dict[str, Any]:
    publish = parsed["publish"]
    if publish is None and parsed["name"] == DEFAULT_BOX and parsed["network"] != "none":
        publish = Publish(LOOPBACK, PAGE_PORT)
    return {
        **parsed,
        "lead": None if parsed["lead"] == "none" else parsed["lead"],
        "publish": None if publish == "none" else publish,
        "image": parsed["image"] or image_tag(instance),
    }


def _contradictions(spec: BoxSpec, item: Mapping[str, Any], manifests: Mapping[str, Any]) -> list[str]:
    """Values that are fine alone and not together. An absent box needs nothing but its name."""
    if spec.state == "absent":
        return []
    if spec.state == "adopted":
        return [f"{spec.path}.{problem}" for problem in _adoption_problems(spec, item)]
    problems = ["container: goes with state adopted only"] if spec.container else []
    problems += _agent_problems(spec, item, manifests)
    problems += _sealed_problems(spec) if spec.sealed else _network_problems(spec)
    problems += [f"env.{name}: is set by Agentbox" for name in spec.env if name in _RESERVED_VARIABLES]
    problems += [f"secrets.{name}: stands in env too" for name in spec.secrets if name in spec.env]
    mirrored = spec.workspace_target == "mirror"
    problems += target_problems(spec, spec.workspace if mirrored else spec.workspace_target, manifests)
    return [f"{spec.path}.{problem}" for problem in problems]


def _sealed_problems(spec: BoxSpec) -> list[str]:
    """What would open a sealed box."""
    opening = [key for key, closed in SEALED.items() if getattr(spec, key) not in (closed, None)]
    opening += [key for key in ("networks", "ports", "mounts") if getattr(spec, key)]
    return [f"{key}: contradicts sealed" for key in opening]


def _network_problems(spec: BoxSpec) -> list[str]:
    problems = []
    if spec.network == "none":
        published = [key for key in ("publish", "ports") if getattr(spec, key)]
        problems += [f"{key}: nothing can be published with network none" for key in published]
        problems += ["networks: contradicts network none"] if spec.networks else []
    if spec.network in spec.networks:
        problems.append(f"networks: {spec.network} is network already")
    if any((port.box, port.protocol) == (PAGE_PORT, "tcp") for port in spec.ports):
        problems.append(f"ports: {PAGE_PORT} is the page of the box, which publish is for")
    return problems


def _adoption_problems(spec: BoxSpec, item: Mapping[str, Any]) -> list[str]:
    problems = [] if spec.container else ["container: is missing, it names what is adopted"]
    problems += [f"{key}: an adopted box is left as it is" for key in item if key not in _OF_ADOPTED]
    return problems + [f"secrets.{name}: an adopted box gets none" for name in spec.secrets]


def _agent_problems(spec: BoxSpec, item: Mapping[str, Any], manifests: Mapping[str, Any]) -> list[str]:
    known = ", ".join(sorted(manifests)) or "none"
    problems = [
        f"agents[{index}]: there is no manifest of '{agent}' (known: {known})"
        for index, agent in enumerate(spec.agents)
        if agent not in manifests
    ]
    variables = _credential_variables(spec, manifests)
    problems += [f"env.{name}: is a credential, move it to secrets" for name in spec.env if name in variables]
    if spec.credentials == "none":
        problems += [f"secrets.{name}: contradicts credentials none" for name in spec.secrets if name in variables]
    if spec.lead is None:
        return problems + (["yolo: there is no lead"] if spec.yolo else [])
    if spec.lead not in manifests:
        return [*problems, f"lead: there is no manifest of '{spec.lead}' (known: {known})"]
    if spec.lead not in spec.agents:
        problems.append(f"lead: '{spec.lead}' is not among agents ({', '.join(spec.agents) or 'empty'})")
    return problems + _launch_problems(spec, item, manifests[spec.lead].get("launch") or {})


def _launch_problems(spec: BoxSpec, item: Mapping[str, Any], launch: Mapping[str, Any]) -> list[str]:
    problems = []
    modes = launch.get("permission_modes") or []
    if spec.permission_mode not in modes and (modes or "permission_mode" in item):
        problems.append(
            f"permission_mode: {spec.lead} has no mode '{spec.permission_mode}' (it has {', '.join(modes) or 'none'})"
        )
    if spec.yolo and not launch.get("yolo"):
        problems.append(f"yolo: {spec.lead} has no such mode")
    return problems


def _credential_variables(spec: BoxSpec, manifests: Mapping[str, Any]) -> set[str]:
    return {
        name
        for agent in spec.agents
        for name in ((manifests.get(agent) or {}).get("credentials") or {}).get("variables") or []
    }


def target_problems(spec: BoxSpec, workspace: str | None, manifests: Mapping[str, Any]) -> list[str]:
    """What is mounted may not cover what a box needs, nor two things be mounted at one place.

    ``workspace`` is the path in the box, None while it is not known. Each problem begins with the key.
    """
    settings = {
        str(manifest["hooks"]["mount"])
        for manifest in (manifests.get(agent) or {} for agent in spec.agents)
        if manifest.get("hooks")
    }
    targets = [("workspace_target", workspace)] if workspace else []
    targets += [("mounts", mount.target) for mount in spec.mounts]
    targets += [("volumes", mount.target) for mount in spec.volumes]
    taken = set(_RESERVED_TARGETS)
    problems = []
    for key, target in targets:
        if target in taken or any(_is_in(tree, target) for tree in (*_RESERVED_TREES, *settings)):
            problems.append(f"{key}: target {target} is taken")
        taken.add(target)
    return problems


def _is_in(tree: str, path: str) -> bool:
    return path == tree or path.startswith(f"{tree}/")


def _collisions(boxes: Sequence[BoxSpec], instance: str) -> list[str]:
    """Names, containers, HOME volumes and ports of the host that two declarations would share."""
    problems: list[str] = []
    owners: dict[str, BoxSpec] = {}
    for spec in boxes:
        claims = [("name", f"the name '{spec.name}'")]
        if spec.state == "adopted":
            claims.append(("container", f"the container's name '{spec.container}'"))
        else:
            claims += [
                ("name", f"the container's name '{container_name(instance, spec.name)}'"),
                ("name", f"the volume's name '{home_volume(instance, spec.name)}'"),
            ]
        for key, claim in claims:
            other = owners.setdefault(claim, spec)
            if other is not spec:
                problems.append(f"{spec.path}.{key}: {claim} is that of {other.path} too")
                break
    return problems + _port_collisions(boxes)


def _port_collisions(boxes: Sequence[BoxSpec]) -> list[str]:
    """Ports of the host that two declarations, or one twice, would have it listen on."""
    problems = []
    taken: dict[int, list[tuple[BoxSpec, HostPort]]] = {}
    for spec in boxes:
        for key, wanted in spec.host_ports() if spec.is_made else ():
            others = taken.setdefault(wanted.port, [])
            problems += [
                f"{spec.path}.{key}: the published port {wanted} is that of {other.path} too"
                for other, held in others
                if wanted.overlaps(held)
            ][:1]
            others.append((spec, wanted))
    return problems


def _orphaned_secrets(secrets: Mapping[str, tuple[str, ...]], raw: object) -> list[str]:
    declared = {str(item.get("name")) for item in _declarations(raw) if isinstance(item, Mapping)}
    return [f"secrets.{box}: there is no box of that name" for box in sorted(secrets) if box not in declared]
