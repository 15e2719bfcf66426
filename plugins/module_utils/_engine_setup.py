"""Configuring the system's engine: gather what is there, plan, write, and have the daemon work by it.

The plan is pure. What the daemon refuses is taken back: the old files return and the engine runs as before.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _daemon, _engine_config, _engine_proxy, _forwarding, _json_text, _state
from ._engine import identify, is_rootless, properties
from ._engine_config import Course, Live, Merge, Record
from ._errors import AgentboxError, DeclarationError, EngineAbsentError, EngineError, EngineStoppedError

DAEMON_FILE = "/etc/docker/daemon.json"
RECORD_FILE = "/etc/docker/agentbox.json"
_SWITCH_ON = "switch packet forwarding on"
_RELOAD_UNITS = "reload the units"
_STEPS: dict[str, Callable[[str | None, float], None]] = {"reload": _daemon.reload, "restart": _daemon.restart}


@dataclass(frozen=True)
class Request:
    """What is wanted; ``absent``: that everything is taken back that earlier requests brought."""

    keys: Mapping[str, Any] = field(default_factory=dict)  # of daemon.json
    proxy: Mapping[str, str] = field(default_factory=dict)  # environment variables
    absent: bool = False


@dataclass(frozen=True)
class Host:
    """What is there. ``files`` has the content of each file that may change, None for those that are missing."""

    files: Mapping[str, bytes | None]
    open_files: Sequence[str]  # those of ``files`` that are for root alone and others can read
    systemd: bool
    foreign: str  # what makes the engine one that the files do not configure; empty: they do
    live: Live
    life: str | None  # of the daemon, as _daemon.life() tells it
    forwarding: bool  # is on now
    forwarding_off: bool  # some file switches it off


@dataclass(frozen=True)
class Plan:
    """What to do: ``files`` by path with their new content, None to remove; then the steps of ``course``."""

    files: Mapping[str, bytes | None] = field(default_factory=dict)
    actions: Sequence[str] = ()
    course: Course = field(default_factory=Course)
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)


FILES = (
    DAEMON_FILE,
    RECORD_FILE,
    _engine_proxy.FILE,
    _engine_proxy.DROP_IN,
    _engine_proxy.DEFAULTS,
    _forwarding.OWN_FILE,
)
_MODES = {RECORD_FILE: 0o600, _engine_proxy.FILE: 0o600}


def gather(docker_host: str | None) -> Host:
    """Look at the host. Changes nothing. Raises ``StateError`` when one of the files is a link or a directory."""
    foreign, live = _look(docker_host)
    return Host(
        files={path: _state.read_file(path) for path in FILES},
        open_files=[path for path, mode in _MODES.items() if _mode(path) not in (None, mode)],
        systemd=_daemon.HostPaths().systemd.is_dir(),
        foreign=foreign,
        live=live,
        life=_daemon.life() if live.running else None,
        forwarding=_forwarding.is_on(),
        forwarding_off=_forwarding.is_switched_off(_forwarding.texts()),
    )


def _look(docker_host: str | None) -> tuple[str, Live]:
    """``Host.foreign``, and how the engine runs."""
    stopped = Live(running=False)
    if not _daemon.is_system_host(docker_host):
        return "the engine's address is not that of the system's engine", stopped
    try:
        identity = identify(docker_host)
    except (EngineAbsentError, EngineStoppedError):
        return "", stopped
    info = properties(identity)
    if identity.podman:
        return "it is Podman that answers", stopped
    if is_rootless(info):
        return "the engine runs without root", stopped
    containers = info["ContainersRunning"] + info["ContainersPaused"]
    return "", Live(True, containers, bool(info["LiveRestoreEnabled"]))


def plan(request: Request, host: Host) -> Plan:
    """Decide what to do: nothing for another engine than the system's Docker.

    Raises ``DeclarationError`` when keys are wanted of such a one, ``AgentboxError`` when ``daemon.json`` holds no JSON
    object.
    """
    if host.foreign and not request.absent:
        if request.keys:
            raise DeclarationError(f"{host.foreign}; config is that of the system's Docker daemon")
        return Plan()
    found = _engine_config.parsed(DAEMON_FILE, host.files[DAEMON_FILE])
    record = _engine_config.recorded(_object(host.files[RECORD_FILE]))
    merged = _engine_config.merge(_text(host.files[DAEMON_FILE]), found, record.keys, request.keys)
    wanted: dict[str, bytes | None] = {
        DAEMON_FILE: _bytes(merged.text) if merged.changed else host.files[DAEMON_FILE],
        **_proxy_files(request.proxy, host),
        _forwarding.OWN_FILE: _bytes(_forwarding.OWN_TEXT if _keeps_forwarding(request, merged, host) else ""),
    }
    files = {path: content for path, content in wanted.items() if _differs(path, content, host)}
    pending = record.pending if host.life and host.life == record.life else ()
    more = {*pending, *([_engine_config.PROXY] if any(path in files for path in _PROXY_FILES) else [])}
    course = _engine_config.course(merged, more, host.live)
    new_record = Record(merged.keys, host.life if course.waiting else None, course.waiting)
    content = _bytes(_json(new_record) if new_record != Record() else "")
    if _differs(RECORD_FILE, content, host) and (files or course.steps or new_record.keys != record.keys):
        files[RECORD_FILE] = content
    before, after = _shown(merged, files, host)
    actions = _actions(merged, files, course, switch_on=_switches_on(request, merged, host))
    return Plan(files, actions, course, before, after)


def _differs(path: str, content: bytes | None, host: Host) -> bool:
    return content != host.files[path] or (content is not None and path in host.open_files)


_PROXY_FILES = (_engine_proxy.FILE, _engine_proxy.DROP_IN, _engine_proxy.DEFAULTS)


def _proxy_files(proxy: Mapping[str, str], host: Host) -> dict[str, bytes | None]:
    defaults = _text(host.files[_engine_proxy.DEFAULTS]) or ""
    block = bool(proxy) and not host.systemd
    return {
        _engine_proxy.FILE: _bytes(_engine_proxy.environment_file(proxy)),
        _engine_proxy.DROP_IN: _bytes(_engine_proxy.DROP_IN_TEXT if proxy and host.systemd else ""),
        # An empty one that is not ours stays.
        _engine_proxy.DEFAULTS: _bytes(_engine_proxy.with_block(defaults, block))
        if defaults or block
        else host.files[_engine_proxy.DEFAULTS],
    }


def _keeps_forwarding(request: Request, merged: Merge, host: Host) -> bool:
    return host.forwarding_off and _forwards(request, merged)


def _switches_on(request: Request, merged: Merge, host: Host) -> bool:
    """A daemon that does not run yet does it itself when it starts."""
    return host.live.running and not host.forwarding and _forwards(request, merged)


def _forwards(request: Request, merged: Merge) -> bool:
    return not request.absent and merged.content.get("ip-forward", True) is not False


def _actions(merged: Merge, files: Mapping[str, bytes | None], course: Course, *, switch_on: bool) -> list[str]:
    actions = [f"{'set' if key in merged.after else 'remove'} {key}" for key in merged.changed]
    actions += [f"{'remove' if files[path] is None else 'write'} {path}" for path in sorted(files)]
    actions += [_SWITCH_ON] if switch_on else []
    actions += [_RELOAD_UNITS] if _engine_proxy.DROP_IN in files else []
    return [*actions, *(f"{step} the engine" for step in course.steps)]


def _shown(merged: Merge, files: Mapping[str, bytes | None], host: Host) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a diff shows: the keys that change, and the other files without passwords."""
    before, after = {DAEMON_FILE: dict(merged.before)}, {DAEMON_FILE: dict(merged.after)}
    sides: list[tuple[dict[str, Any], Mapping[str, bytes | None]]] = [(before, host.files), (after, files)]
    for path in sorted(files):
        for side, contents in sides if path not in (DAEMON_FILE, RECORD_FILE) else []:
            side[path] = _engine_proxy.shown(_text(contents[path]) or "")
    return before, after


def apply(wanted: Plan, docker_host: str | None, timeout: float) -> None:
    """Write the files and have the daemon work by them.

    Raises ``AgentboxError`` when the daemon refuses; then the files are what they were, and the engine runs as before.
    """
    check(wanted)
    old = {path: _state.read_file(path) for path in wanted.files}
    _write(wanted.files)
    if _SWITCH_ON in wanted.actions:
        _switch_on()
    tried = ""
    try:
        if _RELOAD_UNITS in wanted.actions:
            _daemon.reload_units()
        for tried in wanted.course.steps:
            _STEPS[tried](docker_host, timeout)
    except EngineError as error:
        told = f"the engine refuses the configuration: {error}"
        try:
            _take_back(old, wanted, tried, docker_host, timeout)
        except AgentboxError as another:
            raise EngineError(f"{told}\nThe one before is back, and the engine is not: {another}") from error
        raise EngineError(f"{told}\nThe one before is back, and the engine runs") from error


def check(wanted: Plan) -> None:
    """Raise ``AgentboxError`` if the installed daemon says that it could not start with the new ``daemon.json``."""
    configuration = wanted.files.get(DAEMON_FILE)
    reason = _daemon.refusal(configuration) if configuration else None
    if reason:
        raise AgentboxError(f"{DAEMON_FILE} was left as it is, because dockerd refuses the new one: {reason}")


def _take_back(
    old: Mapping[str, bytes | None], wanted: Plan, tried: str, docker_host: str | None, timeout: float
) -> None:
    if tried == "restart" and "reload" in wanted.course.steps:
        old = {**old, DAEMON_FILE: _living_on(old[DAEMON_FILE])}
    _write(old)
    if _RELOAD_UNITS in wanted.actions:
        _daemon.reload_units()
    if tried:
        _STEPS[tried](docker_host, timeout)


def _living_on(configuration: bytes | None) -> bytes | None:
    """``configuration`` with live restore.

    Containers run, and the daemon learnt just now to let them live on. One that starts without it ends them.
    """
    return _bytes(_json_text.put(_text(configuration) or _json_text.EMPTY, ["live-restore"], True))


def _write(files: Mapping[str, bytes | None]) -> None:
    for path, content in files.items():
        if content is None:
            _state.remove_file(path)
            continue
        if not Path(path).parent.is_dir():
            _state.ensure_directory(_state.Directory(str(Path(path).parent), 0o755))
        mode, uid = _metadata(path)
        _state.write_file(_state.File(path, content, mode, uid))


def _metadata(path: str) -> tuple[int, int | None]:
    """Mode and owner: those that a file of others has, else ours."""
    found = _mode(path)
    if path in _MODES or found is None:
        return _MODES.get(path, 0o644), None
    return found, Path(path).stat().st_uid


def _mode(path: str) -> int | None:
    return stat.S_IMODE(Path(path).stat().st_mode) if Path(path).exists() else None


def _switch_on() -> None:
    try:
        _forwarding.SWITCH.write_text("1\n", encoding="ascii")
    except OSError as error:
        raise AgentboxError(
            f"cannot switch packet forwarding on ({_forwarding.SWITCH}: {error.strerror}), containers have no network",
            "Set net.ipv4.ip_forward to 1 where this host's kernel is managed",
        ) from error


def waiting_text(waiting: Sequence[str], containers: int) -> str:
    """The warning about keys that wait for a restart."""
    running = "1 container runs" if containers == 1 else f"{containers} containers run"
    return (
        f"the engine has to be restarted for {', '.join(waiting)} to count. {running} and would end, so restart it "
        "when they may, or set live-restore"
    )


def _json(record: Record) -> str:
    return json.dumps(record.as_json(), indent=1, sort_keys=True) + "\n"


def _object(content: bytes | None) -> dict[str, Any] | None:
    """The record; a damaged one is none."""
    try:
        found = json.loads(content) if content else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "surrogateescape")


def _bytes(text: str | None) -> bytes | None:
    """Content of a file; of none for no text."""
    return text.encode("utf-8", "surrogateescape") if text else None
