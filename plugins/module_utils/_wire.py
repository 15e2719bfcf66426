"""Requests to the engine over its socket, with nothing but the standard library.

Its errors are exact and its timeouts are ours. ``_engine.py`` and ``_exec.py`` alone use it.
"""

from __future__ import annotations

import errno
import http.client
import json
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._errors import (
    EngineAbsentError,
    EngineDeniedError,
    EngineError,
    EngineStoppedError,
    EngineTimeoutError,
    EngineUnreachableError,
)

SYSTEM_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")


class RefusedError(EngineError):
    """The engine answered a request with an error; ``status`` is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Address:
    """A socket, the API version spoken there, and how many seconds an answer may take."""

    path: str
    api: str
    timeout: float


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(address: Address, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    """The JSON that the engine answers. Raises ``RefusedError``, or what ``answering`` makes of no answer."""
    connection = UnixConnection(address.path, address.timeout)
    try:
        with answering(address.path, address.timeout):
            return json.loads(accepted(send(connection, address, method, path, body)).read())
    finally:
        connection.close()


class Connections:
    """Connections to one engine that are kept for the next question, as many as there were questions at once.

    A question over a kept one takes about a millisecond less of the processor than through docker SDK.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: list[UnixConnection] = []  # taken and given back in one step each, so threads may share it

    def get(self, path: str) -> Any:
        """The JSON that the engine answers to ``GET path``. Raises like ``ask``."""
        address = self._address
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = UnixConnection(address.path, address.timeout)
        try:
            with answering(address.path, address.timeout):
                found = json.loads(accepted(self._send(connection, path)).read())
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return found

    def _send(self, connection: UnixConnection, path: str) -> http.client.HTTPResponse:
        kept = connection.sock is not None
        try:
            return send(connection, self._address, "GET", path)
        except ConnectionError:
            if not kept:
                raise
            connection.close()  # the engine has closed it meanwhile, so it did not hear the question
            return send(connection, self._address, "GET", path)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


def send(
    connection: UnixConnection, address: Address, method: str, path: str, body: Mapping[str, Any] | None = None
) -> http.client.HTTPResponse:
    """Send one request and wait until its answer begins."""
    content = None if body is None else json.dumps(body)
    connection.request(method, f"/v{address.api}{path}", content, {"Content-Type": "application/json"})
    return connection.getresponse()


def accepted(answer: http.client.HTTPResponse) -> http.client.HTTPResponse:
    """``answer``, unless it is an error: then ``RefusedError`` with the engine's own words."""
    if answer.status < http.HTTPStatus.BAD_REQUEST:
        return answer
    text = answer.read().decode("utf-8", "replace").strip()
    try:
        text = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        text = text or f"answered {answer.status}"
    raise RefusedError(text, answer.status)


@contextmanager
def answering(path: str, timeout: float) -> Iterator[None]:
    """Translate everything that keeps an engine from answering inside into an ``EngineError`` naming ``path``."""
    try:
        yield
    except TimeoutError as error:
        raise EngineTimeoutError(
            f"the engine at {path} did not answer within {timeout:.0f} s", "Look at its log, restart it"
        ) from error
    except OSError as error:
        raise _unreachable(path, error) from error
    except (http.client.HTTPException, ValueError) as error:
        raise EngineError(f"what listens at {path} is no container engine: {error}") from error


def _unreachable(path: str, error: OSError) -> EngineUnreachableError:
    if error.errno in (errno.EACCES, errno.EPERM):
        return EngineDeniedError(
            f"permission denied on the engine's socket {path}",
            "Run as root or through sudo, or join the socket's group",
        )
    if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR):
        # A removed engine leaves its socket behind, so at the system's address only a daemon program counts.
        left_behind = error.errno == errno.ECONNREFUSED and path not in SYSTEM_SOCKETS
        if left_behind or daemon_program():
            return EngineStoppedError(f"nothing listens on the engine's socket {path}", "Start the engine")
        return EngineAbsentError(
            f"no engine is installed (nothing listens on {path}, no dockerd)", "Run `agentbox up` or the docker role"
        )
    return EngineUnreachableError(f"cannot reach the engine at {path}: {error}")


def daemon_program() -> str | None:
    """Path of the installed daemon, or None. Its places are asked too: PATH of a non-login shell may lack sbin."""
    places = ("/usr/sbin/dockerd", "/usr/bin/dockerd", "/usr/local/bin/dockerd")
    return shutil.which("dockerd") or next((place for place in places if Path(place).exists()), None)
