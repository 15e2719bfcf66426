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
from functools import cached_property
from typing import Any

from . import _values as values
from ._contradictions import collisions, contradictions
from ._errors import DeclarationError
from ._healthcheck import Healthcheck
from ._naming import DEFAULT_BOX, PAGE_PORT, image_tag, is_own_volume, network_name
from ._options import OPTIONS, SEALED, SIZES
from ._ports import LOOPBACK, HostPort, Port, Publish
from ._values import InvalidValueError, Mount

SCHEMA = 1

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
        """Plain JSON values, the same for every spelling of one declaration. What they hold is to be read only."""
        return dict(self._canonical)

    @cached_property
    def _canonical(self) -> dict[str, Any]:
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
    problems += collisions(boxes, instance)
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
    return problems + contradictions(spec, item, manifests) or spec


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


def _orphaned_secrets(secrets: Mapping[str, tuple[str, ...]], raw: object) -> list[str]:
    declared = {str(item.get("name")) for item in _declarations(raw) if isinstance(item, Mapping)}
    return [f"secrets.{box}: there is no box of that name" for box in sorted(secrets) if box not in declared]
