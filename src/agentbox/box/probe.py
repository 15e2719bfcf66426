"""What is true inside this box, for the health check on the host: one JSON object, every part with a time limit."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from . import credentials, lead, status
from .config import Box
from .files import writing_problem
from .tmux import Pane, Tmux, TmuxError

SCHEMA = 1
_PART = 12.0  # seconds any part may take
_HTTP = 3.0
_VERSION = 10.0
_ROUND_TRIP = 3.0
_LOCAL = "127.0.0.1"


def main(box: Box) -> NoReturn:
    """Print the answer and end, whatever still hangs: a dead mount must not keep it from arriving."""
    sys.stdout.write(json.dumps(run(box)) + "\n")
    sys.stdout.flush()
    os._exit(os.EX_OK)


def run(box: Box) -> dict[str, Any]:
    """All parts at the same time. A part that fails or hangs has its ``reason`` in place of an answer."""
    tmux = Tmux(box.tmux_conf)
    parts: dict[str, Callable[[], Any]] = {
        "supervisor": lambda: _supervisor(box),
        "windows": lambda: _windows(tmux),
        "observer": lambda: _observer(box),
        "lead": lambda: _lead(box),
        "hook": lambda: _hook(box),
        "credentials": lambda: credentials.found(box),
        "versions": lambda: _versions(box, tmux),
        "mounts": lambda: _mounts(box),
    }
    return {"schema": SCHEMA, **_together(parts, _PART)}


def _together(parts: Mapping[str, Callable[[], Any]], limit: float) -> dict[str, Any]:
    """Run every part in a thread of its own, for at most ``limit`` seconds."""
    answers: dict[str, Any] = {}

    def answer(name: str, part: Callable[[], Any]) -> None:
        try:
            answers[name] = part()
        except Exception as error:
            answers[name] = {"reason": f"{type(error).__name__}: {error}"}

    threads = [threading.Thread(target=answer, args=item, daemon=True) for item in parts.items()]
    deadline = time.monotonic() + limit
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return {name: answers.get(name, {"reason": f"no answer within {limit:g} s"}) for name in parts}


def _supervisor(box: Box) -> dict[str, Any]:
    known = status.load(box.status_file)
    return {
        "state": known.get("state", "starting"),
        "reason": known.get("reason", ""),
        "rebuilds": known.get("rebuilds", 0),
        "observer_restarts": known.get("observer_restarts", 0),
        "notes": known.get("notes", []),
    }


def _windows(tmux: Tmux) -> list[dict[str, Any]]:
    try:
        panes = tmux.panes()
    except TmuxError:
        return []
    windows: dict[str, list[dict[str, Any]]] = {}
    for pane in panes:
        windows.setdefault(pane.window, []).append(_pane(pane))
    return [{"name": name, "panes": members} for name, members in windows.items()]


def _pane(pane: Pane) -> dict[str, Any]:
    return {
        "id": pane.id,
        "pid": pane.pid,
        "dead": pane.dead,
        "status": pane.status,
        "command": pane.command,
    }


def _lead(box: Box) -> dict[str, Any]:
    known = status.load(box.status_file).get("lead") or {}
    return {
        "agent": box.lead,
        "state": known.get("state", "none"),
        "code": known.get("code"),
        "session_id": lead.recorded_session(box),
    }


def _observer(box: Box) -> dict[str, Any]:
    answer: dict[str, Any] = {"page": False, "hooks": False, "reason": ""}
    try:
        code, report = _request(box.page_port, "GET", "/healthz")
        answer["page"] = True
        answer["hooks"] = bool(report.get("hooks"))
        answer["reason"] = "; ".join(report.get("reasons", [])) if code != http.client.OK else ""
    except (OSError, ValueError, http.client.HTTPException) as error:
        answer["reason"] = f"the page does not answer: {error}"
    return answer


def _hook(box: Box) -> dict[str, Any]:
    """Post a synthetic event as an agent would and wait until the page's API has it."""
    mark = uuid.uuid4().hex
    start = time.monotonic()
    try:
        _, health = _request(box.page_port, "GET", "/healthz")
        latest = health["store"]["last"]
        body = {"hook_event_name": "Probe", "mark": mark}
        code, _ = _request(box.hook_port, "POST", "/hook/agentbox", body)
        if code != http.client.OK:
            return {"ok": False, "reason": f"the hook sink answered {code}"}
        return _await_event(box, latest, mark, start)
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        return {"ok": False, "reason": str(error)}


def _await_event(box: Box, latest: str, mark: str, start: float) -> dict[str, Any]:
    while time.monotonic() - start < _ROUND_TRIP:
        for event in _events_after(box, latest):
            if event["payload"].get("mark") == mark:
                seconds = round(time.monotonic() - start, 3)
                return {"ok": True, "seconds": seconds, "event_id": event["id"]}
        time.sleep(0.02)
    return {"ok": False, "reason": f"the event did not come back within {_ROUND_TRIP:g} s"}


def _events_after(box: Box, event_id: str) -> list[dict[str, Any]]:
    _, answer = _request(box.page_port, "GET", f"/api/events?after={event_id}")
    return list(answer.get("events") or [])


def _request(port: int, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
    """A loopback request that no proxy variable can redirect."""
    connection = http.client.HTTPConnection(_LOCAL, port, timeout=_HTTP)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"content-type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        return response.status, answer if isinstance(answer, dict) else {}
    finally:
        connection.close()


def _versions(box: Box, tmux: Tmux) -> dict[str, Any]:
    versions: dict[str, Any] = {name: _version(manifest) for name, manifest in box.manifests.items()}
    versions["tmux"] = tmux.version()
    return versions


def _version(manifest: Mapping[str, Any]) -> str | None:
    """What the agent says about itself; None if it can't be run or says something else."""
    version = manifest["version"]
    try:
        done = subprocess.run(
            version["argv"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(version["pattern"], done.stdout, re.MULTILINE)
    return found.group(1) if found else None


def _mounts(box: Box) -> dict[str, Any]:
    problems = {path: writing_problem(Path(path)) for path in (box.workspace, str(box.home))}
    return {path: {"writable": problem is None, "reason": problem or ""} for path, problem in problems.items()}
