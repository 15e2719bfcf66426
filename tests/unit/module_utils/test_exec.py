"""Programs in containers, through a double of the engine that speaks its protocol byte by byte."""

from __future__ import annotations

import io
import json
import os
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared import _exec, _wire
from agentbox._shared._errors import EngineError, EngineTimeoutError, EngineUnreachableError

Program = Callable[[socket.socket], None]
MOST = 8 << 20  # bytes, more than any socket holds


class Engine(socketserver.ThreadingUnixStreamServer):
    """Runs ``program`` as its one exec; ``answers`` are those to further questions about it, the last for ever."""

    daemon_threads = True
    program: Program
    answers: list[dict[str, Any]]
    created: dict[str, Any]
    refusal: tuple[int, str] | None = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a program whose reader is gone."""


class Handler(socketserver.StreamRequestHandler):
    server: Engine
    connection: socket.socket

    def handle(self) -> None:
        method, path, _ = self.rfile.readline().decode().split()
        length = 0
        while line := self.rfile.readline().strip():
            name, _, value = line.decode().partition(": ")
            length = int(value) if name.lower() == "content-length" else length
        body = json.loads(self.rfile.read(length) or b"null")
        if self.server.refusal:
            self._answer(*self.server.refusal)
        elif path.endswith("/start"):
            self.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n")
            self.server.program(self.connection)
        elif method == "POST":
            self.server.created = {"path": path, **body}
            self._answer(201, json.dumps({"Id": "e1"}))
        else:
            answers = self.server.answers
            self._answer(200, json.dumps(answers.pop(0) if len(answers) > 1 else answers[0]))

    def _answer(self, status: int, text: str) -> None:
        self.connection.sendall(f"HTTP/1.1 {status} x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    server = Engine(str(tmp_path / "engine.sock"), Handler)
    server.answers = [{"Running": False, "ExitCode": 0}]
    server.program = lambda sock: None
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def frame(stream: int, content: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(content)) + content


def everything(sock: socket.socket) -> bytes:
    """What comes until the sender closes its side."""
    return b"".join(iter(lambda: sock.recv(1 << 20), b""))


def execute(engine: Engine, **more: Any) -> tuple[int, bytes, bytes]:
    stdout, stderr = io.BytesIO(), io.BytesIO()
    address = _wire.Address(str(engine.server_address), "1.41", 5.0)
    code = _exec.execute(address, "box", ["x"], stdout=stdout.write, stderr=stderr.write, **more)
    return code, stdout.getvalue(), stderr.getvalue()


def test_outputs_are_kept_apart_however_they_are_cut(engine: Engine) -> None:
    def program(sock: socket.socket) -> None:
        for byte in frame(1, b"out\x00\xff") + frame(2, b"err") + frame(1, b"") + frame(1, b"more"):
            sock.sendall(bytes([byte]))

    engine.program = program
    engine.answers = [{"Running": True, "ExitCode": None}, {"Running": False, "ExitCode": 3}]
    assert execute(engine) == (3, b"out\x00\xffmore", b"err")
    assert engine.created == {
        "path": "/v1.41/containers/box/exec",
        "Cmd": ["x"],
        "AttachStdin": False,
        "AttachStdout": True,
        "AttachStderr": True,
    }


def test_input_reaches_the_program_and_ends(engine: Engine) -> None:
    """While the program answers with as much as it gets, so that one who only sent or only read would hang."""
    content = bytes(range(256)) * (MOST // 256)

    def program(sock: socket.socket) -> None:
        while part := sock.recv(1 << 16):
            sock.sendall(frame(1, part))

    engine.program = program
    assert execute(engine, stdin=io.BytesIO(content)) == (0, content, b"")
    assert engine.created["AttachStdin"] is True


def test_empty_input_is_input_that_ends(engine: Engine) -> None:
    engine.program = lambda sock: sock.sendall(frame(1, b"[%s]" % everything(sock)))
    assert execute(engine, stdin=io.BytesIO()) == (0, b"[]", b"")


def slam(sock: socket.socket) -> None:
    """Close with what came unread, which resets the other side's connection."""
    time.sleep(0.2)
    sock.sendall(frame(2, b"no"))
    os.close(sock.detach())


def linger(sock: socket.socket) -> None:
    """End the output and keep the connection, as Docker does for up to 15 s while input stands in its way."""
    sock.sendall(frame(2, b"no"))
    sock.shutdown(socket.SHUT_WR)
    time.sleep(5)


@pytest.mark.parametrize("program", [slam, linger, lambda sock: sock.sendall(frame(2, b"no"))])
def test_a_program_may_end_without_reading_its_input(engine: Engine, program: Program) -> None:
    start = time.monotonic()
    engine.program = program
    engine.answers = [{"Running": False, "ExitCode": 1}]
    assert execute(engine, stdin=io.BytesIO(bytes(MOST))) == (1, b"", b"no")
    assert time.monotonic() - start < 3, "nobody waits for it to be read"


def test_input_that_cannot_be_read_is_the_callers_error(engine: Engine) -> None:
    """And the program does not wait for the rest of it."""

    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError("the disk is broken")

    engine.program = lambda sock: sock.sendall(frame(1, everything(sock)))
    with pytest.raises(OSError, match="the disk is broken"):
        execute(engine, stdin=Broken())


def test_an_output_that_cannot_be_kept_is_the_callers_error(engine: Engine) -> None:
    def full(part: bytes) -> None:
        raise OSError("no space left")

    engine.program = lambda sock: sock.sendall(frame(1, b"x"))
    address = _wire.Address(str(engine.server_address), "1.41", 5.0)
    with pytest.raises(OSError, match="no space left"):
        _exec.execute(address, "box", ["x"], stdout=full)


def test_silence_is_no_reason_to_give_up_but_a_deadline_is(engine: Engine) -> None:
    def program(sock: socket.socket) -> None:
        time.sleep(0.6)
        sock.sendall(frame(1, b"late"))

    engine.program = program
    stdout = io.BytesIO()
    impatient = _wire.Address(str(engine.server_address), "1.41", 0.2)
    assert _exec.execute(impatient, "box", ["x"], stdout=stdout.write) == 0
    assert stdout.getvalue() == b"late"
    with pytest.raises(TimeoutError):
        execute(engine, deadline=time.monotonic() + 0.1)


def test_a_program_that_closed_its_outputs_still_runs(engine: Engine) -> None:
    engine.answers = [{"Running": True, "ExitCode": 0}]  # Podman's spelling: a code beside Running
    with pytest.raises(TimeoutError):
        execute(engine, deadline=time.monotonic() + 0.1)


@pytest.mark.parametrize("broken", [frame(1, b"whole")[:-1], frame(1, b"")[:5]])
def test_output_that_stops_in_the_middle_is_no_answer(engine: Engine, broken: bytes) -> None:
    engine.program = lambda sock: sock.sendall(broken)
    with pytest.raises(EngineError, match="in the middle"):
        execute(engine)


def test_a_refusal_is_told_in_the_engines_words(engine: Engine) -> None:
    engine.refusal = (409, '{"message": "Container box is paused"}')
    with pytest.raises(_wire.RefusedError, match=r"^Container box is paused$") as caught:
        execute(engine)
    assert caught.value.status == 409


def test_an_engine_that_is_gone_or_hangs_is_unreachable(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachableError, match=r"none\.sock"):
        _exec.execute(_wire.Address(str(tmp_path / "none.sock"), "1.41", 5.0), "box", ["x"], stdout=print)
    hanging = tmp_path / "hang.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(hanging))
        listener.listen()
        with pytest.raises(EngineTimeoutError, match=str(hanging)):
            _exec.execute(_wire.Address(str(hanging), "1.41", 0.2), "box", ["x"], stdout=print)
