"""The probe: what it says about a box that runs, one that does not, and one that hangs."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest

from .boxes import BoxDirectory, eventually


def probe(directory: BoxDirectory) -> dict[str, Any]:
    directory.declare()
    done = directory.run("agentbox.box", "probe")
    assert done.returncode == 0, done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_running_box_is_described(running: BoxDirectory) -> None:
    seen = probe(running)
    assert seen["schema"] == 1
    assert seen["supervisor"]["state"] == "ready"
    assert [(window["name"], len(window["panes"])) for window in seen["windows"]] == [("main", 1), ("observer", 1)]
    pane = seen["windows"][0]["panes"][0]
    assert (pane["id"], pane["dead"], pane["status"], pane["command"]) == ("%0", False, None, "cat")
    assert seen["observer"] == {"page": True, "hooks": True, "reason": ""}
    session_id = running.launches()[0]["argv"][3]
    assert seen["lead"] == {"agent": "recorder", "state": "running", "code": None, "session_id": session_id}
    assert seen["hook"]["ok"] is True
    assert seen["hook"]["seconds"] < 3
    assert seen["credentials"] == {"recorder": {"state": "present", "kind": "secret"}}
    assert seen["versions"]["recorder"].startswith("3.")
    assert seen["versions"]["tmux"].startswith("3.")
    assert seen["mounts"][str(running.workspace)] == {"writable": True, "reason": ""}


def test_logins_can_be_asked_for_alone(directory: BoxDirectory) -> None:
    directory.declare()
    done = directory.run("agentbox.box", "credentials")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"recorder": {"state": "none"}}


def test_proxy_variables_do_not_divert_the_probe(running: BoxDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setitem(running.environ, name, "http://127.0.0.1:1")
    assert probe(running)["hook"]["ok"] is True


def test_box_that_does_not_run_is_described_too(directory: BoxDirectory) -> None:
    seen = probe(directory)
    assert seen["windows"] == []
    assert seen["observer"]["page"] is False
    assert "does not answer" in seen["observer"]["reason"]
    assert seen["hook"]["ok"] is False
    assert seen["lead"]["session_id"] is None


def test_box_that_hangs_does_not_hang_the_probe(directory: BoxDirectory) -> None:
    with directory.supervised():
        eventually(lambda: probe(directory)["observer"]["page"])
        observer = directory.tmux("display-message", "-p", "-t", "=agentbox:=observer", "#{pane_pid}")
        server = directory.tmux("display-message", "-p", "#{pid}")
        pids = [int(server), int(observer)]  # in this order: tmux continues the processes of its panes
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            start = time.monotonic()
            seen = probe(directory)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
    assert time.monotonic() - start < 15
    assert seen["observer"]["page"] is False
    assert seen["hook"]["ok"] is False
    assert seen["windows"] == []


def test_unreadable_version_is_none(directory: BoxDirectory) -> None:
    directory.declaration["manifests"]["recorder"]["version"] = {"argv": ["no-such-agent"], "pattern": "(.*)"}
    assert probe(directory)["versions"]["recorder"] is None
