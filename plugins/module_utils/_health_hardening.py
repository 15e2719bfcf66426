"""Verdicts about a box's walls: what the engine was told, and what the kernel really does. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from ._health import Check, Verdict, overall, plain, size
from ._health_cgroup import tolerance
from ._health_facts import BoxFacts, CgroupFacts, Expected, Hidden, Limits, ProcessFacts

_RECREATE = "Recreate the box (`recreate: drift` or `agentbox rebuild`) and find out who changed it"
_ENGINE_SOCKETS = ("docker.sock", "podman.sock", "containerd.sock", "crio.sock")
SECCOMP_FILTER = 2

Figures = Mapping[str, float | None]


def hardening_check(facts: BoxFacts, engine_socket: str) -> Check:
    """No capability, no new privileges, a system call filter, no root, no engine socket, no host namespace."""
    inspect, box = facts.inspect or {}, facts.expected
    told = [*_told(inspect, box), *_reachable_sockets(inspect, engine_socket)]
    if told:
        return Check("hardening", box.name, "fail", "; ".join(told), _RECREATE)
    if _sandboxed(inspect):
        return Check("hardening", box.name, "ok", "as declared; gVisor stands between the box and the kernel")
    if not isinstance(facts.process, ProcessFacts):
        reason = facts.process.reason if isinstance(facts.process, Hidden) else "not looked at"
        return Check("hardening", box.name, "unknown", f"as declared to the engine, but not seen in force: {reason}")
    real = list(_real(facts.process))
    if real:
        return Check("hardening", box.name, "fail", f"in force: {'; '.join(real)}", _RECREATE)
    return Check(
        "hardening",
        box.name,
        "ok",
        f"in force: no capability, no new privileges, system call filter, uid {facts.process.uids[1]}, own namespaces",
    )


def _told(inspect: Mapping[str, Any], box: Expected) -> Iterator[str]:
    """Deviations in what the engine was told."""
    config: Mapping[str, Any] = inspect.get("HostConfig") or {}
    options = [str(option).replace("=", ":") for option in config.get("SecurityOpt") or []]
    if config.get("Privileged"):
        yield "privileged"
    if "ALL" not in _capabilities(config.get("CapDrop")):
        yield "capabilities are not dropped"
    if _capabilities(config.get("CapAdd")):
        yield f"added capabilities {', '.join(_capabilities(config.get('CapAdd')))}"
    if not {"no-new-privileges", "no-new-privileges:true"} & set(options):
        yield "no-new-privileges is not set"
    yield from (f"{plain(option, 60)}" for option in options if option.endswith(":unconfined"))
    yield from _host_namespaces(config)
    if str((inspect.get("Config") or {}).get("User") or "0").split(":")[0] in ("0", "root"):
        yield "runs as root"
    if config.get("Devices") and not box.gpus:
        yield "host devices are passed through"


def _capabilities(names: Iterable[str] | None) -> list[str]:
    return sorted(plain(name, 40).upper().removeprefix("CAP_") for name in names or [])


def _host_namespaces(config: Mapping[str, Any]) -> Iterator[str]:
    for key, name in (
        ("NetworkMode", "network"),
        ("PidMode", "process"),
        ("IpcMode", "IPC"),
        ("UTSMode", "UTS"),
        ("UsernsMode", "user"),
    ):
        mode = str(config.get(key) or "")
        if mode == "host" or mode.startswith("container:"):
            yield f"shares the {name} namespace with {'the host' if mode == 'host' else 'another container'}"


def _reachable_sockets(inspect: Mapping[str, Any], engine_socket: str) -> Iterator[str]:
    """Mounts that hand the engine to the box: its socket, or a directory that holds it."""
    for mount in inspect.get("Mounts") or []:
        source = str(mount.get("Source") or "")
        if mount.get("Type") != "bind" or not source:
            continue
        if PurePosixPath(source).name in _ENGINE_SOCKETS:
            yield f"the engine's socket {plain(source)} is mounted"
        elif any(_holds(source, socket) for socket in _places(engine_socket)):
            yield f"{plain(source)} is mounted, which holds the engine's socket"


def _holds(directory: str, path: str) -> bool:
    return PurePosixPath(path).is_relative_to(directory)


def _places(engine_socket: str) -> set[str]:
    """Both paths of a socket in ``/run``, to which ``/var/run`` is a link nearly everywhere."""
    if engine_socket.startswith("/run/"):
        return {engine_socket, f"/var{engine_socket}"}
    if engine_socket.startswith("/var/run/"):
        return {engine_socket, engine_socket.removeprefix("/var")}
    return {engine_socket}


def _sandboxed(inspect: Mapping[str, Any]) -> bool:
    """Under gVisor the process the host sees is the sandbox itself; its credentials say nothing about the box's."""
    return "runsc" in str((inspect.get("HostConfig") or {}).get("Runtime") or "")


def _real(process: ProcessFacts) -> Iterator[str]:
    """Deviations in what the kernel does."""
    for name, mask in (
        ("effective", process.effective),
        ("permitted", process.permitted),
        ("bounding", process.bounding),
    ):
        if mask:
            yield f"{name} capabilities {mask:016x}"
    if not process.no_new_privileges:
        yield "new privileges are possible"
    if process.seccomp != SECCOMP_FILTER:
        yield "no system call filter"
    if 0 in process.uids:
        yield "its first process is root"


def limits_check(facts: BoxFacts, unenforced: frozenset[str] = frozenset()) -> Check:
    """Memory with swap, processes and processors: declared, told to the engine, and in force.

    The limits in ``unenforced`` this engine cannot enforce; they are advisory, which is a warning and never all right.
    """
    name = facts.expected.name
    wanted = _figures(facts.expected.limits or limits_of(facts.inspect or {}))
    check = _enforced_check(facts, {limit: wanted[limit] for limit in wanted if limit not in unenforced})
    advisory = _listed({limit: wanted[limit] for limit in wanted if limit in unenforced})
    if not advisory:
        return check
    warning = Check(
        "limits",
        name,
        "warn",
        f"advisory, not enforced by this engine: {advisory}",
        "Use an engine with root, or cgroup v2 with its controllers delegated to the engine's user",
    )
    checks = [check, warning] if unenforced < wanted.keys() else [warning]
    seen = "; ".join(part.seen for part in checks)
    return Check("limits", name, overall(checks), seen, next(part.todo for part in checks if part.todo))


def _enforced_check(facts: BoxFacts, wanted: Figures) -> Check:
    """The limits in ``wanted``, told and in force."""
    box = facts.expected
    told = _chosen(limits_of(facts.inspect or {}), wanted)
    if not isinstance(facts.cgroup, CgroupFacts):
        reason = facts.cgroup.reason if isinstance(facts.cgroup, Hidden) else "not looked at"
        problems = list(_differences(wanted, told, "the engine was told", frozenset()))
        if problems:
            return _limits_result(box.name, problems)
        return Check("limits", box.name, "unknown", f"{_listed(told)}, not seen in force: {reason}")
    real = _chosen(facts.cgroup.limits, wanted)
    problems = list(_differences(wanted, real, "in force", facts.cgroup.unlimited))
    unseen = [name for name in real if real[name] is None and name not in facts.cgroup.unlimited]
    if not problems and unseen:
        return Check(
            "limits",
            box.name,
            "warn",
            f"{_listed(real)}; the kernel does not account for {', '.join(map(limit_title, unseen))}",
            "Enable the controller (for swap: swapaccount=1 on the kernel's command line)",
        )
    if problems:
        return _limits_result(box.name, problems)
    return Check("limits", box.name, "ok", f"in force: {_listed(real)}")


def _chosen(limits: Limits, wanted: Figures) -> Figures:
    """The figures of those limits that ``wanted`` is about."""
    return {name: figure for name, figure in _figures(limits).items() if name in wanted}


def limits_of(inspect: Mapping[str, Any]) -> Limits:
    """The limits the engine was told; None where it was told none."""
    config: Mapping[str, Any] = inspect.get("HostConfig") or {}
    swap, pids = config.get("MemorySwap") or 0, config.get("PidsLimit") or 0
    return Limits(
        memory=config.get("Memory") or None,
        memory_swap=swap if swap > 0 else None,
        pids=pids if pids > 0 else None,
        cpus=_told_cpus(config),
    )


def _told_cpus(config: Mapping[str, Any]) -> float | None:
    nano, quota = config.get("NanoCpus") or 0, config.get("CpuQuota") or 0
    if nano > 0:
        return float(nano / 1e9)
    return float(quota / (config.get("CpuPeriod") or 100_000)) if quota > 0 else None


def _figures(limits: Limits) -> Figures:
    return {
        "memory": limits.memory,
        "memory_swap": limits.memory_swap,
        "pids": limits.pids,
        "cpus": limits.cpus,
    }


def _differences(
    wanted: Figures, found: Figures, where: str, unlimited: frozenset[str]
) -> Iterator[tuple[Verdict, str]]:
    """A box with more than it should have is a failure, one with less is a warning."""
    for name, limit in wanted.items():
        real = found[name]
        if name in unlimited or (limit is None and real is None) or (real is None and where != "in force"):
            declared = "" if limit is None else f"declared {_figure(name, limit)}, "
            yield "fail", f"{limit_title(name)}: {declared}{where} no limit"
        elif limit is not None and real is not None and abs(real - limit) > tolerance(name):
            verdict: Verdict = "fail" if real > limit else "warn"
            yield (
                verdict,
                f"{limit_title(name)}: declared {_figure(name, limit)}, {where} {_figure(name, real)}",
            )


def _limits_result(name: str, problems: list[tuple[Verdict, str]]) -> Check:
    verdict: Verdict = "fail" if any(found == "fail" for found, _ in problems) else "warn"
    return Check(
        "limits",
        name,
        verdict,
        "; ".join(text for _, text in problems),
        "Run site.yml, which sets declared limits on the live box, and find out who changed them",
    )


def limit_title(name: str) -> str:
    """A member of ``Limits`` in words."""
    return "memory and swap" if name == "memory_swap" else name


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "no limit"
    return f"{value:g}" if name in ("pids", "cpus") else size(value)


def _listed(figures: Figures) -> str:
    return ", ".join(
        f"{limit_title(name)} {_figure(name, value)}" for name, value in figures.items() if value is not None
    )


def pressure_check(facts: BoxFacts) -> Check:
    """Whether the box ran into its limits since it was started."""
    name = facts.expected.name
    if not isinstance(facts.cgroup, CgroupFacts):
        reason = facts.cgroup.reason if isinstance(facts.cgroup, Hidden) else "not looked at"
        return Check("pressure", name, "unknown", reason)
    limits, hits, advice = facts.cgroup.limits, [], []
    if facts.cgroup.oom_kills:
        hits.append(
            f"the kernel killed {facts.cgroup.oom_kills} processes at the memory limit of "
            f"{_figure('memory', limits.memory)}"
        )
        advice.append("raise `memory` or give the agent smaller work")
    if facts.cgroup.pids_refused:
        hits.append(
            f"{facts.cgroup.pids_refused} new processes were refused at the limit of "
            f"{_figure('pids', limits.pids)} (now {facts.cgroup.pids_current})"
        )
        advice.append("look for a fork bomb, or raise `pids`")
    if hits:
        todo = "; ".join(advice)
        return Check("pressure", name, "warn", "; ".join(hits), todo[:1].upper() + todo[1:])
    return Check("pressure", name, "ok", "no limit was hit since the box started")
