"""The engine's daemon as a service of its host: is it there, start it, stop it.

Hosts with systemd use the unit. Others try the package's init script, which on many container-like hosts cannot work
(it raises limits and mounts cgroups), and then start the daemon themselves, with the same files as that script, so
that ``service docker status|stop`` stays true. No docker SDK is needed here.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from ._engine import engine_host, identify, is_rootless, properties, reloaded_since
from ._errors import AgentboxError, EngineAbsentError, EngineError, EngineStoppedError, EngineUnreachableError
from ._programs import call, plain_environment
from ._state import remove_tree
from ._wire import SYSTEM_SOCKETS, daemon_program

UNIT = "docker.service"
# The socket goes first: while it listens, the next client would start the daemon again.
UNITS = ("docker.socket", UNIT)
DISTRIBUTION_PACKAGE = "docker.io"
UPSTREAM_PACKAGE = "docker-ce"
UPSTREAM_CONTAINERD = "containerd.io"
# Made by the docker role, so an engine that came from it is the role's to keep and to remove.
UPSTREAM_SOURCE = Path("/etc/apt/sources.list.d/agentbox-docker.sources")
DAEMON_NAME = "dockerd"
LOG_LINES = 15
_POLL = 0.2  # seconds
_START_TIME = 19  # of /proc/<pid>/stat, counted behind the program's name
_DEFAULTS = "/etc/default/docker"
# $1 is the daemon. The options of the package's configuration count here as they do in its init script.
_START_SCRIPT = f"""
DOCKER_OPTS=
[ ! -r {_DEFAULTS} ] || . {_DEFAULTS}
exec "$1" $DOCKER_OPTS
"""


@dataclass(frozen=True)
class HostPaths:
    """Where a host keeps what belongs to the daemon; tests give a directory of their own."""

    systemd: Path = Path("/run/systemd/system")
    init_script: Path = Path("/etc/init.d/docker")
    pid_file: Path = Path("/var/run/docker.pid")
    service_pid_file: Path = Path("/var/run/docker-ssd.pid")
    containerd_pid_file: Path = Path("/var/run/docker/containerd/containerd.pid")
    log: Path = Path("/var/log/docker.log")
    proc: Path = Path("/proc")
    data: Path = Path("/var/lib/docker")
    containerd_data: Path = Path("/var/lib/containerd")


@dataclass(frozen=True)
class DaemonFacts:
    """What is known about the engine of a host. ``state``: absent, stopped, running, denied, timeout, unreachable."""

    state: str
    message: str
    version: str | None
    api: str | None
    podman: bool
    rootless: bool
    program: str | None
    package: str | None  # the package that owns ``program``
    provider: str  # none, distribution, upstream, other
    system: bool  # the address is that of the system's engine, which can be installed and started
    library: bool  # this Python finds the docker SDK


def facts(docker_host: str | None) -> DaemonFacts:
    """Look at the host's engine. Changes nothing; raises for an address that cannot be an engine's."""
    program = daemon_program()
    found: dict[str, Any] = {"version": None, "api": None, "podman": False, "rootless": False}
    try:
        identity = identify(docker_host)
        found = {
            "version": identity.version,
            "api": identity.api,
            "podman": identity.podman,
            "rootless": is_rootless(properties(identity)),
        }
        state, message = "running", ""
    except EngineUnreachableError as error:
        state, message = error.kind, str(error)
    package = owning_package(program) if program else None
    return DaemonFacts(
        state=state,
        message=message,
        program=program,
        package=package,
        provider=provider(state, package, UPSTREAM_SOURCE.exists()),
        system=is_system_host(docker_host),
        library=importlib.util.find_spec("docker") is not None,
        **found,
    )


def as_dict(known: DaemonFacts) -> dict[str, Any]:
    return asdict(known)


def provider(state: str, package: str | None, own_source: bool) -> str:
    """Who made the engine: nobody, the distribution, Docker through the role's own source, or somebody else.

    The work of somebody else is left alone.
    """
    if state == EngineAbsentError.kind:
        return "none"
    if package == UPSTREAM_PACKAGE and own_source:
        return "upstream"
    return "distribution" if package == DISTRIBUTION_PACKAGE else "other"


def owning_package(program: str) -> str | None:
    """Debian package that owns a file, or None: not from a package, or no dpkg here."""
    try:
        answer = call("dpkg-query", "--search", program)
    except AgentboxError:
        return None
    owner, separator, _ = answer.stdout.partition(": ")
    return owner.partition(":")[0] if answer.returncode == 0 and separator else None


def needs_start(docker_host: str | None) -> bool:
    """Whether the daemon has to be started.

    Raises when that would not help: no engine installed (``EngineAbsentError``), no permission, no answer in time.
    """
    try:
        identify(docker_host)
    except EngineStoppedError as error:
        if not is_system_host(docker_host):
            raise EngineError(error.message, "It is not the system's engine; start it the way it was set up") from error
        return True
    return False


def is_system_host(docker_host: str | None) -> bool:
    """Whether the address is that of the system's engine."""
    return engine_host(docker_host, os.environ) in {f"unix://{path}" for path in SYSTEM_SOCKETS}


def start(docker_host: str | None, timeout: float, paths: HostPaths = HostPaths()) -> str:
    """Start the system's daemon and wait until it answers; returns how: ``systemd``, ``init script`` or ``directly``.

    Raises ``EngineAbsentError`` without a daemon program and ``EngineError`` with the last lines of the log when it
    does not answer within ``timeout`` seconds.
    """
    program = daemon_program()
    if program is None:
        raise EngineAbsentError("no dockerd is installed", "Run the docker role")
    if paths.systemd.is_dir():
        _start_unit(docker_host, timeout)
        return "systemd"
    return _start_without_systemd(program, docker_host, timeout, paths)


def _start_unit(docker_host: str | None, timeout: float) -> None:
    # A unit that failed too often refuses the next start even when the cause is gone.
    call("systemctl", "reset-failed", UNIT)
    # Not waiting for the unit itself, whose start may take for ever.
    started = call("systemctl", "start", "--no-block", UNIT)
    if started.returncode != 0:
        raise EngineError(f"systemctl start {UNIT} failed: {started.stderr.strip()}")
    _wait_until_it_answers(
        docker_host, timeout, _journal, alive=lambda: call("systemctl", "is-failed", "--quiet", UNIT).returncode != 0
    )


def _start_without_systemd(program: str, docker_host: str | None, timeout: float, paths: HostPaths) -> str:
    remove_stale_pid_files(paths)
    log_start = paths.log.stat().st_size if paths.log.exists() else 0
    how, alive = "init script", _always
    if not paths.init_script.exists() or call("service", "docker", "start").returncode != 0:
        how, alive = "directly", _start_directly(program, paths)
    _wait_until_it_answers(docker_host, timeout, lambda: _tail(paths.log, log_start), alive)
    return how


def _start_directly(program: str, paths: HostPaths) -> Callable[[], bool]:
    """Start the daemon in a session of its own, as its service's process; returns whether it still runs."""
    paths.log.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(paths.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640), "ab") as log:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _START_SCRIPT, "start-engine", program],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            umask=0o022,
            start_new_session=True,
            env=plain_environment(),
        )
    paths.service_pid_file.write_text(f"{process.pid}\n", encoding="ascii")
    return lambda: process.poll() is None


def _always() -> bool:
    """For a daemon that something else started and watches."""
    return True


def stop_needed(paths: HostPaths = HostPaths()) -> bool:
    """Whether the daemon, or a socket that would start it, is there. Never touches the socket itself."""
    if paths.systemd.is_dir():
        return any(call("systemctl", "is-active", "--quiet", unit).returncode == 0 for unit in UNITS)
    return daemon_pid(paths.pid_file, paths.proc) is not None


def stop(timeout: float, paths: HostPaths = HostPaths()) -> None:
    """Stop the daemon and with it its containers. Raises when it is still there after ``timeout`` seconds."""
    if paths.systemd.is_dir():
        stopped = call("systemctl", "stop", *UNITS)
        if stopped.returncode != 0:
            raise EngineError(f"systemctl stop {' '.join(UNITS)} failed: {stopped.stderr.strip()}\n{_journal()}")
        return
    pid = daemon_pid(paths.pid_file, paths.proc)
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while daemon_pid(paths.pid_file, paths.proc) == pid:
        if time.monotonic() > deadline:
            raise EngineError(
                f"the engine (process {pid}) did not stop within {timeout:.0f} s", "Stop its containers first"
            )
        time.sleep(_POLL)
    paths.service_pid_file.unlink(missing_ok=True)


def restart(docker_host: str | None, timeout: float, paths: HostPaths = HostPaths()) -> None:
    """Stop the system's daemon and start it anew. Raises like ``stop`` and ``start``."""
    stop(timeout, paths)
    start(docker_host, timeout, paths)


def reload(docker_host: str | None, timeout: float, paths: HostPaths = HostPaths()) -> None:
    """Let the running daemon take its configuration anew; raises when it does not within ``timeout`` seconds."""
    pid = daemon_pid(paths.pid_file, paths.proc)
    if pid is None:
        raise EngineError(f"{paths.pid_file} names no running engine to reload")
    identity = identify(docker_host)
    moment = time.time()
    os.kill(pid, signal.SIGHUP)
    deadline = time.monotonic() + timeout
    while not reloaded_since(identity, moment):
        if time.monotonic() > deadline:
            raise EngineError(f"the engine did not take the configuration within {timeout:.0f} s", "Look at its log")
        time.sleep(_POLL)


def reload_units() -> None:
    """Let systemd read its units anew."""
    done = call("systemctl", "daemon-reload")
    if done.returncode != 0:
        raise EngineError(f"systemctl daemon-reload failed: {done.stderr.strip()}")


def refusal(configuration: bytes) -> str | None:
    """Why the installed daemon refuses ``configuration`` (of ``daemon.json``); None if it does not or can't tell.

    Daemons check a configuration without starting since version 23.
    """
    program = daemon_program()
    if program is None:
        return None
    with NamedTemporaryFile(prefix="agentbox-daemon-", suffix=".json") as file:
        file.write(configuration)
        file.flush()
        checked = call(program, "--validate", f"--config-file={file.name}")
        said = checked.stderr.strip().replace(file.name, "it")
    if checked.returncode == 0 or "unknown flag: --validate" in said:
        return None
    return said


def life(paths: HostPaths = HostPaths()) -> str | None:
    """What tells this life of the daemon from the next: its process and when that started; None: it does not run."""
    pid = daemon_pid(paths.pid_file, paths.proc)
    if pid is None:
        return None
    # The program's name, which may hold anything, ends at the last parenthesis (proc(5)).
    fields = (paths.proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return f"{pid}:{fields[_START_TIME]}"


def data(paths: HostPaths = HostPaths()) -> list[Path]:
    """Directories with images, containers and volumes, as far as they hold anything.

    Containerd's counts only where nobody but Docker uses it: it may hold the containers of others.
    """
    containerd = shutil.which("containerd", path=plain_environment()["PATH"])
    shared = containerd is not None and owning_package(containerd) != UPSTREAM_CONTAINERD
    directories = [paths.data, *([] if shared else [paths.containerd_data])]
    return [directory for directory in directories if directory.is_dir() and any(directory.iterdir())]


def remove_data(directories: Iterable[Path]) -> None:
    """Remove what ``directories`` hold. They themselves stay, because they may be file systems of their own."""
    for directory in directories:
        for entry in sorted(directory.iterdir()):
            remove_tree(str(entry))


def daemon_pid(pid_file: Path, proc: Path = Path("/proc")) -> int | None:
    """The process a pid file names, if it is a running engine and not another program that got the number later."""
    pid = _recorded_pid(pid_file)
    return pid if pid is not None and _program_name(pid, proc) == DAEMON_NAME else None


def remove_stale_pid_files(paths: HostPaths = HostPaths()) -> None:
    """Remove the pid files of killed daemons.

    The daemon itself only asks whether the number is in use, by whatever program, and then refuses to start; the
    same goes for the containerd it would start.
    """
    for pid_file, name in (
        (paths.pid_file, DAEMON_NAME),
        (paths.service_pid_file, DAEMON_NAME),
        (paths.containerd_pid_file, "containerd"),
    ):
        pid = _recorded_pid(pid_file)
        if pid is None or _program_name(pid, paths.proc) != name:
            pid_file.unlink(missing_ok=True)


def _recorded_pid(pid_file: Path) -> int | None:
    try:
        return int(pid_file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _program_name(pid: int, proc: Path) -> str | None:
    """Name of the program that a process runs, or None for a process that is gone or a zombie."""
    try:
        target = Path.readlink(proc / str(pid) / "exe")
    except OSError:
        return None
    return target.name.removesuffix(" (deleted)")


def _wait_until_it_answers(
    docker_host: str | None, timeout: float, log: Callable[[], str], alive: Callable[[], bool]
) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            identify(docker_host)
        except EngineUnreachableError as error:
            reason = error
        else:
            return
        if not alive():
            raise EngineError(f"the engine ended right after its start. The last lines of its log:\n{log()}")
        if time.monotonic() > deadline:
            raise EngineError(
                f"the engine did not answer within {timeout:.0f} s ({reason.message}). "
                f"The last lines of its log:\n{log()}"
            )
        time.sleep(_POLL)


def _journal() -> str:
    answer = call("journalctl", "--unit", UNIT, "--lines", str(LOG_LINES), "--no-pager", "--output", "cat")
    return answer.stdout.strip()


def _tail(log: Path, offset: int) -> str:
    """The last lines of what a log got after ``offset`` bytes."""
    with log.open("rb") as stream:
        stream.seek(offset)
        lines = stream.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-LOG_LINES:])
