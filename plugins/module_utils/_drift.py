"""Where a live container differs from what would be created today.

Pure. Compares the creation payload with ``inspect``, field by field and in one spelling on both sides, because a
label cannot see what was changed behind it (``docker update``) and engines spell defaults differently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _naming, _proxy
from ._values import human_size

_NANO = 1_000_000_000
_SHOWN = 12  # characters of a digest
_PAGE = f"{_naming.PAGE_PORT}/tcp"
# Engine defaults that inspect spells out in place of an absent value.
_PRIVATE_IPC = ("private", "", None)
_NAMESPACES = ("PidMode", "UTSMode", "UsernsMode", "CgroupnsMode")


@dataclass(frozen=True)
class Drift:
    """One difference. ``path`` is the declaration's key, or ``hardening.<field>`` for what nobody may change."""

    path: str
    declared: Any
    live: Any

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "declared": self.declared, "live": self.live}


@dataclass(frozen=True)
class _Field:
    path: str
    read: Callable[[Mapping[str, Any]], Any]
    show: Callable[[Any], Any] = lambda value: value


def compare(
    payload: Mapping[str, Any], live: Mapping[str, Any], image_environment: Iterable[str], recorded: Mapping[str, Any]
) -> list[Drift]:
    """Every difference, sorted by path.

    ``image_environment`` is that of the image ``live`` runs; ``recorded`` holds ``declared`` (the canonical form now)
    and ``live`` (that of the container's creation, empty when unknown).
    """
    wanted = _as_inspected(payload)
    found = [
        Drift(field.path, field.show(field.read(wanted)), field.show(field.read(live)))
        for field in _FIELDS
        if field.read(wanted) != field.read(live)
    ]
    found += _schema(payload, live)
    found += _environment(payload, live, image_environment)
    found += _networks(payload, live)
    found += _image(payload, live)
    named = {drift.path.partition(".")[0] for drift in found}
    found += [drift for drift in _declaration(recorded) if drift.path not in named]
    if not found:
        found = _label(payload, live)
    return sorted(found, key=lambda drift: drift.path)


def _as_inspected(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload in the shape of ``inspect``, so that one reader serves both."""
    return {"Config": payload, "HostConfig": payload["HostConfig"]}


def _host(key: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda container: container["HostConfig"].get(key)


def _flag(key: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda container: bool(container["HostConfig"].get(key))


def _listed(key: str) -> Callable[[Mapping[str, Any]], list[Any]]:
    return lambda container: sorted(container["HostConfig"].get(key) or [], key=str)


def _number(key: str) -> Callable[[Mapping[str, Any]], int]:
    return lambda container: int(container["HostConfig"].get(key) or 0)


def _config(key: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda container: container["Config"].get(key) or None


def capabilities(container: Mapping[str, Any], key: str) -> list[str]:
    """``ALL``, ``all``, ``NET_ADMIN`` and ``CAP_NET_ADMIN`` in one spelling."""
    found = container["HostConfig"].get(key) or []
    return sorted(str(item).upper().removeprefix("CAP_") for item in found)


def security_options(container: Mapping[str, Any]) -> list[str]:
    """Security options in one spelling; profiles are compared as JSON."""
    return sorted(_security_option(str(item)) for item in container["HostConfig"].get("SecurityOpt") or [])


def _security_option(text: str) -> str:
    key, separator, value = text.replace(":", "=", 1).partition("=") if "=" not in text else text.partition("=")
    if key == "no-new-privileges":
        return key if value in ("", "true") else f"{key}={value}"
    try:
        return f"{key}={json.dumps(json.loads(value), sort_keys=True)}"
    except ValueError:
        return f"{key}{separator and '='}{value}"


def _profiles(options: list[str]) -> list[str]:
    return [option if len(option) < 40 else option.partition("=")[0] + "=<profile>" for option in options]  # noqa: PLR2004


def mounts(container: Mapping[str, Any]) -> dict[str, str]:
    """Mounts by target: ``type source ro|rw``. ``Binds``, which we never write, are shown too."""
    result = {
        item["Target"]: " ".join((item["Type"], item.get("Source", ""), "ro" if item.get("ReadOnly") else "rw"))
        for item in container["HostConfig"].get("Mounts") or []
    }
    result.update({f"binds[{index}]": bind for index, bind in enumerate(container["HostConfig"].get("Binds") or [])})
    return result


def _tmpfs(container: Mapping[str, Any]) -> dict[str, list[str]]:
    return {
        target: sorted(options.split(",")) for target, options in (container["HostConfig"].get("Tmpfs") or {}).items()
    }


def _page(container: Mapping[str, Any]) -> list[str]:
    return [text for port, text in _bindings(container) if port == _PAGE]


def _ports(container: Mapping[str, Any]) -> list[str]:
    return [text for port, text in _bindings(container) if port != _PAGE]


def _bindings(container: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Published ports of a container, each with where it is published."""
    bindings = container["HostConfig"].get("PortBindings") or {}
    return sorted(
        (port, f"{binding.get('HostIp', '')}:{binding.get('HostPort', '')}->{port}")
        for port, group in bindings.items()
        for binding in group or []
    )


def _ulimits(container: Mapping[str, Any]) -> list[str]:
    return sorted(
        f"{item['Name']}={item['Soft']}:{item['Hard']}" for item in container["HostConfig"].get("Ulimits") or []
    )


def _quota(container: Mapping[str, Any]) -> float:
    """CPUs allowed, whether set as a number of CPUs or as quota and period."""
    host = container["HostConfig"]
    if host.get("NanoCpus"):
        return float(host["NanoCpus"]) / _NANO
    return (host.get("CpuQuota") or 0) / (host.get("CpuPeriod") or 100_000)


def _pids(container: Mapping[str, Any]) -> int:
    return max(0, _number("PidsLimit")(container))


def _runtime(container: Mapping[str, Any]) -> str:
    return "runsc" if container["HostConfig"].get("Runtime") == "runsc" else "runc"


def _restart(container: Mapping[str, Any]) -> str:
    return str((container["HostConfig"].get("RestartPolicy") or {}).get("Name") or "no")


def _log(container: Mapping[str, Any]) -> Any:
    log = container["HostConfig"].get("LogConfig") or {}
    return {"type": log.get("Type"), **(log.get("Config") or {})}


def _namespaces(container: Mapping[str, Any]) -> list[str]:
    host = container["HostConfig"]
    found = [f"{key}={host[key]}" for key in _NAMESPACES if host.get(key) not in ("", None, "private")]
    return found + ([] if host.get("IpcMode") in _PRIVATE_IPC else [f"IpcMode={host['IpcMode']}"])


def _gpus(container: Mapping[str, Any]) -> list[int]:
    return [int(request.get("Count") or 0) for request in container["HostConfig"].get("DeviceRequests") or []]


def _healthcheck(container: Mapping[str, Any]) -> Any:
    return {key: value for key, value in (container["Config"].get("Healthcheck") or {}).items() if value}


def _size(value: int) -> str:
    return human_size(value)


_FIELDS = (
    _Field("memory", _number("Memory"), _size),
    _Field("hardening.memory_swap", _number("MemorySwap"), _size),
    _Field("cpus", _quota),
    _Field("pids", _pids),
    _Field("shm_size", _number("ShmSize"), _size),
    _Field("tmp_size", _tmpfs),
    _Field("publish", _page),
    _Field("ports", _ports),
    _Field("hardening.publish_all", _flag("PublishAllPorts")),
    _Field("network", _host("NetworkMode")),
    _Field("mounts", mounts),
    _Field("gpus", _gpus),
    _Field("runtime", _runtime),
    _Field("read_only", _flag("ReadonlyRootfs")),
    _Field("hardening.security_opt", security_options, _profiles),
    _Field("uid", _config("User")),
    _Field("workspace_target", _config("WorkingDir")),
    _Field("hardening.cap_drop", lambda container: capabilities(container, "CapDrop")),
    _Field("hardening.cap_add", lambda container: capabilities(container, "CapAdd")),
    _Field("hardening.privileged", _flag("Privileged")),
    _Field("hardening.devices", _listed("Devices")),
    _Field("hardening.groups", _listed("GroupAdd")),
    _Field("hardening.namespaces", _namespaces),
    _Field("hardening.ulimits", _ulimits),
    _Field("hardening.init", _flag("Init")),
    _Field("hardening.restart", _restart),
    _Field("hardening.log", _log),
    _Field("hardening.command", _config("Cmd")),
    _Field("hardening.entrypoint", _config("Entrypoint")),
    _Field("healthcheck", _healthcheck),
)


def _environment(payload: Mapping[str, Any], live: Mapping[str, Any], image: Iterable[str]) -> list[Drift]:
    """Variables that differ; what the image itself sets and nobody declared is no difference."""
    declared, present = _variables(payload.get("Env")), _variables(live["Config"].get("Env"))
    inherited = {name: value for name, value in _variables(image).items() if name not in declared}
    wanted = {**inherited, **declared}
    return [
        Drift(f"env.{name}", _shown(wanted.get(name)), _shown(present.get(name)))
        for name in sorted({*wanted, *present})
        if wanted.get(name) != present.get(name)
    ]


def _shown(value: str | None) -> str | None:
    return value and _proxy.without_logins(value)


def _variables(items: Iterable[str] | None) -> dict[str, str]:
    return dict(item.partition("=")[::2] for item in items or [])


def _networks(payload: Mapping[str, Any], live: Mapping[str, Any]) -> list[Drift]:
    """Networks joined or left behind the declaration's back."""
    main = payload["HostConfig"]["NetworkMode"]
    if live["HostConfig"].get("NetworkMode") != main:
        return []  # told as another field
    wanted = {*payload["NetworkingConfig"]["EndpointsConfig"], main}
    joined = set((live.get("NetworkSettings") or {}).get("Networks") or {})
    if main not in joined:
        return [Drift("network", sorted(wanted), sorted(joined))]
    further = [sorted(networks - {main}) for networks in (wanted, joined)]
    return [] if wanted == joined else [Drift("networks", *further)]


def schema(labels: Mapping[str, str] | None) -> int:
    """Which schema the labels of a container follow; 0 for one from before schemas had numbers."""
    text = str((labels or {}).get(_naming.LABEL_SCHEMA, ""))
    return int(text) if text.isdecimal() else 0


def _schema(payload: Mapping[str, Any], live: Mapping[str, Any]) -> list[Drift]:
    """Another version of Agentbox made it."""
    now, then = schema(payload["Labels"]), schema(live["Config"].get("Labels"))
    return [] if now == then else [Drift("schema", now, then)]


def _image(payload: Mapping[str, Any], live: Mapping[str, Any]) -> list[Drift]:
    now = payload["Labels"][_naming.LABEL_CONTEXT]
    then = (live["Config"].get("Labels") or {}).get(_naming.LABEL_CONTEXT, "")
    same = now == then and payload["Image"] == live["Config"].get("Image")
    return [] if same else [Drift("image", _named(payload["Image"], now), _named(live["Config"].get("Image"), then))]


def _named(reference: object, context: str) -> str:
    return f"{reference} ({context.removeprefix('sha256:')[:_SHOWN] or 'unknown'})"


def _declaration(recorded: Mapping[str, Any]) -> list[Drift]:
    """Declared keys that changed since the container's creation."""
    now, then = recorded.get("declared") or {}, recorded.get("live") or {}
    return [Drift(key, now[key], then.get(key)) for key in sorted(now) if then and now[key] != then.get(key)]


def _label(payload: Mapping[str, Any], live: Mapping[str, Any]) -> list[Drift]:
    """The digest differs and nothing else tells why (the record is lost, or a label was made by another version)."""
    then = live["Config"].get("Labels") or {}
    return [
        Drift(f"label {name}", value[:_SHOWN], str(then.get(name))[:_SHOWN])
        for name, value in sorted(payload["Labels"].items())
        if then.get(name) != value
    ]
