"""The one table of a box declaration's options: type, default, parser and meaning.

The module's documentation, the parser of ``_spec.py`` and the tests that compare them all read this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _values as values
from ._healthcheck import healthcheck
from ._ports import ports, publish
from ._values import Parser

MINIMUM_MEMORY = 512 << 20
# What a size stands for; a key that is declared beside it counts more. ``medium`` is what a box gets without any.
SIZES: dict[str, dict[str, Any]] = {
    "small": {"memory": "2g", "cpus": 2, "pids": 256, "shm_size": "128m"},
    "medium": {"memory": "4g", "cpus": 4, "pids": 512, "shm_size": "256m"},
    "large": {"memory": "16g", "cpus": 8, "pids": 2048, "shm_size": "1g"},
    "gpu": {"memory": "32g", "cpus": 8, "pids": 2048, "shm_size": "8g", "gpus": "all"},
}
# What a sealed box is, and no declaration may say otherwise.
SEALED: dict[str, Any] = {"network": "none", "publish": "none", "credentials": "none"}


@dataclass(frozen=True)
class Option:
    """One key of a declaration. ``kind`` is its type in the module's documentation."""

    name: str
    kind: str
    default: Any
    parse: Parser
    description: str
    choices: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return self.name == "name"


def _choices(name: str, default: str, allowed: tuple[str, ...], description: str) -> Option:
    return Option(name, "str", default, values.choice(*allowed), description, allowed)


OPTIONS: tuple[Option, ...] = (
    Option("name", "str", None, values.name, "Name of the box, unique in its instance."),
    _choices(
        "state",
        "started",
        ("started", "stopped", "absent", "adopted"),
        "What the box shall be after the run. V(adopted) gives the name to a container that Agentbox did not make: it "
        "is listed, examined and entered as a box, and never changed.",
    ),
    Option(
        "container",
        "str",
        None,
        values.optional_container,
        "With V(state=adopted) the exact name of the container; nothing else can be declared of it.",
    ),
    Option(
        "workspace",
        "path",
        None,
        values.optional(values.absolute_path),
        "Directory of the host that the agent works in; must exist. By default C(agentbox-workspace) in the home of "
        "O(identity_home), made for the purpose.",
    ),
    _choices(
        "workspace_target",
        "/workspace",
        ("/workspace", "mirror"),
        "Where the workspace is mounted; V(mirror) means the same path as on the host.",
    ),
    Option("lead", "str", "claude", values.name, "Agent of window C(main), a manifest's name, or V(none)."),
    Option("agents", "list", ["claude"], values.names, "Agents that the image of the box must hold."),
    Option(
        "permission_mode",
        "str",
        "default",
        values.mode,
        "Permission mode of the lead, one of its manifest's modes.",
    ),
    Option("yolo", "bool", False, values.boolean, "Start the lead without permission checks."),
    Option(
        "uid",
        "raw",
        "auto",
        values.uid,
        "User id of the processes in the box. V(auto) is the workspace's owner; if that is 0, C(SUDO_UID), else 1000.",
    ),
    _choices(
        "workspace_access",
        "auto",
        ("auto", "none"),
        "With V(auto) a box uid that is not the workspace's owner gets an ACL on the workspace.",
    ),
    Option(
        "size",
        "str",
        None,
        values.optional(values.choice(*SIZES)),
        "Template that gives O(boxes[].memory), O(boxes[].cpus), O(boxes[].pids) and O(boxes[].shm_size), and with "
        "V(gpu) O(boxes[].gpus), unless they are declared too. Without it a box gets what V(medium) stands for.",
        tuple(SIZES),
    ),
    Option(
        "memory",
        "str",
        "4g",
        values.size(MINIMUM_MEMORY),
        "Limit of memory and of memory plus swap, at least 512m; capped at what the host has, less 512m (on a small "
        "host a quarter) for itself.",
    ),
    Option("cpus", "float", 4, values.cpus, "Number of CPUs, capped at what the host has."),
    Option("pids", "int", 512, values.integer(64, 1 << 22), "Limit of processes and threads."),
    Option("shm_size", "str", "256m", values.size(1 << 20), "Size of C(/dev/shm)."),
    Option("tmp_size", "str", "1g", values.size(1 << 20), "Size of the memory-backed C(/tmp)."),
    Option(
        "publish",
        "raw",
        None,
        publish,
        "Address and port of the host for the page of the box, or V(none). By default C(127.0.0.1:4317) for the box "
        "named C(default) and V(none) for the others.",
    ),
    Option(
        "network",
        "str",
        "bridge",
        values.network,
        "V(bridge) is the instance's own network, in which boxes can't reach each other; V(none); or the name of an "
        "existing network.",
    ),
    Option(
        "networks",
        "list",
        [],
        values.networks,
        "Names of existing networks that the box joins besides O(boxes[].network), before it starts. Whatever else is "
        "in them can reach the box.",
    ),
    Option(
        "ports",
        "list",
        [],
        ports,
        "More ports of the box that its host publishes, each C([address:]host:box[/tcp|udp]). Without an address only "
        "the host itself can call them; the page has O(boxes[].publish).",
    ),
    Option(
        "healthcheck",
        "raw",
        None,
        healthcheck,
        "What the engine calls the box healthy by: V(none), or a mapping of C(command) (text for a shell, or a list of "
        "arguments), C(interval), C(timeout), C(start_period) (seconds, or C(90s), C(2m)) and C(retries). What it does "
        "not hold is as by default, where the page of the box is asked every 30 s.",
    ),
    Option("env", "dict", {}, values.environment, "Environment of the box; values are lines of text, not secret."),
    Option(
        "timezone",
        "str",
        "host",
        values.timezone,
        "Time zone of the box, for example V(Europe/Berlin); V(host) is that of its host.",
    ),
    Option(
        "locale",
        "str",
        "C.UTF-8",
        values.locale,
        "Locale of the box, for example V(de_DE.UTF-8); its image must hold it (C(image_locales) of role C(image)).",
    ),
    Option("secrets", "list", [], values.variable_names, "Names of the secrets that O(secrets) holds for this box."),
    Option(
        "mounts",
        "list",
        [],
        values.mounts,
        "More paths of the host, each C(source:target[:ro|rw]) or a mapping of C(source), C(target), C(read_only).",
    ),
    Option(
        "volumes",
        "list",
        [],
        values.volumes,
        "More named volumes, each C(name:target[:ro|rw]) or a mapping of C(name), C(target), C(read_only).",
    ),
    Option("gpus", "raw", "none", values.gpus, "V(none), V(all), or how many GPUs the box gets."),
    _choices("runtime", "runc", ("runc", "runsc"), "Container runtime."),
    Option("read_only", "bool", False, values.boolean, "Mount the root file system of the box read-only."),
    _choices("seccomp", "default", ("default", "strict"), "The engine's seccomp profile, or Agentbox's stricter one."),
    _choices(
        "credentials",
        "auto",
        ("auto", "seed", "mount", "none"),
        "Where the agents' logins come from. V(auto) takes a declared secret, else a login made in the box. V(seed) "
        "copies the login of the person (O(identity_home)) into the box before it starts, and again only if the "
        "person's is newer and lives longer. V(mount) mounts the file of that login, and nothing else, read-write. "
        "V(none) lets none in. An agent with a declared secret needs no login. One box can have an OAuth login.",
    ),
    Option(
        "sealed",
        "bool",
        False,
        values.boolean,
        "No network and nothing of its host but the workspace: V(none) for O(boxes[].network), O(boxes[].publish) and "
        "O(boxes[].credentials), no proxy, no git identity and gh login, and neither O(boxes[].networks), "
        "O(boxes[].ports) nor O(boxes[].mounts).",
    ),
    _choices(
        "recreate",
        "never",
        ("never", "drift", "always"),
        "Whether a box is made anew that differs from its declaration in what can't be changed on a living container. "
        "V(drift) spares a box somebody is attached to.",
    ),
    Option("image", "str", None, values.image, "Image of the box, by default the instance's own."),
)
