"""From a resolved box to the JSON that creates its container.

Pure. Field names and units are those of the engine's API (``POST /containers/create``, 1.41): bytes, nanoseconds,
billionths of a CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _naming
from ._box import STRICT_PROFILE, Box
from ._ports import Port
from ._spec import SCHEMA, BoxSpec, digest

STOP_SECONDS = 20
_NANO = 1_000_000_000
_VAR_TMP_SIZE = 64 << 20  # only with a read-only root


def create_payload(box: Box, image_context: str) -> dict[str, Any]:
    """Body of the request that creates the container of ``box`` from an image with this context digest."""
    spec = box.spec
    bindings = _port_bindings(spec)
    return {
        "Image": spec.image,
        "Hostname": spec.name,
        "User": f"{box.uid}:{_naming.BOX_GID}",
        "WorkingDir": box.target,
        "Entrypoint": [],
        "Cmd": ["bash", f"{_naming.BOX_MOUNT}/entry.sh"],
        "Env": [f"{name}={value}" for name, value in sorted(environment(box).items())],
        "Labels": labels(box, image_context),
        "ExposedPorts": {port: {} for port in bindings},
        "Healthcheck": spec.healthcheck.payload(),
        "StopSignal": "SIGTERM",
        "StopTimeout": STOP_SECONDS,
        "HostConfig": {**_host_config(box), "PortBindings": bindings},
        "NetworkingConfig": {"EndpointsConfig": {network: {} for network in box.networks}},
    }


def environment(box: Box) -> dict[str, str]:
    """Environment at creation: everybody who may inspect the container reads it, so it holds no secret of a box."""
    result = {
        "HOME": _naming.BOX_HOME,
        "LANG": box.spec.locale,
        "TZ": box.timezone,
        # Trust exactly the mounted workspace, whoever owns it on the host.
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": box.target,
        **box.proxy,
    }
    if box.proxy:
        result["NODE_USE_ENV_PROXY"] = "1"  # Node alone ignores the proxy variables until it is asked
    for manifest in box.agents.values():
        result.update(manifest.get("environment") or {})
        config = manifest.get("config") or {}
        if config.get("variable"):
            result[config["variable"]] = config_directory(box, config)
    result.update(box.spec.env)
    return result


def config_directory(box: Box, config: Mapping[str, Any]) -> str:
    """Where an agent keeps settings and login in the box: what the declaration says, else its place below HOME.

    ``config`` is the part of that name of its manifest.
    """
    moved = box.spec.env.get(str(config.get("variable")), "")
    return moved.rstrip("/") or f"{_naming.BOX_HOME}/{config['directory']}"


def labels(box: Box, image_context: str) -> dict[str, str]:
    return {
        _naming.LABEL_MANAGED: "true",
        _naming.LABEL_INSTANCE: box.setting.instance,
        _naming.LABEL_BOX: box.spec.name,
        _naming.LABEL_SPEC: digest(box.spec.canonical(), image_context),
        _naming.LABEL_SCHEMA: str(SCHEMA),
        _naming.LABEL_YOLO: str(box.spec.yolo).lower(),
        _naming.LABEL_WORKSPACE: box.workspace,
        _naming.LABEL_CONTEXT: image_context,
        _naming.LABEL_STATE_DIR: box.setting.state_dir,
    }


def _host_config(box: Box) -> dict[str, Any]:
    spec = box.spec
    config: dict[str, Any] = {
        "CapDrop": ["ALL"],
        "CapAdd": [],
        "Privileged": False,
        "SecurityOpt": security_options(box),
        "PidsLimit": spec.pids,
        "Memory": box.memory,
        "MemorySwap": box.memory,
        "NanoCpus": round(box.cpus * _NANO),
        "Ulimits": [{"Name": "nofile", "Soft": 4096, "Hard": 8192}],
        "Init": True,
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "RestartPolicy": {"Name": "unless-stopped"},
        "NetworkMode": box.network,
        "ReadonlyRootfs": spec.read_only,
        "ShmSize": spec.shm_size,
        "Tmpfs": _tmpfs(box),
        "Mounts": list(mounts(box)),
        "DeviceRequests": _device_requests(spec.gpus),
        "LogConfig": {"Type": "json-file", "Config": {"max-file": "3", "max-size": "10m"}},
    }
    if spec.runtime != "runc":
        config["Runtime"] = spec.runtime
    return config


def security_options(box: Box) -> list[str]:
    options = ["no-new-privileges"]
    if box.spec.seccomp == "strict":
        options.append(f"seccomp={box.setting.files[STRICT_PROFILE]}")
    return options


def _port_bindings(spec: BoxSpec) -> dict[str, list[dict[str, str]]]:
    """Ports of the host by those of the box."""
    page = [Port(spec.publish.address, spec.publish.port, _naming.PAGE_PORT, "tcp")] if spec.publish else []
    result: dict[str, list[dict[str, str]]] = {}
    for port in (*page, *spec.ports):
        binding = {"HostIp": port.address, "HostPort": str(port.host)}
        result.setdefault(f"{port.box}/{port.protocol}", []).append(binding)
    return result


def _tmpfs(box: Box) -> dict[str, str]:
    mount_options = "rw,exec,nosuid,nodev,mode=1777,size={}"
    result = {"/tmp": mount_options.format(box.spec.tmp_size)}  # noqa: S108 - a path in the box
    if box.spec.read_only:
        result["/var/tmp"] = mount_options.format(_VAR_TMP_SIZE)  # noqa: S108 - a path in the box
    return result


def _device_requests(gpus: str) -> list[dict[str, Any]]:
    if gpus == "none":
        return []
    return [{"Driver": "", "Count": -1 if gpus == "all" else int(gpus), "Capabilities": [["gpu"]]}]


def mounts(box: Box) -> Iterator[dict[str, Any]]:
    """Everything mounted into the box, as ``Mounts``: nothing is parsed, a missing source is an error."""
    paths = box.paths
    yield _bind(paths.mount, _naming.BOX_MOUNT, read_only=True)
    yield _bind(paths.passwd, "/etc/passwd", read_only=True)
    yield _bind(paths.relay, _naming.BOX_RELAY, read_only=True)
    for agent, manifest in box.agents.items():
        if manifest.get("hooks"):
            yield _bind(paths.agent_settings(agent), manifest["hooks"]["mount"], read_only=True)
    for name, target in volumes(box).items():
        yield _volume(box, name, target, read_only=False)
    if box.identity.gitconfig:
        yield _bind(box.identity.gitconfig, "/etc/gitconfig", read_only=True)
    if box.identity.gh:
        yield _bind(box.identity.gh, f"{_naming.BOX_HOME}/.config/gh", read_only=True)
    yield _bind(box.workspace, box.target, read_only=False)
    for mount in sorted(box.spec.mounts):
        yield _bind(mount.source, mount.target, read_only=mount.read_only)
    for mount in sorted(box.spec.volumes):
        yield _volume(box, mount.source, mount.target, read_only=mount.read_only)
    if box.spec.credentials == "mount":
        for login in box.logins:
            yield _bind(login.source, login.target, read_only=False)


def volumes(box: Box) -> dict[str, str]:
    """Agentbox's own volumes of a box and where they are mounted; the box uid owns their roots."""
    instance = box.setting.instance
    caches = {
        _naming.cache_volume(instance, cache, box.uid): f"{_naming.BOX_HOME}/{directory}"
        for cache, directory in _naming.CACHES.items()
    }
    return {_naming.home_volume(instance, box.spec.name): _naming.BOX_HOME, **caches}


def keeping_volume(box: Box, path: str) -> dict[str, Any] | None:
    """The mount of the volume that keeps what is written at ``path`` in the box; None where no volume does."""
    holding = [mount for mount in mounts(box) if path.startswith(f"{mount['Target']}/")]
    nearest = max(holding, key=lambda mount: len(mount["Target"]), default=None)
    return nearest if nearest and nearest["Type"] == "volume" and not nearest["ReadOnly"] else None


def home_directories(box: Box) -> dict[str, int]:
    """Directories below HOME that have to be the box uid's before its first start, with their modes; parents first."""
    wanted = dict.fromkeys((*_naming.CACHES.values(), ".config"), 0o755)
    for manifest in box.agents.values():
        directory = config_directory(box, manifest["config"]) if manifest.get("config") else ""
        if directory.startswith(f"{_naming.BOX_HOME}/"):
            wanted[directory.removeprefix(f"{_naming.BOX_HOME}/")] = 0o700  # it holds a login
    parents = dict.fromkeys([*_leading_to(wanted), *leading_to_mounts(box)], 0o755)
    return dict(sorted({**parents, **wanted}.items()))


def leading_to_mounts(box: Box) -> list[str]:
    """Directories below HOME in which the declaration mounts something, parents first.

    The engine would make them root's.
    """
    targets = [mount.target for mount in (*box.spec.mounts, *box.spec.volumes)] + [box.target]
    inside = f"{_naming.BOX_HOME}/"
    return _leading_to(target.removeprefix(inside) for target in targets if target.startswith(inside))


def _leading_to(paths: Iterable[str]) -> list[str]:
    parents = {"/".join(path.split("/")[:depth]) for path in paths for depth in range(1, path.count("/") + 1)}
    return sorted(parents)


def _bind(source: str, target: str, *, read_only: bool) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "ReadOnly": read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }


def _volume(box: Box, name: str, target: str, *, read_only: bool) -> dict[str, Any]:
    volume_labels = {
        _naming.LABEL_MANAGED: "true",
        _naming.LABEL_INSTANCE: box.setting.instance,
        _naming.LABEL_UID: str(box.uid),
    }
    return {
        "Type": "volume",
        "Source": name,
        "Target": target,
        "ReadOnly": read_only,
        # The engine would give a volume that is empty, such as a new cache, the owner of the image's directory again.
        "VolumeOptions": {"NoCopy": True, "Labels": volume_labels},
    }
