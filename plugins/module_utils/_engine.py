"""The one place where the engine is reached.

``connect()`` finds out what stands between us and the engine, tells absent, stopped, denied and hanging apart, and
negotiates the API version. The returned ``Engine`` holds docker SDK's low-level client; callers wrap every use of
it in ``engine.doing("create container x")`` so that a failure says what was tried on what.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import shutil
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
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
    EngineUnsupportedError,
)

DEFAULT_HOST = "unix:///var/run/docker.sock"
SYSTEM_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")
MINIMUM_API = (1, 41)
# The newest API whose payloads were tried; a newer engine is asked to speak this one if it still does.
NEWEST_API = (1, 51)
PROBE_TIMEOUT = 10.0  # seconds for an engine to answer GET /version
CALL_TIMEOUT = 120  # seconds for one ordinary call
_EXIT_POLL = 0.05  # seconds

# Shared by every module; plugins/doc_fragments/engine.py documents it.
ENGINE_OPTIONS: dict[str, dict[str, Any]] = {
    "docker_host": {"type": "str", "required": False},
    "engine_absent": {"type": "str", "choices": ["fail", "predict"], "default": "fail"},
}


@dataclass(frozen=True)
class EngineIdentity:
    """What answers on the socket."""

    host: str
    api: str
    version: str
    podman: bool


class Engine:
    """An engine that answered. ``client`` is docker SDK's ``APIClient``."""

    def __init__(self, client: Any, identity: EngineIdentity) -> None:
        self.client = client
        self.identity = identity

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Translate everything that can go wrong inside into an ``EngineError`` naming ``what``."""
        import docker.errors
        import requests.exceptions

        try:
            yield
        except docker.errors.APIError as error:
            raise EngineError(f"{what}: {error.explanation or error}") from error
        except requests.exceptions.Timeout as error:
            raise EngineTimeoutError(f"{what}: no answer within {CALL_TIMEOUT} s") from error
        except (
            docker.errors.DockerException,
            requests.exceptions.RequestException,
            http.client.HTTPException,
            OSError,
        ) as error:
            raise EngineError(f"{what}: {error}") from error

    def info(self) -> dict[str, Any]:
        """Answer of ``GET /info``."""
        with self.doing("read the engine's properties"):
            result: dict[str, Any] = self.client.info()
        return result

    def inspect_container(self, name: str) -> dict[str, Any] | None:
        """Answer of ``inspect``, or None when there is no such container."""
        import docker.errors

        with self.doing(f"inspect container {name}"):
            try:
                result: dict[str, Any] = self.client.inspect_container(name)
            except docker.errors.NotFound:
                return None
        return result

    def inspect_image(self, reference: str) -> dict[str, Any] | None:
        """Answer of ``inspect``, or None when there is no such image."""
        import docker.errors

        with self.doing(f"inspect image {reference}"):
            try:
                result: dict[str, Any] = self.client.inspect_image(reference)
            except docker.errors.NotFound:
                return None
        return result

    def run(self, container: str, argv: Sequence[str], *, timeout: float, most: int) -> tuple[int, bytes]:
        """Run ``argv`` in a running container: its exit code and the first ``most`` bytes of its standard output.

        Raises ``EngineTimeoutError`` when it has not ended after ``timeout`` seconds; the process itself is left to
        the container, so let ``argv`` bound its own time. Raises ``EngineError`` when it prints ``most`` bytes or more:
        what was cut off is no answer, however the process ended.
        """
        what = f"run {argv[0]} in {container}"
        deadline = time.monotonic() + timeout
        with self.doing(what):
            process = self.client.exec_create(container, list(argv), stderr=False)["Id"]
            try:
                output = self._output(process, deadline, most)
                if len(output) >= most:
                    raise EngineError(f"{what}: cut off after {most} bytes of output")
                return self._exit_code(process, deadline), output
            except TimeoutError as error:
                raise EngineTimeoutError(f"{what}: no end within {timeout:.0f} s") from error

    def _exit_code(self, process: str, deadline: float) -> int:
        """Exit code of an exec whose output has ended. The engine closes the output a moment before it knows."""
        while True:
            code = self.client.exec_inspect(process)["ExitCode"]
            if code is not None:
                return int(code)
            if time.monotonic() >= deadline:
                raise TimeoutError
            time.sleep(_EXIT_POLL)

    def _output(self, process: str, deadline: float, most: int) -> bytes:
        """Read the frames of an exec's output. The SDK's own reader knows no deadline."""
        connection = _UnixConnection(_socket_path(self.identity.host))
        try:
            body = json.dumps({"Detach": False, "Tty": False})
            path = f"/v{self.identity.api}/exec/{process}/start"
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            sock = connection.sock  # the connection lets go of it when the answer ends with the stream
            answer = connection.getresponse()
            if answer.status != http.HTTPStatus.OK:
                raise EngineError(f"the engine refused to start it: {answer.read(most).decode('utf-8', 'replace')}")
            return _standard_output(answer, sock, deadline, most)
        finally:
            connection.close()

    def close(self) -> None:
        self.client.close()


def engine_host(option: str | None, environ: Mapping[str, str]) -> str:
    """The engine's address: option, else ``DOCKER_HOST``, else the system's socket."""
    return option or environ.get("DOCKER_HOST") or DEFAULT_HOST


def identify(option: str | None = None, environ: Mapping[str, str] = os.environ) -> EngineIdentity:
    """Find out what answers on the engine's socket, with nothing but the socket: needs no docker SDK.

    Raises like ``connect``.
    """
    host = engine_host(option, environ)
    version = _probe(_socket_path(host))
    components = [str(part.get("Name", "")) for part in version.get("Components") or []]
    return EngineIdentity(
        host=host,
        api=negotiate(str(version.get("ApiVersion", "")), str(version.get("MinAPIVersion", ""))),
        version=str(version.get("Version", "unknown")),
        podman=any("podman" in name.lower() for name in components),
    )


def connect(option: str | None = None, environ: Mapping[str, str] = os.environ) -> Engine:
    """Reach the engine.

    Raises a subclass of ``EngineUnreachableError`` when it does not answer, ``EngineUnsupportedError`` for a remote
    address or an engine below API 1.41.
    """
    identity = identify(option, environ)
    try:
        import docker
    except ImportError as error:
        raise EngineError("Python's docker library is missing", "Install the distribution's python3-docker") from error
    client = docker.APIClient(
        base_url=f"unix://{_socket_path(identity.host)}", version=identity.api, timeout=CALL_TIMEOUT
    )
    return Engine(client, identity)


def connect_if_installed(option: str | None, *, may_be_absent: bool) -> Engine | None:
    """As ``connect``; None where no engine is installed and that ``may_be_absent``."""
    try:
        return connect(option)
    except EngineAbsentError:
        if may_be_absent:
            return None
        raise


def negotiate(newest: str, oldest: str) -> str:
    """The API version to speak with an engine that offers ``oldest`` to ``newest``.

    An engine whose own range is inconsistent (oldest above newest, seen in community.docker#1191) gets its newest.
    """
    try:
        high = _api(newest)
        low = _api(oldest) if oldest else MINIMUM_API
    except ValueError:
        raise EngineError(f"the engine names no usable API version ({newest!r}, minimum {oldest!r})") from None
    if high < MINIMUM_API:
        raise EngineUnsupportedError(
            f"the engine speaks API {newest}, Agentbox needs at least {_text(MINIMUM_API)}",
            "Upgrade the engine to 20.10 or newer",
        )
    return _text(max(min(high, NEWEST_API), min(low, high)))


def _api(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _text(api: tuple[int, int]) -> str:
    return f"{api[0]}.{api[1]}"


def _socket_path(host: str) -> str:
    scheme, separator, rest = host.partition("://")
    if scheme == "unix" and separator and rest.startswith("/"):
        return rest
    raise EngineUnsupportedError(
        f"DOCKER_HOST {host} is not a local socket; boxes mount directories of the engine's own machine",
        "Use unix:///path/to/docker.sock, or run Agentbox on that machine (ansible_host)",
    )


def _probe(path: str) -> dict[str, Any]:
    """Ask ``GET /version`` with nothing but the socket, because its errors are exact and its timeout is ours."""
    connection = _UnixConnection(path)
    try:
        connection.request("GET", "/version")
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise EngineError(f"the engine at {path} answered {answer.status} to GET /version")
        version = json.loads(body)
    except TimeoutError as error:
        raise EngineTimeoutError(
            f"the engine at {path} did not answer within {PROBE_TIMEOUT:.0f} s", "Look at its log, restart it"
        ) from error
    except OSError as error:
        raise _unreachable(path, error) from error
    except (http.client.HTTPException, ValueError) as error:
        raise EngineError(f"what listens at {path} is no container engine: {error}") from error
    finally:
        connection.close()
    if not isinstance(version, dict):
        raise EngineError(f"what listens at {path} is no container engine")
    return version


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


# A frame: stream number (1 is standard output), three zeros, length.
_FRAME = struct.Struct(">BxxxL")
_STANDARD_OUTPUT = 1


def _standard_output(stream: http.client.HTTPResponse, sock: socket.socket, deadline: float, most: int) -> bytes:
    """Up to ``most`` bytes of what an exec prints. Raises ``TimeoutError`` after ``deadline`` (monotonic seconds)."""

    def read(size: int) -> bytes:
        found = b""
        while len(found) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
            part = stream.read1(size - len(found))
            if not part:
                break
            found += part
        return found

    output = b""
    while len(output) < most:
        header = read(_FRAME.size)
        if len(header) < _FRAME.size:
            break
        kind, length = _FRAME.unpack(header)
        part = read(min(length, most - len(output)))
        if kind == _STANDARD_OUTPUT:
            output += part
    return output


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PROBE_TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
