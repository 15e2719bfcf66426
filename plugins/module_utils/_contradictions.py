"""What is wrong with declarations that are fine key by key: values that contradict each other, and boxes that meet.

Pure. Each problem begins with its key; those of whole lists with the path of the declaration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._naming import BOX_HOME, BOX_MOUNT, BOX_RELAY, CACHES, PAGE_PORT, container_name, home_volume
from ._options import SEALED

if TYPE_CHECKING:
    from ._ports import HostPort
    from ._spec import BoxSpec

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
# All that can be declared of a container that Agentbox never changes.
_OF_ADOPTED = ("name", "state", "container")


def contradictions(spec: BoxSpec, item: Mapping[str, Any], manifests: Mapping[str, Any]) -> list[str]:
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


def collisions(boxes: Sequence[BoxSpec], instance: str) -> list[str]:
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
