"""The settings that make Claude Code report, and the one command in them, run for real."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import yaml

from agentbox._shared import _hooks
from tests.unit.box.boxes import ROOT

MANIFEST: dict[str, Any] = yaml.safe_load((ROOT / "agents" / "claude.yml").read_text())
PAYLOAD = json.dumps({"hook_event_name": "SessionStart", "text": "ü $(x) '\" \\n"})


def handlers(port: int = 4318) -> dict[str, dict[str, Any]]:
    """The one handler of each event type."""
    settings = _hooks.managed_settings(MANIFEST, port)
    assert set(settings) == {"hooks"}
    found = {}
    for event, groups in settings["hooks"].items():
        (group,) = groups
        (found[event],) = group["hooks"]
    return found


def run_command(port: int) -> tuple[subprocess.CompletedProcess[str], float]:
    """The command hook as the CLI runs it: JSON on stdin, in an environment with a proxy."""
    start = time.monotonic()
    done = subprocess.run(
        ["sh", "-c", handlers(port)["SessionStart"]["command"]],
        input=PAYLOAD,
        env={"PATH": "/usr/bin:/bin", "TMUX_PANE": "%7", "http_proxy": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done, time.monotonic() - start


def test_every_event_type_is_delivered_one_way() -> None:
    hooks = MANIFEST["hooks"]
    for kind in ("http", "command"):
        assert hooks[kind] == sorted(hooks[kind])
    assert len(set(hooks["http"] + hooks["command"] + hooks["replacing"])) == 34
    assert set(handlers()) == {*hooks["http"], *hooks["command"]}


def test_http_hooks_go_to_loopback_give_up_in_time_and_name_their_pane() -> None:
    assert handlers(5000)["PreToolUse"] == {
        "type": "http",
        "url": "http://127.0.0.1:5000/hook/claude",
        "timeout": 3,
        "headers": {"X-Agentbox-Pane": "$TMUX_PANE"},
        "allowedEnvVars": ["TMUX_PANE"],
    }


def test_same_input_gives_the_same_text() -> None:
    first, second = (json.dumps(_hooks.managed_settings(MANIFEST, 4318)) for _ in range(2))
    assert first == second


def test_unknown_mechanism_is_an_error_that_names_it() -> None:
    manifest = {"name": "x", "hooks": {"mechanism": "telepathy"}}
    with pytest.raises(ValueError, match="x: unknown hook mechanism 'telepathy'"):
        _hooks.managed_settings(manifest, 4318)


class Sink(BaseHTTPRequestHandler):
    """Keeps what it is sent in ``received`` of its server."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"words the agent must not read")

    def log_message(self, *_arguments: object) -> None:
        pass


def test_command_hook_waits_a_moment_for_an_observer_that_starts() -> None:
    received: list[tuple[str, dict[str, str], bytes]] = []
    with HTTPServer(("127.0.0.1", 0), Sink, bind_and_activate=False) as server:
        server.received = received  # type: ignore[attr-defined]
        server.server_bind()  # until it listens, connections are refused

        def listen_late() -> None:
            time.sleep(0.5)
            server.server_activate()
            server.handle_request()

        threading.Thread(target=listen_late, daemon=True).start()
        done, _ = run_command(server.server_address[1])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [body.decode() for _, _, body in received] == [PAYLOAD]


def test_command_hook_delivers_the_payload_and_says_whose_it_is() -> None:
    received: list[tuple[str, dict[str, str], bytes]] = []
    with HTTPServer(("127.0.0.1", 0), Sink) as server:
        server.received = received  # type: ignore[attr-defined]
        threading.Thread(target=server.handle_request, daemon=True).start()
        done, _ = run_command(server.server_address[1])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    ((path, headers, body),) = received
    assert (path, body.decode()) == ("/hook/claude", PAYLOAD)
    assert headers["x-agentbox-pane"] == "%7"
    assert headers["x-agentbox-pid"].isdecimal()
    assert headers["content-type"] == "application/json"


def test_command_hook_is_silent_when_the_observer_is_down() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        done, seconds = run_command(unused.getsockname()[1])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert seconds < 4  # 2, and slack for a busy machine


def test_command_hook_gives_up_on_an_observer_that_hangs() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        done, seconds = run_command(silent.getsockname()[1])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert seconds < 6  # 3, and slack for a busy machine
