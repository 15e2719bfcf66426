"""A program in a running container: its input, its outputs kept apart, its exit code.

The SDK's own way can't close a program's input, and gives up on one that says nothing for longer than its timeout.
Here a program may take as long as it likes unless there is a deadline. What passes through is never decoded.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO
from urllib.parse import quote

from . import _wire
from ._errors import EngineError, EngineUnreachableError
from ._wire import Address

Sink = Callable[[bytes], object]

_STDOUT, _STDERR = 1, 2
_FRAME = struct.Struct(">BxxxL")  # number of the stream, three zeros, length
_CHUNK = 64 << 10  # bytes
_BROKEN = "the engine closed the connection in the middle of the output"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between two questions for an exit code


def execute(
    address: Address,
    container: str,
    argv: Sequence[str],
    *,
    stdout: Sink,
    stderr: Sink | None = None,
    stdin: BinaryIO | None = None,
    deadline: float | None = None,
) -> int:
    """Run ``argv`` as the container's own user: its exit code, once it has ended.

    The sinks get its outputs piece by piece; without ``stdin`` it reads nothing. Raises ``TimeoutError`` when it has
    not ended by ``deadline`` (monotonic seconds), ``_wire.RefusedError`` when the engine does not start it, other
    subclasses of ``EngineError`` when the engine stops answering, and whatever a sink or ``stdin`` raises. The program
    itself is then left to the container.
    """
    request = {
        "Cmd": list(argv),
        "AttachStdin": stdin is not None,
        "AttachStdout": True,
        "AttachStderr": stderr is not None,
    }
    process = str(_wire.ask(address, "POST", f"/containers/{quote(container, safe='')}/exec", request)["Id"])
    sinks = {_STDOUT: stdout, **({_STDERR: stderr} if stderr else {})}
    _attach(address, process, sinks, stdin, deadline)
    return _exit_code(address, process, deadline)


def _attach(
    address: Address, process: str, sinks: Mapping[int, Sink], stdin: BinaryIO | None, deadline: float | None
) -> None:
    """Start an exec and stay with it until its outputs end."""
    connection = _wire.UnixConnection(address.path, address.timeout)
    try:
        with _wire.answering(address.path, address.timeout):
            connection.connect()
        sock = connection.sock
        # The connection closes it where the answer ends, also under who still sends; a file on it keeps it open.
        with sock.makefile("rb", 0):
            with _wire.answering(address.path, address.timeout):
                start = {"Detach": False, "Tty": False}
                answer = _wire.accepted(_wire.send(connection, address, "POST", f"/exec/{process}/start", start))
            sock.settimeout(None)
            # Not before the answer has begun: the engine loses what comes together with the request.
            with _feeding(sock, stdin):
                _copy(answer, sock, sinks, deadline)
    finally:
        connection.close()


@contextmanager
def _feeding(sock: socket.socket, stdin: BinaryIO | None) -> Iterator[None]:
    """Send ``stdin`` while the body of the statement reads, so that neither side waits for the other for ever."""
    if stdin is None:
        yield
        return
    from concurrent.futures import ThreadPoolExecutor  # comes with all of logging, and few programs read anything

    with ThreadPoolExecutor(1) as pool:
        fed = pool.submit(_feed, sock, stdin)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # frees a feeder that nobody reads from any more
                sock.shutdown(socket.SHUT_RDWR)
        fed.result()


def _feed(sock: socket.socket, stdin: BinaryIO) -> None:
    try:
        while chunk := stdin.read(_CHUNK):
            try:
                sock.sendall(chunk)
            except OSError:
                return  # the program ended without reading all of it, as it may
    except BaseException:
        sock.shutdown(socket.SHUT_RDWR)  # else the program would wait for more
        raise
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)


def _copy(
    stream: http.client.HTTPResponse, sock: socket.socket, sinks: Mapping[int, Sink], deadline: float | None
) -> None:
    """Hand the frames of ``stream`` to their sinks until it ends."""

    def read(size: int) -> bytes:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
        try:
            return stream.read1(size)
        except TimeoutError:
            raise
        except ConnectionResetError:
            return b""  # how a socket ends whose other side closes it with input unread
        except (OSError, http.client.HTTPException) as error:
            raise EngineUnreachableError(f"the connection to the engine broke: {error}") from error

    header = b""
    while part := read(_FRAME.size - len(header)):
        header += part
        if len(header) < _FRAME.size:
            continue
        kind, left = _FRAME.unpack(header)
        while left:
            part = read(min(left, _CHUNK))
            if not part:
                raise EngineError(_BROKEN)
            sinks[kind](part)
            left -= len(part)
        header = b""
    if header:
        raise EngineError(_BROKEN)


def _exit_code(address: Address, process: str, deadline: float | None) -> int:
    """Exit code of an exec whose outputs have ended, which a program may close long before it ends itself."""
    pause = _FIRST_PAUSE
    while True:
        found = _wire.ask(address, "GET", f"/exec/{process}/json")
        if not found["Running"] and found["ExitCode"] is not None:
            return int(found["ExitCode"])
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
