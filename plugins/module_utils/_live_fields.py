"""What of a container is compared: its fields, each read in one spelling from ``inspect`` and from a creation payload.

Pure. Engines spell defaults differently and people write one thing in several ways; both read alike here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ._naming import PAGE_PORT
from ._values import human_size

Container = Mapping[str, Any]  # in the shape of ``inspect``

_NANO = 1_000_000_000
_SHOWN = 12  # characters of a digest
_PAGE = f"{PAGE_PORT}/tcp"
_SEPARATOR = re.compile("[=:]")
# Engine defaults that inspect spells out in place of an absent value.
_PRIVATE_IPC = ("private", "", None)
_NAMESPACES = ("PidMode", "UTSMode", "UsernsMode", "CgroupnsMode")
# What `docker update` can give a container and no box ever has; the engine can't take it away again.
_SHARES = (
    "BlkioWeight",
    "CpuRealtimePeriod",
    "CpuRealtimeRuntime",
    "CpuShares",
    "CpusetCpus",
    "CpusetMems",
    "KernelMemory",
    "MemoryReservation",
)
_DEFAULT_SHARES = {"CpuShares": 1024}
# What a container can be made with besides, and no box ever is.
_EXTRAS = (
    "AutoRemove",
    "DeviceCgroupRules",
    "Dns",
    "DnsOptions",
    "DnsSearch",
    "ExtraHosts",
    "Links",
    "OomKillDisable",
    "Sysctls",
    "VolumesFrom",
)


@dataclass(frozen=True)
class Field:
    """One field. ``path`` is the declaration's key, or ``hardening.<field>`` for what nobody may change.

    ``updates`` are the keys of ``HostConfig`` with which the engine's update call sets it on a living container.
    """

    path: str
    read: Callable[[Container], Any]
    show: Callable[[Any], Any] = lambda value: value
    updates: tuple[str, ...] = ()


def as_inspected(payload: Mapping[str, Any]) -> Container:
    """A payload in the shape of ``inspect``, so that one reader serves both."""
    return {"Config": payload, "HostConfig": payload["HostConfig"]}


def _host(key: str) -> Callable[[Container], Any]:
    return lambda container: container["HostConfig"].get(key)


def _flag(key: str) -> Callable[[Container], bool]:
    return lambda container: bool(container["HostConfig"].get(key))


def _listed(key: str) -> Callable[[Container], list[Any]]:
    return lambda container: sorted(container["HostConfig"].get(key) or [], key=str)


def _number(key: str) -> Callable[[Container], int]:
    return lambda container: int(container["HostConfig"].get(key) or 0)


def _config(key: str) -> Callable[[Container], Any]:
    return lambda container: container["Config"].get(key) or None


def _capabilities(key: str) -> Callable[[Container], list[str]]:
    """``ALL``, ``all``, ``NET_ADMIN`` and ``CAP_NET_ADMIN`` in one spelling."""
    return lambda container: sorted(
        str(item).upper().removeprefix("CAP_") for item in container["HostConfig"].get(key) or []
    )


def _security_options(container: Container) -> list[tuple[str, str]]:
    """Security options in one spelling: ``no-new-privileges`` and ``no-new-privileges:true`` are the same."""
    return sorted(_security_option(str(item)) for item in container["HostConfig"].get("SecurityOpt") or [])


def _security_option(text: str) -> tuple[str, str]:
    key, *rest = _SEPARATOR.split(text, maxsplit=1)
    value = rest[0] if rest else "true"
    try:
        return key, json.dumps(json.loads(value), sort_keys=True)
    except ValueError:
        return key, value


def _security(container: Container) -> list[str]:
    """All security options but the system call filter."""
    return [f"{key}={value}" for key, value in _security_options(container) if key != "seccomp"]


def _seccomp(container: Container) -> list[str]:
    """The system call filter, none for the engine's own; a profile as JSON in one spelling."""
    return [value for key, value in _security_options(container) if key == "seccomp"]


def _profiles(filters: list[str]) -> str:
    return ", ".join(map(_profile, filters)) or "default"


def _profile(text: str) -> str:
    return text if not text.startswith("{") else f"profile {hashlib.sha256(text.encode()).hexdigest()[:_SHOWN]}"


def mounts(container: Container) -> dict[str, str]:
    """Mounts by target: ``type source ro|rw``. ``Binds``, which we never write, are shown too."""
    result = {
        item["Target"]: " ".join((item["Type"], item.get("Source", ""), "ro" if item.get("ReadOnly") else "rw"))
        for item in container["HostConfig"].get("Mounts") or []
    }
    result.update({f"binds[{index}]": bind for index, bind in enumerate(container["HostConfig"].get("Binds") or [])})
    return result


def _tmpfs(container: Container) -> dict[str, list[str]]:
    return {
        target.rstrip("/"): sorted(options.split(","))
        for target, options in (container["HostConfig"].get("Tmpfs") or {}).items()
    }


def _page(container: Container) -> list[str]:
    return [text for port, text in _bindings(container) if port == _PAGE]


def _ports(container: Container) -> list[str]:
    return [text for port, text in _bindings(container) if port != _PAGE]


def _bindings(container: Container) -> list[tuple[str, str]]:
    """Published ports of a container, each with where it is published."""
    bindings = container["HostConfig"].get("PortBindings") or {}
    return sorted(
        (port, f"{binding.get('HostIp', '')}:{binding.get('HostPort', '')}->{port}")
        for port, group in bindings.items()
        for binding in group or []
    )


def _ulimits(container: Container) -> list[str]:
    return sorted(
        f"{item['Name']}={item['Soft']}:{item['Hard']}" for item in container["HostConfig"].get("Ulimits") or []
    )


def _quota(container: Container) -> float:
    """CPUs allowed, whether set as a number of CPUs or as quota and period."""
    host = container["HostConfig"]
    if host.get("NanoCpus"):
        return float(host["NanoCpus"]) / _NANO
    return (host.get("CpuQuota") or 0) / (host.get("CpuPeriod") or 100_000)


def _pids(container: Container) -> int:
    return max(0, _number("PidsLimit")(container))


def _shares(container: Container) -> dict[str, Any]:
    found = {key: container["HostConfig"].get(key) for key in _SHARES}
    return {key: value for key, value in found.items() if value and value != _DEFAULT_SHARES.get(key)}


def _extras(container: Container) -> dict[str, Any]:
    return {key: container["HostConfig"][key] for key in _EXTRAS if container["HostConfig"].get(key)}


def _runtime(container: Container) -> str:
    return "runsc" if container["HostConfig"].get("Runtime") == "runsc" else "runc"


def _restart(container: Container) -> str:
    return str((container["HostConfig"].get("RestartPolicy") or {}).get("Name") or "no")


def _log(container: Container) -> Any:
    log = container["HostConfig"].get("LogConfig") or {}
    return {"type": log.get("Type"), **(log.get("Config") or {})}


def _namespaces(container: Container) -> list[str]:
    host = container["HostConfig"]
    found = [f"{key}={host[key]}" for key in _NAMESPACES if host.get(key) not in ("", None, "private")]
    return found + ([] if host.get("IpcMode") in _PRIVATE_IPC else [f"IpcMode={host['IpcMode']}"])


def _gpus(container: Container) -> list[int]:
    return [int(request.get("Count") or 0) for request in container["HostConfig"].get("DeviceRequests") or []]


def _healthcheck(container: Container) -> Any:
    return {key: value for key, value in (container["Config"].get("Healthcheck") or {}).items() if value}


def limit(value: int) -> str:
    """A limit in bytes as people read it."""
    return human_size(value) if value > 0 else "no limit"


def count(value: float) -> str | float:
    """A limit that is a number."""
    return value if value > 0 else "no limit"


_MEMORY = ("Memory", "MemorySwap")  # the engine wants both at once

FIELDS = (
    Field("memory", _number("Memory"), limit, _MEMORY),
    Field("hardening.memory_swap", _number("MemorySwap"), limit, _MEMORY),
    Field("cpus", _quota, count, ("NanoCpus",)),
    Field("pids", _pids, count, ("PidsLimit",)),
    Field("shm_size", _number("ShmSize"), human_size),
    Field("tmp_size", _tmpfs),
    Field("publish", _page),
    Field("ports", _ports),
    Field("hardening.publish_all", _flag("PublishAllPorts")),
    Field("network", _host("NetworkMode")),
    Field("gpus", _gpus),
    Field("runtime", _runtime),
    Field("read_only", _flag("ReadonlyRootfs")),
    Field("seccomp", _seccomp, _profiles),
    Field("uid", _config("User")),
    Field("workspace_target", _config("WorkingDir")),
    Field("hardening.security_opt", _security),
    Field("hardening.cap_drop", _capabilities("CapDrop")),
    Field("hardening.cap_add", _capabilities("CapAdd")),
    Field("hardening.privileged", _flag("Privileged")),
    Field("hardening.devices", _listed("Devices")),
    Field("hardening.groups", _listed("GroupAdd")),
    Field("hardening.namespaces", _namespaces),
    Field("hardening.ulimits", _ulimits),
    Field("hardening.shares", _shares),
    Field("hardening.extras", _extras),
    Field("hardening.init", _flag("Init")),
    Field("hardening.restart", _restart, updates=("RestartPolicy",)),
    Field("hardening.log", _log),
    Field("hardening.command", _config("Cmd")),
    Field("hardening.entrypoint", _config("Entrypoint")),
    Field("healthcheck", _healthcheck),
)
