"""The one place where the engine is reached.

``connect()`` finds out what stands between us and the engine, tells absent, stopped, denied and hanging apart, and
negotiates the API version. What only asks goes straight over the socket: importing docker SDK takes about as long as
asking for a hundred boxes. For all that changes something the returned ``Engine`` has the SDK's low-level client;
callers wrap every use of it in ``engine.doing("create container x")`` so that a failure says what was tried on what.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from . import _exec, _wire
from ._errors import EngineAbsentError, EngineError, EngineTimeoutError, EngineUnsupportedError
from ._wire import Address

if TYPE_CHECKING:
    from concurrent.futures import Future

DEFAULT_HOST = "unix:///var/run/docker.sock"
MINIMUM_API = (1, 41)
# The newest API whose payloads were tried; a newer engine is asked to speak this one if it still does.
NEWEST_API = (1, 51)
PROBE_TIMEOUT = 10.0  # seconds for an engine to answer GET /version
CALL_TIMEOUT = 120  # seconds for one ordinary call
_POLL = 0.1  # seconds
_THREADS = 4  # the engine answers that many questions at once; more take no less time on small machines

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


class _NotFoundError(EngineError):
    """The engine has nothing of that name."""


class Engine:
    """An engine that answered. Its methods may be called by several threads at once."""

    def __init__(self, identity: EngineIdentity) -> None:
        self.identity = identity
        self._connections = _wire.Connections(identity.address())
        self._client_lock = Lock()

    @property
    def client(self) -> Any:
        """docker SDK's ``APIClient``, for what changes something."""
        with self._client_lock:
            return self._client

    @cached_property
    def _client(self) -> Any:
        import docker

        path = _socket_path(self.identity.host)
        return docker.APIClient(base_url=f"unix://{path}", version=self.identity.api, timeout=CALL_TIMEOUT)

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
        found: dict[str, Any] = self._ask("read the engine's properties", "/info")
        return found

    def containers(self, *, stopped: bool = False, labels: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The list of the running containers, or of all, that have all of ``labels`` (``name`` or ``name=value``)."""
        return list(self._ask("list containers", f"/containers/json?all={int(stopped)}&{_filtered(labels)}"))

    def untagged_images(self, labels: Sequence[str]) -> list[dict[str, Any]]:
        """The list of the images without a tag that have all of ``labels``."""
        return list(self._ask("list images", f"/images/json?{_filtered(labels, dangling=['true'])}"))

    def volumes(self, *, labels: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The list of the volumes that have all of ``labels``."""
        return list(self._ask("list volumes", f"/volumes?{_filtered(labels)}")["Volumes"] or [])

    def networks(self) -> list[dict[str, Any]]:
        """The list of all networks."""
        return list(self._ask("list networks", "/networks"))

    def inspect_container(self, name: str) -> dict[str, Any] | None:
        """Answer of ``inspect``, or None when there is no such container."""
        return self._find(f"inspect container {name}", f"/containers/{quote(name, safe='')}/json")

    def inspect_containers(self, names: Sequence[str]) -> dict[str, Future[dict[str, Any] | None]]:
        """What ``inspect_container`` says of each of ``names``, asked for several at a time and answered by now.

        ``result()`` of an answer raises what ``inspect_container`` would, so that one error hides no other answer.
        """
        from concurrent.futures import ThreadPoolExecutor  # comes with all of logging

        with ThreadPoolExecutor(_THREADS) as pool:
            return {name: pool.submit(self.inspect_container, name) for name in names}

    def inspect_image(self, reference: str) -> dict[str, Any] | None:
        """Answer of ``inspect``, or None when there is no such image."""
        return self._find(f"inspect image {reference}", f"/images/{quote(reference, safe='/:@')}/json")

    def _find(self, what: str, path: str) -> dict[str, Any] | None:
        """Answer to ``GET path``, or None when there is no such thing."""
        try:
            found: dict[str, Any] = self._ask(what, path)
        except _NotFoundError:
            return None
        return found

    def _ask(self, what: str, path: str) -> Any:
        """Answer to ``GET path``; errors name ``what``."""
        try:
            return self._connections.get(path)
        except _wire.RefusedError as error:
            kind = _NotFoundError if error.status == http.HTTPStatus.NOT_FOUND else EngineError
            raise kind(f"{what}: {error.message}") from error
        except EngineError as error:
            raise type(error)(f"{what}: {error.message}", error.hint) from error

    def update_container(self, name: str, limits: Mapping[str, Any]) -> None:
        """Set limits, named as in ``HostConfig``, of a container. The SDK knows neither NanoCpus nor PidsLimit."""
        try:
            _wire.ask(self.identity.address(), "POST", f"/containers/{quote(name, safe='')}/update", limits)
        except _wire.RefusedError as error:
            raise EngineError(f"update container {name}: {error.message}") from error

    def remove_volume(self, name: str) -> None:
        """Remove a volume; fine with one that is gone already."""
        with self._removing(f"remove volume {name}"):
            self.client.remove_volume(name)

    def remove_network(self, name: str) -> None:
        """Remove a network, by name or id; fine with one that is gone already."""
        with self._removing(f"remove network {name}"):
            self.client.remove_network(name)

    def remove_container(self, name: str) -> None:
        """Remove a container, whatever it does; fine with one that is gone already.

        One that somebody else is removing, a killed run for example, is waited for.
        """
        import docker.errors

        with self._removing(what := f"remove container {name}"):
            try:
                self.client.remove_container(name, force=True)
            except docker.errors.APIError as error:
                if error.status_code != http.HTTPStatus.CONFLICT:
                    raise
                self._wait_until_gone(name, what)

    def _wait_until_gone(self, name: str, what: str) -> None:
        deadline = time.monotonic() + CALL_TIMEOUT
        while found := self.inspect_container(name):
            if found["State"]["Status"] != "removing":
                raise EngineError(f"{what}: the engine refuses, it is {found['State']['Status']}")
            if time.monotonic() > deadline:
                raise EngineTimeoutError(f"{what}: it is being removed and not gone after {CALL_TIMEOUT} s")
            time.sleep(_POLL)

    @contextmanager
    def _removing(self, what: str) -> Iterator[None]:
        import docker.errors

        with self.doing(what), contextlib.suppress(docker.errors.NotFound):
            yield

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
        self._connections.close()
        if "_client" in self.__dict__:
            self._client.close()


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


def maps_users(info: Mapping[str, Any]) -> bool:
    """Whether users in its containers are others on the host: a rootless engine, or one with ``userns-remap``."""
    return is_rootless(info) or any("name=userns" in str(option) for option in info.get("SecurityOptions") or [])


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
    if importlib.util.find_spec("docker") is None:
        raise EngineError("Python's docker library is missing", "Install the distribution's python3-docker")
    return Engine(identity)


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


def _filtered(labels: Sequence[str], **more: Sequence[str]) -> str:
    """The part of a query that asks for what has all of ``labels``, and fits the filters ``more``."""
    filters = {"label": list(labels), **more} if labels else more
    return f"filters={quote(json.dumps(filters))}"


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
