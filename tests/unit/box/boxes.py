"""A box on this machine: the real runtime, the real tmux and the real files, below one temporary directory."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from agentbox.box import config

ROOT = Path(__file__).resolve().parents[3]
TEMPLATES = ROOT / "templates" / "box"
_Value = TypeVar("_Value")


def recorder_manifest(log: Path) -> dict[str, Any]:
    """An agent that writes how it was started into ``log`` (one JSON line each) and stays."""
    program = (
        "import json, os, sys\n"
        f"with open({str(log)!r}, 'a') as log:\n"
        "    json.dump({'argv': sys.argv[1:], 'environ': dict(os.environ), 'cwd': os.getcwd()}, log)\n"
        "    log.write(chr(10))\n"
        "os.execvp('cat', ['cat'])\n"
    )
    return {
        "name": "recorder",
        "version": {"argv": [sys.executable, "--version"], "pattern": r"^Python (\d+\.\d+)"},
        "config": {"directory": ".recorder", "variable": "RECORDER_DIR"},
        "credentials": {"file": "login.json", "variables": ["RECORDER_KEY"], "login": "recorder login"},
        "environment": {"RECORDER_MODE": "on"},
        "launch": {
            "argv": [sys.executable, "-I", "-S", "-c", program],
            "permission_mode": ["--mode", "{mode}"],
            "yolo": ["--yolo"],
            "new": ["--new", "{session_id}"],
            "resume": ["--resume", "{session_id}"],
            "transcript": "chats/{cwd_slug}/{session_id}.jsonl",
            "transcript_turn": {"type": "user"},
        },
        "onboarding": {
            "file": "settings.json",
            "values": {"welcomed": True},
            "workspace": {"trusted": True},
            "yolo": {"warned": True},
            "api_key_tail": 4,
        },
        "hooks": {"session": "SessionStart"},
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(look: Callable[[], _Value], seconds: float = 10.0) -> _Value:
    """The first true value of ``look``. AssertionError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, ValueError, KeyError):
            value = look()
            if value:
                return value
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def request(
    port: int, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """One request to loopback; header names of the answer in lower case."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read().decode())
    finally:
        connection.close()


class BoxDirectory:
    """The files of one box and how to run its programs."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.mount, self.home, self.workspace = base / "mount", base / "home", base / "ws"
        self.log = base / "launches"
        self.supervisor: subprocess.Popen[bytes] | None = None
        for directory in (self.mount / "secrets", self.home, self.workspace, base / "t"):
            directory.mkdir(parents=True)
        for file in TEMPLATES.iterdir():
            shutil.copy(file, self.mount)
        self.page_port, self.hook_port = free_port(), free_port()
        self.declaration: dict[str, Any] = {
            "schema": 1,
            "instance": "test",
            "box": "default",
            "container": "test-box",
            "workspace": str(self.workspace),
            "uid": os.getuid(),
            "lead": "recorder",
            "permission_mode": "default",
            "yolo": False,
            "agents": ["recorder"],
            "secrets": [],
            "credentials": "auto",
            "ports": {"page": self.page_port, "hooks": self.hook_port},
            "size": {"columns": 120, "rows": 40},
            "manifests": {"recorder": recorder_manifest(self.log)},
        }
        self.environ = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self.home),
            "TMUX_TMPDIR": str(base / "t"),
            "PYTHONPATH": str(ROOT / "src"),
            config.MOUNT_VARIABLE: str(self.mount),
            config.RUNTIME_VARIABLE: str(base / "run"),
        }

    def declare(self, **changes: Any) -> None:
        self.declaration.update(changes)
        (self.mount / "box.json").write_text(json.dumps(self.declaration))

    @property
    def status_file(self) -> Path:
        return self.base / "run" / "status.json"

    def box(self) -> config.Box:
        self.declare()
        return config.load(self.environ)

    def secret(self, name: str, value: bytes) -> None:
        (self.mount / "secrets" / name).write_bytes(value)
        self.declare(secrets=[*self.declaration["secrets"], name])

    @contextlib.contextmanager
    def observed(self) -> Iterator[subprocess.Popen[bytes]]:
        """The Observer by itself, from its first answer until the block ends."""
        self.declare()
        with (self.base / "observer.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "agentbox.observer"], env=self.environ, stdout=log, stderr=log
            )
        try:
            eventually(lambda: self.get("/healthz").status, 20)
            yield process
        finally:
            process.terminate()
            process.wait(10)

    def get(self, path: str, **headers: str) -> Answer:
        return request(self.page_port, "GET", path, headers=headers)

    def report(self, payload: Mapping[str, Any], agent: str = "recorder", **headers: str) -> Answer:
        """What a hook of an agent posts."""
        body = json.dumps(payload).encode()
        return request(self.hook_port, "POST", f"/hook/{agent}", body, headers)

    def events(self, after: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/api/events?after={after}").json["events"]
        return found

    def run(self, *arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """A module of the runtime, e.g. ``run("agentbox.box", "probe")``."""
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-L", "agentbox", *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()

    def status(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.status_file.read_text())
        return value

    def launches(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @contextlib.contextmanager
    def supervised(self) -> Iterator[subprocess.Popen[bytes]]:
        """The supervisor, from ready until the block ends."""
        self.declare()
        with (self.base / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "agentbox.box", "supervise"], env=self.environ, stdout=log, stderr=log
            )
        self.supervisor = process
        try:
            eventually(lambda: self.status()["state"] == "ready")
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


class Viewer:
    """A person who attached to the box: ``attach.sh`` in a terminal of its own."""

    def __init__(self, directory: BoxDirectory, term: str = "xterm") -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            script = str(directory.mount / "attach.sh")
            os.execvpe("bash", ["bash", script], {**directory.environ, "TERM": term})  # noqa: S606

    def press(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def detach(self) -> int:
        """Press the detach keys; the exit code of ``attach.sh``."""
        self.press(b"\x02d")
        _, status = os.waitpid(self._pid, 0)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)
