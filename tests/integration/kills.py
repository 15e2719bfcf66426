"""Runs of module ``box`` that die by SIGKILL at a chosen step, seen from outside.

A step is whatever changes something: a request to the engine, a file that is written, renamed or removed, a program
that is started. The run happens in a process of its own, in which the interpreter's audit events tell of every step
before it is taken; the module knows nothing of it.
"""

from __future__ import annotations

import http.client
import multiprocessing
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

RUN_TIMEOUT = 240.0  # seconds
# Audit events of changes to files, and where among their arguments the directory stands that the path is below of.
_CHANGES = {"os.rename": 2, "os.mkdir": 2, "os.remove": 1, "os.rmdir": 1, "os.chmod": 2, "os.chown": 3, "os.symlink": 2}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_REQUEST = re.compile(rb"(POST|PUT|DELETE) /v[0-9.]+(\S+) HTTP")
# Programs run in a box to ask for something change nothing.
_ASKING = re.compile(r"/exec$|^/exec/")
_ID = re.compile(r"[0-9a-f]{64}")

Run = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Death:
    """``steps`` until then, with the one that was not taken.

    Unless ``settled``, the engine may still do what another thread of the run had asked for.
    """

    steps: list[str]
    settled: bool


def step_of(event: str, arguments: tuple[Any, ...], below: Path) -> str | None:
    """What an audit event tells of as a step, None when nothing is changed; files count ``below`` a directory."""
    if event == "http.client.send":
        found = _REQUEST.match(bytes(arguments[1])) if isinstance(arguments[1], bytes | bytearray) else None
        path = found[2].decode() if found else ""
        return f"{found[1].decode()} {_ID.sub('ID', path)}" if found and not _ASKING.search(path) else None
    if event == "subprocess.Popen":
        return f"run {arguments[0]}"
    if event == "open":
        path, _, flags = arguments
        return f"write {path}" if flags & _WRITING and str(path).startswith(f"{below}/") else None
    if event not in _CHANGES:
        return None
    path = _resolved(arguments[0], arguments[_CHANGES[event]])
    # A file is made under another name and then renamed; its mode and owner count from there on.
    ignored = (path.endswith(".new") and event != "os.rename") or (event == "os.mkdir" and Path(path).exists())
    return f"{event.removeprefix('os.')} {path}" if path.startswith(f"{below}/") and not ignored else None


def _resolved(path: object, directory: object) -> str:
    """The whole path of what a call names, by a descriptor or below one."""
    if isinstance(path, int):
        return str(Path(f"/proc/self/fd/{path}").readlink())
    if isinstance(directory, int) and directory >= 0:
        return str(Path(f"/proc/self/fd/{directory}").readlink() / os.fsdecode(path))  # type: ignore[arg-type]
    return os.fsdecode(path)  # type: ignore[arg-type]


def steps(run: Run, below: Path) -> tuple[list[str], dict[str, Any]]:
    """Run to the end: every step that was taken, in order, and the result."""
    taken, result = _process(run, below, None, answered=True)
    assert isinstance(result, dict), taken
    return taken, result


def killed(run: Run, below: Path, at: int | str, *, answered: bool = True) -> Death:
    """Run and die before a step is taken: that of a number (from 0), or the first that holds a text.

    With ``answered`` False the step is a request that is sent, and the run dies before it has an answer.
    """
    taken, settled = _process(run, below, at, answered=answered)
    assert isinstance(settled, bool), f"the run ended before step {at}: {taken}"
    return Death(taken, settled)


def _process(
    run: Run, below: Path, at: int | str | None, *, answered: bool
) -> tuple[list[str], dict[str, Any] | bool | None]:
    """The steps, and the result or, of a run that was killed, whether all that it asked for was answered."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_body, args=(run, below, at, answered, writer))
    process.start()
    writer.close()
    taken: list[str] = []
    result: dict[str, Any] | bool | None = None
    try:
        while reader.poll(RUN_TIMEOUT):
            message = reader.recv()
            if isinstance(message, str):
                taken.append(message)
            else:
                result = message
    except EOFError:
        pass
    process.join(RUN_TIMEOUT)
    assert process.exitcode in (0, -signal.SIGKILL), f"the run ended with {process.exitcode}"
    return taken, result


def _body(run: Run, below: Path, at: int | str | None, answered: bool, told: Connection) -> None:
    """In the child: tell of every step, die at the one that was chosen."""
    count = 0
    dies_unanswered = False
    unanswered: set[int] = set()  # threads that wait for what a request changes
    one_by_one = threading.Lock()

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count, dies_unanswered
        found = step_of(event, arguments, below)
        if found is None:
            return
        with one_by_one:
            told.send(found)
            dies = count == at or (isinstance(at, str) and at in found)
            if dies and answered:
                die()
            dies_unanswered = dies_unanswered or dies
            count += 1
            if event == "http.client.send":
                unanswered.add(threading.get_ident())

    def die() -> None:
        told.send(not unanswered)
        os.kill(os.getpid(), signal.SIGKILL)

    begin = http.client.HTTPResponse.begin

    def begin_or_die(response: http.client.HTTPResponse) -> None:
        if dies_unanswered:
            die()
        begin(response)
        unanswered.discard(threading.get_ident())

    http.client.HTTPResponse.begin = begin_or_die  # type: ignore[method-assign]
    sys.addaudithook(note)
    try:
        told.send(run())
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
