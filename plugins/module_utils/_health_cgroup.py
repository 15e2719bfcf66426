"""What the kernel really enforces on a box, read from the host's ``/proc`` and cgroup files.

Where a cgroup lies is never guessed from the engine's or systemd's naming: the process tells its path in each
hierarchy, the mount table tells where that hierarchy is. That covers cgroup v1, v2 and both at once, any cgroup
driver and any parent. All paths are read below ``root`` (``/`` on a real host).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from ._health_facts import CgroupFacts, Hidden, Limits, ProcessFacts

HOST_ROOT = Path("/")
# cgroup v1 writes "no limit" as the largest multiple of a page below 2^63.
_V1_NO_LIMIT = 1 << 62
_PAGE = 4096  # bytes; the kernel rounds memory limits to pages
_CPU_STEP = 0.01
# Lines of memory.stat, by version, of what can't be written back to a disk.
_HELD = {1: ("total_rss", "total_shmem"), 2: ("anon", "shmem")}


@dataclass(frozen=True)
class CgroupMount:
    """One mounted hierarchy: ``root`` is the cgroup that appears at ``point``."""

    version: int
    root: str
    point: str
    controllers: frozenset[str]  # empty for version 2


@dataclass(frozen=True)
class CgroupMembership:
    """The cgroup of a process in one hierarchy; ``controllers`` is empty for version 2."""

    controllers: frozenset[str]
    path: str


def parse_memberships(text: str) -> tuple[CgroupMembership, ...]:
    """Lines of ``/proc/<pid>/cgroup``: ``4:memory:/docker/<id>`` or ``0::/docker/<id>``."""
    found = []
    for line in text.splitlines():
        _, first, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if first and second:
            found.append(CgroupMembership(frozenset(filter(None, controllers.split(","))), path))
    return tuple(found)


def parse_mounts(text: str) -> tuple[CgroupMount, ...]:
    """The cgroup file systems of ``/proc/self/mountinfo``."""
    found = []
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields, (kind, *rest) = left.split(), right.split() or [""]
        if not separator or kind not in ("cgroup", "cgroup2"):
            continue
        root, point = _unescaped(fields[3]), _unescaped(fields[4])
        if kind == "cgroup2":
            found.append(CgroupMount(2, root, point, frozenset()))
        else:
            found.append(CgroupMount(1, root, point, frozenset(rest[-1].split(","))))
    return tuple(found)


def _unescaped(field: str) -> str:
    """mountinfo writes space, tab, newline and backslash as octal."""
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(escape, character)
    return field


def locate(
    controller: str, memberships: Iterable[CgroupMembership], mounts: Iterable[CgroupMount]
) -> tuple[int, str] | None:
    """Version and directory of the process's cgroup that has ``controller``; None when it is not mounted here.

    On a host with both versions a controller belongs to exactly one; version 1 names it.
    """
    members, mounted = list(memberships), list(mounts)
    for member in members:
        if controller in member.controllers:
            for mount in mounted:
                if mount.version == 1 and controller in mount.controllers:
                    return 1, _below(mount, member.path)
            return None
    for member in members:
        if not member.controllers:
            for mount in mounted:
                if mount.version == 2:  # noqa: PLR2004 - the cgroup version
                    return 2, _below(mount, member.path)
    return None


def _below(mount: CgroupMount, path: str) -> str:
    inside = PurePosixPath(path)
    if mount.root != "/" and inside.is_relative_to(mount.root):
        inside = inside.relative_to(mount.root)
    return str(PurePosixPath(mount.point, *inside.parts[inside.is_absolute() :]))


def read_process(pid: int, root: Path = HOST_ROOT) -> ProcessFacts | Hidden:
    """Credentials of process ``pid`` of the host."""
    text = _text(_proc(root, pid) / "status")
    if text is None:
        return Hidden(f"process {pid} is not visible from here")
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    try:
        return ProcessFacts(
            uids=tuple(int(number) for number in fields["Uid"].split()),
            effective=int(fields["CapEff"], 16),
            permitted=int(fields["CapPrm"], 16),
            bounding=int(fields["CapBnd"], 16),
            no_new_privileges=fields["NoNewPrivs"].strip() == "1",
            seccomp=int(fields["Seccomp"]),
        )
    except (KeyError, ValueError) as error:
        return Hidden(f"the status of process {pid} cannot be read ({error})")


def is_of_container(pid: int, container_id: str, root: Path = HOST_ROOT) -> bool:
    """Whether process ``pid`` of this host is in a cgroup that names the container.

    Process ids of an engine behind another process namespace mean other processes here.
    """
    return any(container_id in member.path for member in _memberships(pid, root))


def _memberships(pid: int, root: Path) -> tuple[CgroupMembership, ...]:
    return parse_memberships(_text(_proc(root, pid) / "cgroup") or "")


def mounted(root: Path = HOST_ROOT) -> tuple[CgroupMount, ...]:
    """The hierarchies of the host."""
    return parse_mounts(_text(root / "proc/self/mountinfo") or "")


def read_cgroup(pid: int, container_id: str, root: Path = HOST_ROOT) -> CgroupFacts | Hidden:
    """Limits and events of the container whose first process is ``pid``."""
    found = _cgroups(pid, container_id, mounted(root), root)
    return found if isinstance(found, Hidden) else _with_events(_limits(found), found)


def read_limits(
    pid: int, container_id: str, mounts: Iterable[CgroupMount], root: Path = HOST_ROOT
) -> CgroupFacts | Hidden:
    """As ``read_cgroup``, without events, in a third of the time; ``mounts`` are the host's."""
    found = _cgroups(pid, container_id, mounts, root)
    return found if isinstance(found, Hidden) else _limits(found)


def memory_held(pid: int, container_id: str, mounts: Iterable[CgroupMount], root: Path = HOST_ROOT) -> int | None:
    """Bytes of the container that the kernel can't take back: of processes, and of files kept in memory."""
    found = _cgroups(pid, container_id, mounts, root)
    if isinstance(found, Hidden) or "memory" not in found:
        return None
    version, files = found["memory"]
    held = [files.counter("memory.stat", key) for key in _HELD[version]]
    return sum(amount or 0 for amount in held) if any(held) else None


def _cgroups(pid: int, container_id: str, mounts: Iterable[CgroupMount], root: Path) -> _Cgroups | Hidden:
    memberships = _memberships(pid, root)
    if not any(container_id in member.path for member in memberships):
        return Hidden("the engine's processes are not visible from here")
    places = {name: locate(name, memberships, mounts) for name in ("memory", "pids", "cpu")}
    known = {name: place for name, place in places.items() if place is not None}
    if not known:
        return Hidden("no cgroup file system is mounted here")
    return {name: (version, _Files(root, where)) for name, (version, where) in known.items()}


@dataclass(frozen=True)
class _Files:
    """The files of one cgroup."""

    root: Path
    directory: str

    def text(self, name: str) -> str | None:
        content = _text(self.root / self.directory.lstrip("/") / name)
        return content.strip() if content is not None else None

    def number(self, name: str) -> int | None:
        """A number; None for ``max`` and for a file that is not there."""
        content = self.text(name)
        return int(content) if content is not None and content.lstrip("-").isdigit() else None

    def counter(self, name: str, key: str) -> int | None:
        """The number behind ``key`` in a file of ``key number`` lines."""
        for line in (self.text(name) or "").splitlines():
            word, _, number = line.partition(" ")
            if word == key and number.isdigit():
                return int(number)
        return None


_Cgroups = Mapping[str, tuple[int, _Files]]  # by controller, with the version of its hierarchy


def _limits(cgroups: _Cgroups) -> CgroupFacts:
    limits: dict[str, float | None] = {}
    if "memory" in cgroups:
        version, files = cgroups["memory"]
        limits |= _memory_v1(files) if version == 1 else _memory_v2(files)
    if "pids" in cgroups:
        text = cgroups["pids"][1].text("pids.max")
        limits |= {} if text is None else {"pids": int(text) if text.isdigit() else None}
    if "cpu" in cgroups:
        version, files = cgroups["cpu"]
        limits |= _cpus_v1(files) if version == 1 else _cpus_v2(files)
    return CgroupFacts(
        version=max(version for version, _ in cgroups.values()),
        limits=Limits(
            memory=_whole(limits.get("memory")),
            memory_swap=_whole(limits.get("memory_swap")),
            pids=_whole(limits.get("pids")),
            cpus=limits.get("cpus"),
        ),
        unlimited=frozenset(name for name, limit in limits.items() if limit is None),
    )


def _with_events(facts: CgroupFacts, cgroups: _Cgroups) -> CgroupFacts:
    if "memory" in cgroups:
        version, files = cgroups["memory"]
        oom_kills = files.counter("memory.oom_control" if version == 1 else "memory.events", "oom_kill")
        facts = replace(facts, oom_kills=oom_kills)
    if "pids" in cgroups:
        _, files = cgroups["pids"]
        refused, current = files.counter("pids.events", "max"), files.number("pids.current")
        facts = replace(facts, pids_refused=refused, pids_current=current)
    return facts


def tolerance(name: str) -> float:
    """How far a limit in force, named as in ``Limits``, may be from what was asked for and still be the same."""
    return {"pids": 0, "cpus": _CPU_STEP}.get(name, _PAGE)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


# Each of the following answers only for what the kernel accounts for: a missing file is a missing key, no limit is
# None.


def _memory_v1(files: _Files) -> dict[str, float | None]:
    names = {"memory": "memory.limit_in_bytes", "memory_swap": "memory.memsw.limit_in_bytes"}
    found: dict[str, float | None] = {}
    for key, name in names.items():
        amount = files.number(name)
        if amount is not None:
            found[key] = amount if amount < _V1_NO_LIMIT else None
    return found


def _memory_v2(files: _Files) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    if files.text("memory.max") is None:
        return found
    memory = files.number("memory.max")
    found["memory"] = memory
    if files.text("memory.swap.max") is not None:
        swap = files.number("memory.swap.max")
        found["memory_swap"] = None if memory is None or swap is None else memory + swap
    return found


def _cpus_v1(files: _Files) -> dict[str, float | None]:
    quota, period = files.number("cpu.cfs_quota_us"), files.number("cpu.cfs_period_us")
    if quota is None or not period:
        return {}
    return {"cpus": quota / period if quota > 0 else None}


def _cpus_v2(files: _Files) -> dict[str, float | None]:
    quota, _, period = (files.text("cpu.max") or "").partition(" ")
    if not period.isdigit():
        return {}
    return {"cpus": int(quota) / int(period) if quota.isdigit() else None}


def _proc(root: Path, pid: int) -> Path:
    return root / "proc" / str(pid)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
