"""What stands between us and an engine: told apart by real sockets with nobody, somebody or something else behind."""

from __future__ import annotations

import http.server
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared import _engine
from agentbox._shared._errors import (
    EngineAbsentError,
    EngineError,
    EngineStoppedError,
    EngineTimeoutError,
    EngineUnreachableError,
    EngineUnsupportedError,
)

Serve = Callable[..., str]


class _Server(socketserver.ThreadingUnixStreamServer):
    answer: bytes
    status: int
    leaving = False  # each connection after its first answer, without a word
    broken = ""  # what is in the path of a question that gets an error

    def __init__(self, path: str) -> None:
        super().__init__(path, _Handler)
        self.asked: list[list[str]] = []  # paths, by connection


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.asked.append([])
        self.paths = self.server.asked[-1]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.close_connection = self.server.leaving
        broken = self.server.broken and self.server.broken in self.path
        self.send_response(500 if broken else self.server.status)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name the library gives it
        """Say nothing."""


@pytest.fixture
def servers() -> list[_Server]:
    """The stubs that were started."""
    return []


@pytest.fixture
def serve(tmp_path: Path, servers: list[_Server]) -> Iterator[Serve]:
    """Starts a stub of an engine that answers every request with one thing; returns its address."""

    def start(answer: object, status: int = 200) -> str:
        path = tmp_path / "engine.sock"
        server = _Server(str(path))
        server.answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        server.status = status
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        servers.append(server)
        return f"unix://{path}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def version(newest: str, oldest: str, **more: object) -> dict[str, object]:
    return {"Version": "99.9", "ApiVersion": newest, "MinAPIVersion": oldest, **more}


@pytest.mark.parametrize(
    ("newest", "oldest", "spoken"),
    [
        ("1.41", "1.12", "1.41"),
        ("1.44", "1.24", "1.44"),
        ("1.99", "1.44", "1.51"),
        ("1.41", "1.44", "1.41"),  # an inconsistent range
        ("1.41", "", "1.41"),
        ("1.60", "1.55", "1.55"),
    ],
)
def test_an_api_version_is_negotiated(serve: Serve, newest: str, oldest: str, spoken: str) -> None:
    engine = _engine.connect(serve(version(newest, oldest)))
    try:
        assert engine.identity.api == spoken
        assert engine.client.api_version == spoken
        assert engine.info()["ApiVersion"] == newest, "a request reaches the engine"
    finally:
        engine.close()


@pytest.fixture
def engine(serve: Serve) -> Iterator[_engine.Engine]:
    connected = _engine.connect(serve(version("1.41", "1.12", Volumes=[{"Name": "a"}])))
    yield connected
    connected.close()


def test_questions_share_a_connection(engine: _engine.Engine, servers: list[_Server]) -> None:
    for name in ("a", "b", "c"):
        assert engine.inspect_container(name)
    [_, kept] = servers[0].asked  # the first was that of connect()
    assert kept == [f"/v1.41/containers/{name}/json" for name in ("a", "b", "c")]


def test_a_connection_that_the_engine_has_closed_is_no_error(engine: _engine.Engine, servers: list[_Server]) -> None:
    servers[0].leaving = True
    assert [bool(engine.inspect_container(name)) for name in ("a", "b")] == [True, True]
    assert [len(paths) for paths in servers[0].asked[1:]] == [1, 1]


def test_what_is_not_there_is_none_and_its_connection_none_to_keep(serve: Serve) -> None:
    identity = _engine.EngineIdentity(serve({"message": "No such container: a"}, status=404), "1.41", "20.10", False)
    engine = _engine.Engine(identity)
    assert engine.inspect_container("a") is None
    assert engine.inspect_image("registry.example/a/b:c") is None
    engine.close()


def test_an_error_about_one_container_hides_no_other(engine: _engine.Engine, servers: list[_Server]) -> None:
    servers[0].broken = "/b7/"
    answers = engine.inspect_containers([f"b{number}" for number in range(12)])
    assert [name for name, answer in answers.items() if answer.exception()] == ["b7"]
    with pytest.raises(EngineError, match="inspect container b7: "):
        answers["b7"].result()


def test_lists_are_asked_for_by_label(engine: _engine.Engine, servers: list[_Server]) -> None:
    engine.containers(stopped=True, labels=["agentbox.instance=x", "agentbox.box"])
    engine.untagged_images(["agentbox.managed=true"])
    assert engine.volumes() == [{"Name": "a"}]
    asked = [urllib.parse.urlsplit(path) for path in servers[0].asked[-1]]
    queries = [urllib.parse.parse_qs(part.query) for part in asked]
    assert [part.path for part in asked] == [f"/v1.41/{kind}" for kind in ("containers/json", "images/json", "volumes")]
    assert queries[0]["all"] == ["1"]
    assert [json.loads(query["filters"][0]) for query in queries] == [
        {"label": ["agentbox.instance=x", "agentbox.box"]},
        {"label": ["agentbox.managed=true"], "dangling": ["true"]},
        {},
    ]


def test_questions_do_not_load_the_docker_library(serve: Serve) -> None:
    script = (
        "import sys\n"
        "from agentbox._shared import _engine\n"
        "_engine.connect(sys.argv[1]).inspect_container('a')\n"
        "sys.exit('docker' in sys.modules)"
    )
    command = [sys.executable, "-c", script, serve(version("1.41", "1.12"))]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=True)


def test_an_engine_that_is_too_old_is_told_so(serve: Serve) -> None:
    with pytest.raises(EngineUnsupportedError) as caught:
        _engine.connect(serve(version("1.40", "1.12")))
    assert "speaks API 1.40" in str(caught.value)
    assert "Upgrade the engine" in str(caught.value)


def test_podman_is_recognised(serve: Serve) -> None:
    engine = _engine.connect(serve(version("1.41", "1.24", Components=[{"Name": "Podman Engine"}])))
    assert engine.identity.podman
    engine.close()


@pytest.mark.parametrize(
    ("options", "rootless"),
    [
        (["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"], True),
        (["name=seccomp,profile=builtin"], False),
        (None, False),
    ],
)
def test_an_engine_without_root_is_recognised(serve: Serve, options: list[str] | None, rootless: bool) -> None:
    answer = version("1.41", "1.12", SecurityOptions=options)  # one stub answers both requests
    assert _engine.is_rootless(_engine.properties(_engine.identify(serve(answer)))) is rootless


def test_podman_without_root_is_recognised_by_its_own_word(serve: Serve) -> None:
    answer = version("1.41", "1.24", Rootless=True, SecurityOptions=["name=seccomp,profile=default"])
    assert _engine.is_rootless(_engine.properties(_engine.identify(serve(answer))))


@pytest.mark.parametrize(("events", "taken"), [(b"", False), (b'{"Type":"daemon","Action":"reload"}\n', True)])
def test_an_event_says_that_an_engine_took_its_configuration(serve: Serve, events: bytes, taken: bool) -> None:
    identity = _engine.EngineIdentity(serve(events), "1.41", "20.10", podman=False)
    assert _engine.reloaded_since(identity, 0.0) is taken


@pytest.mark.parametrize("answer", [b"hello", b"[]", b"{}", b'{"ApiVersion": "x"}'])
def test_something_else_is_no_engine(serve: Serve, answer: bytes) -> None:
    with pytest.raises(EngineError):
        _engine.connect(serve(answer))


def test_an_error_of_the_engine_says_what_was_tried(serve: Serve) -> None:
    with pytest.raises(EngineError, match="answered 500 to GET /version"):
        _engine.connect(serve({}, status=500))


def test_a_hanging_engine_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_engine, "PROBE_TIMEOUT", 0.3)
    path = tmp_path / "hang.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(EngineTimeoutError, match=str(path)):
            _engine.connect(f"unix://{path}")


def test_a_socket_without_a_listener_or_none_at_all(tmp_path: Path) -> None:
    path = tmp_path / "dead.sock"
    with pytest.raises((EngineAbsentError, EngineStoppedError), match=str(path)):
        _engine.connect(f"unix://{path}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    with pytest.raises(EngineUnreachableError, match=str(path)):
        _engine.connect(f"unix://{path}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_denied_socket_shows_its_path_and_what_to_do(open_place: Path) -> None:
    path = open_place / "engine.sock"
    script = (
        "import os, sys\n"
        "from agentbox._shared import _engine\n"
        "os.setgid(12345); os.setuid(12345)\n"
        "try: _engine.connect(None, {'DOCKER_HOST': sys.argv[1]})\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o600)
        done = subprocess.run(
            [sys.executable, "-c", script, f"unix://{path}"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.startswith("EngineDeniedError permission denied on the engine's socket "), done.stderr
    assert str(path) in done.stdout
    assert "join the socket's group" in done.stdout


@pytest.mark.parametrize("host", ["tcp://127.0.0.1:2375", "ssh://host.example", "unix:relative.sock"])
def test_an_engine_elsewhere_is_refused(host: str) -> None:
    with pytest.raises(EngineUnsupportedError, match="is not a local socket"):
        _engine.connect(host)


def test_the_option_comes_before_the_environment() -> None:
    environ = {"DOCKER_HOST": "unix:///run/user/1000/docker.sock"}
    assert _engine.engine_host("unix:///x", environ) == "unix:///x"
    assert _engine.engine_host(None, environ) == "unix:///run/user/1000/docker.sock"
    assert _engine.engine_host(None, {}) == _engine.DEFAULT_HOST
