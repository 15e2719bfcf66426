"""Following programs and streams that take long, line by line, without ever falling silent."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, TypeVar

IDLE_SECONDS = 8.0  # below the 10 s within which a user is promised a sign of life

Item = TypeVar("Item", str, bytes)
Idle = Callable[[], None]


def pump(
    stream: Iterable[Item],
    observe: Callable[[Item], None],
    idle: Idle,
    interval: float = IDLE_SECONDS,
    most_waiting: int = 0,
) -> None:
    """Hand every item of ``stream`` to ``observe``; call ``idle`` after each ``interval`` seconds without one.

    ``most_waiting`` bounds how many items are read ahead (0: no bound). Returns at the end of ``stream``. An exception
    of ``stream``, ``observe`` or ``idle`` is raised here; the last two are the way to give up on a stream that hangs.
    """
    inbox: queue.Queue[Item | Exception | None] = queue.Queue(most_waiting)

    def read() -> None:
        try:
            for item in stream:
                inbox.put(item)
        except Exception as error:  # whatever it is, it belongs to the thread that asked
            inbox.put(error)
        else:
            inbox.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            item = inbox.get(timeout=interval)
        except queue.Empty:
            idle()
            continue
        if item is None:
            return
        if isinstance(item, Exception):
            raise item
        observe(item)


def run(
    argv: Sequence[str],
    observe: Callable[[str], None],
    idle: Idle,
    *,
    environ: Mapping[str, str] | None = None,
    stdin: IO[bytes] | None = None,
) -> int:
    """Run a program to its end, its output and errors going to ``observe`` line by line; the exit status.

    The program does not outlive this call: an exception (also an interrupt) ends it.
    """
    with subprocess.Popen(
        argv,
        stdin=stdin if stdin is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environ,
    ) as process:
        try:
            pump(_text(process.stdout), observe, idle)
        except BaseException:
            process.terminate()
            raise
    return process.returncode


def _text(stream: IO[bytes] | None) -> Iterator[str]:
    for line in stream or ():
        yield line.decode("utf-8", "replace").rstrip()
