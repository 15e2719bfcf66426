"""Making a box anew without ever losing it: the journal of a recreation, and how the next run takes it up.

The old container is set aside under another name, the new one started, and only when that works the old one goes.
Until the journal says ``committed`` everything is put back; from then on the rest is finished.
"""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ._engine import Engine
from ._errors import AgentboxError, EngineError, StateError
from ._health import plain
from ._naming import LABEL_INSTANCE, LABEL_MANAGED, BoxPaths
from ._payload import STOP_SECONDS
from ._progress import Report
from ._state import File, json_file, read_file, remove_file, write_file

ASIDE = ".old"  # no box name holds a dot, so no box can ever want this name
STABLE_SECONDS = 3.0  # a container without a health check has to run that long
HEALTH_SECONDS = 180.0  # how long a new container may take until it is healthy, unless told otherwise
CHECK_SECONDS = 5.0
_CHECK_BYTES = 64 << 10
_SHOWN = 1000  # characters of a container's output
_POLL = 1.0


@dataclass(frozen=True)
class Swap:
    """One recreation. ``previous`` maps the paths of files to their old content and mode, or to None for new ones."""

    container: str
    old: str  # id of the container that is replaced
    was_running: bool
    previous: Mapping[str, tuple[str, int] | None]
    committed: bool = False

    def restores(self, path: str) -> bool:
        """Whether it has to be taken back, and that puts the old content of ``path`` in place."""
        return not self.committed and path in self.previous

    def describe(self) -> str:
        return f"{'finish' if self.committed else 'take back'} the interrupted recreation of {self.container}"


def journal_path(paths: BoxPaths) -> str:
    return f"{paths.directory}/swap.json"


def pending(paths: BoxPaths) -> Swap | None:
    """The recreation that an earlier run did not get through with.

    Raises ``StateError`` for a journal that says nothing: which of two containers counts is for people to tell then.
    """
    path = journal_path(paths)
    content = read_file(path)
    if content is None:
        return None
    try:
        return parse(json.loads(content))
    except ValueError as error:
        raise StateError(
            f"{path} is damaged, the journal of an interrupted recreation",
            f"A container whose name ends with {ASIDE} is the old one: give the right one the box's name, remove the "
            "other and the journal",
        ) from error


def parse(value: object) -> Swap:
    """A journal's content; ``ValueError`` when it is none."""
    match value:
        case {
            "container": str(container),
            "old": str(old),
            "was_running": bool(was_running),
            "previous": dict(previous),
            "committed": bool(committed),
        } if container and old:
            before = {str(path): _content_and_mode(found) for path, found in previous.items()}
            return Swap(container, old, was_running, before, committed)
    raise ValueError("no journal")


def _content_and_mode(value: object) -> tuple[str, int] | None:
    match value:
        case None:
            return None
        case [str(content), int(mode)]:
            return content, mode
    raise ValueError("neither nothing nor content and mode")


def live_container(engine: Engine, name: str, swap: Swap | None) -> dict[str, Any] | None:
    """The container that counts as the box: with an unfinished recreation the old one, whatever its name is now."""
    if swap and not swap.committed:
        old = engine.inspect_container(swap.old)
        if old:
            return old
    return engine.inspect_container(name)


def recreate(
    engine: Engine,
    paths: BoxPaths,
    container: str,
    live: Mapping[str, Any],
    *,
    files: tuple[File, ...],
    create: Callable[[], str],
    wait: float | None,
    report: Report,
) -> None:
    """Replace ``live`` by what ``create`` makes (it returns the new id); ``files`` go with the new container.

    The new container is started and has to be healthy within ``wait`` seconds; with None it stays stopped.
    ``container`` is its name; ``live`` may have been read while it was set aside under another, and stopped. Files
    hold no secret: the journal keeps what they held before.
    """
    previous = {file.path: _previous(file.path) for file in files}
    now = engine.inspect_container(live["Id"]) or live
    swap = Swap(container, live["Id"], bool(now["State"].get("Running")), previous)
    _write(paths, swap)
    try:
        _replace(engine, swap, files, create, wait=wait, report=report)
    except AgentboxError as error:
        report(f"{container}: putting the old container back")
        take_back(engine, paths, swap)
        raise EngineError(f"{error.message}; the old container is back", error.hint) from error
    committed = replace(swap, committed=True)
    _write(paths, committed)
    finish(engine, paths, committed)


def _replace(
    engine: Engine,
    swap: Swap,
    files: tuple[File, ...],
    create: Callable[[], str],
    *,
    wait: float | None,
    report: Report,
) -> None:
    report(f"{swap.container}: setting the old container aside; what runs in its panes ends")
    with engine.doing(f"set container {swap.container} aside"):
        engine.client.rename(swap.old, f"{swap.container}{ASIDE}")
        engine.client.stop(swap.old, timeout=STOP_SECONDS)
    for file in files:
        write_file(file)
    new = create()
    if wait is not None:
        with engine.doing(f"start container {swap.container}"):
            engine.client.start(new)
        report(f"{swap.container}: waiting until the new container works")
        wait_until_works(engine, new, swap.container, wait)


def wait_until_works(engine: Engine, container: str, name: str, wait: float) -> None:
    """Wait until a started container passes its health check; ``EngineError`` says why it does not in ``wait`` seconds.

    The check is run here too: the engine lets a whole interval pass before it does.
    """
    begin = time.monotonic()
    while True:
        found = engine.inspect_container(container)
        if not found or not found["State"]["Running"] or found.get("RestartCount"):
            reason = f"{explain_exit(found)}{last_lines(engine, container)}"
            raise EngineError(f"container {name} does not stay up: {reason}")
        health = (found["State"].get("Health") or {}).get("Status") or "none"
        if health == "unhealthy":
            raise EngineError(f"container {name} is unhealthy{last_lines(engine, container)}")
        seconds = time.monotonic() - begin
        if health == "healthy" or (health == "none" and seconds >= STABLE_SECONDS):
            return
        if health == "starting" and _passes_check(engine, found):
            return
        if seconds >= wait:
            raise EngineError(f"container {name} is not healthy after {wait:.0f} s{last_lines(engine, container)}")
        time.sleep(_POLL)


def _passes_check(engine: Engine, found: Mapping[str, Any]) -> bool:
    kind, *command = found["Config"]["Healthcheck"]["Test"]
    if kind != "CMD":
        return False
    try:
        return engine.run(found["Id"], command, timeout=CHECK_SECONDS, most=_CHECK_BYTES)[0] == 0
    except EngineError:
        return False  # it just ended, or is busy; the next look at it tells


def explain_exit(found: Mapping[str, Any] | None) -> str:
    """Why a container ended, in words; 137 is told apart into out of memory and killed."""
    if not found:
        return "it is gone"
    state = found["State"]
    if state.get("Running"):
        return "it ended and was started again"
    code = int(state.get("ExitCode") or 0)
    if state.get("OOMKilled"):
        return f"out of memory (exit code {code})"
    if state.get("Error"):
        return f"{state['Error']} (exit code {code})"
    killed = 128
    return f"killed by signal {code - killed} (exit code {code})" if code > killed else f"exit code {code}"


def last_lines(engine: Engine, container: str) -> str:
    """The end of a container's output, safe to print in an error message; empty when there is none."""
    with engine.doing("read a container's output"):
        output = engine.client.logs(container, tail=5, stdout=True, stderr=True)
    text = plain(bytes(output).decode(errors="replace"), _SHOWN)
    return f"; its last output: {text}" if text else ""


def resume(engine: Engine, paths: BoxPaths, swap: Swap) -> None:
    """End an interrupted recreation one way or the other."""
    if swap.committed:
        finish(engine, paths, swap)
    else:
        take_back(engine, paths, swap)


def finish(engine: Engine, paths: BoxPaths, swap: Swap) -> None:
    """Remove the old container; the new one works."""
    engine.remove_container(swap.old)
    remove_file(journal_path(paths))


def take_back(engine: Engine, paths: BoxPaths, swap: Swap) -> None:
    """Put the old container and its files back in place. Each step may have been done already."""
    old = engine.inspect_container(swap.old)
    if old:
        _remove_successor(engine, swap, old)
        for path, before in swap.previous.items():
            if before:
                write_file(File(path, before[0].encode(), before[1]))
            elif not _is_mounted(path, old):  # what it mounts was lost, and it would not start without
                remove_file(path)
        with engine.doing(f"put container {swap.container} back"):
            if old["Name"] != f"/{swap.container}":
                # A stop that a killed run had asked for may be under way still; this waits for its end.
                engine.client.stop(swap.old, timeout=STOP_SECONDS)
                engine.client.rename(swap.old, swap.container)
            if swap.was_running:
                engine.client.start(swap.old)
    remove_file(journal_path(paths))


def _is_mounted(path: str, container: Mapping[str, Any]) -> bool:
    sources = [str(mount["Source"]) for mount in container["HostConfig"].get("Mounts") or []]
    return any(path == source or path.startswith(f"{source}/") for source in sources)


def _remove_successor(engine: Engine, swap: Swap, old: Mapping[str, Any]) -> None:
    successor = engine.inspect_container(swap.container)
    if not successor or successor["Id"] == swap.old:
        return
    labels, ours = (container["Config"].get("Labels") or {} for container in (successor, old))
    if labels.get(LABEL_MANAGED) == "true" and labels.get(LABEL_INSTANCE) == ours.get(LABEL_INSTANCE):
        engine.remove_container(successor["Id"])


def _write(paths: BoxPaths, swap: Swap) -> None:
    write_file(json_file(journal_path(paths), asdict(swap), 0o600))


def _previous(path: str) -> tuple[str, int] | None:
    content = read_file(path)
    if content is None:
        return None
    return content.decode(), stat.S_IMODE(Path(path).stat().st_mode)
