"""The one place where the engine is reached.

``connect()`` finds out what stands between us and the engine, tells absent, stopped, denied and hanging apart, and
negotiates the API version. The returned ``Engine`` holds docker SDK's low-level client; callers wrap every use of
it in ``engine.doing("create container x")`` so that a failure says what was tried on what.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from . import _exec, _wire
from ._errors import EngineAbsentError, EngineError, EngineTimeoutError, EngineUnsupportedError
from ._wire import Address

DEFAULT_HOST = "unix:///var/run/docker.sock"
MINIMUM_API = (1, 41)
# The newest API whose payloads were tried; a newer engine is asked to speak this one if it still does.
NEWEST_API = (1, 51)
PROBE_TIMEOUT = 10.0  # seconds for an engine to answer GET /version
CALL_TIMEOUT = 120  # seconds for one ordinary call

# Shared by every module; the plugins that reach the engine have its part of plugins/doc_fragments/engine.py.
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

    def address(self, timeout: float = CALL_TIMEOUT) -> Address:
        """Where to send requests of our own."""
        return Address(_socket_path(self.host), self.api, timeout)


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
        output = bytearray()

        def keep(part: bytes) -> None:
            output.extend(part)
            if len(output) >= most:
                raise EngineError(f"{what}: cut off after {most} bytes of output")

        address, deadline = self.identity.address(), time.monotonic() + timeout
        try:
            code = _exec.execute(address, container, argv, stdout=keep, deadline=deadline)
        except TimeoutError as error:
            raise EngineTimeoutError(f"{what}: no end within {timeout:.0f} s") from error
        except _wire.RefusedError as error:
            raise EngineError(f"{what}: {error.message}") from error
        return code, bytes(output)

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


def properties(identity: EngineIdentity) -> dict[str, Any]:
    """Answer of ``GET /info``, without the docker SDK. Raises like ``identify``."""
    found: dict[str, Any] = _wire.ask(identity.address(PROBE_TIMEOUT), "GET", "/info")
    return found


def is_rootless(info: Mapping[str, Any]) -> bool:
    """Whether the engine with these ``properties()`` runs without root, in Podman's spelling or Docker's."""
    return bool(info.get("Rootless")) or any("rootless" in str(option) for option in info.get("SecurityOptions") or [])


def reloaded_since(identity: EngineIdentity, moment: float) -> bool:
    """Whether the engine took its configuration anew since ``moment`` (seconds of the epoch).

    It tells so in an event, and only when it took all of it (moby, daemon/reload.go).
    """
    address = identity.address(PROBE_TIMEOUT)
    filters = quote(json.dumps({"type": ["daemon"], "event": ["reload"]}))
    connection = _wire.UnixConnection(address.path, address.timeout)
    try:
        with _wire.answering(address.path, address.timeout):
            path = f"/events?since={moment:.9f}&until={time.time():.9f}&filters={filters}"
            return bool(_wire.accepted(_wire.send(connection, address, "GET", path)).read().strip())
    finally:
        connection.close()


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
    """Ask ``GET /version``, whose path needs no API version."""
    connection = _wire.UnixConnection(path, PROBE_TIMEOUT)
    try:
        with _wire.answering(path, PROBE_TIMEOUT):
            connection.request("GET", "/version")
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != http.HTTPStatus.OK:
                raise EngineError(f"the engine at {path} answered {answer.status} to GET /version")
            version = json.loads(body)
    finally:
        connection.close()
    if not isinstance(version, dict):
        raise EngineError(f"what listens at {path} is no container engine")
    return version
