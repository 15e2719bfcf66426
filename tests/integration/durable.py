"""Boxes whose lead tells how it was started, and what users are told about them, for tests that harm them."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import docker

from agentbox import agents
from agentbox._shared import _engine, _naming
from agentbox.cli import reports, seen
from tests.integration.sites import Site, manifests

HEALED = 40.0  # seconds for a box to be well again
# The stand-in as an agent that has conversations: it writes its arguments down, and resumes what has a transcript.
MANIFEST: dict[str, Any] = {
    **manifests()["standin"],
    "launch": {
        "argv": ["bash", "-c", 'echo "$*" >> ~/launches; exec bash --noprofile --norc', "standin"],
        "permission_modes": ["default"],
        "new": ["new", "{session_id}"],
        "resume": ["resume", "{session_id}"],
        "transcript": "chats/{cwd_slug}/{session_id}.jsonl",
        "transcript_turn": {"type": "user"},
    },
}
_Found = TypeVar("_Found")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def eventually(look: Callable[[], _Found], done: Callable[[_Found], object], seconds: float = HEALED) -> _Found:
    """The first look that is as wanted; AssertionError with the last one after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not done(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.3)
    return found


@dataclass(frozen=True)
class DurableBox:
    """One box. ``home`` is its HOME as the host sees it, ``host`` the engine's address."""

    site: Site
    name: str
    home: Path
    engine: docker.APIClient
    host: str | None = None
    page: int | None = None

    @property
    def container(self) -> str:
        return self.site.container(self.name)

    def declaration(self, **declared: Any) -> dict[str, Any]:
        publish = f"127.0.0.1:{self.page}" if self.page else "none"
        return self.site.box(self.name, publish=publish, **declared)

    def inspect(self) -> dict[str, Any]:
        found: dict[str, Any] = self.engine.inspect_container(self.container)
        return found

    def run(self, script: str) -> str:
        """Output of a shell script in the box, as its own user; it may fail."""
        created = self.engine.exec_create(self.container, ["bash", "-c", script])
        output: bytes = self.engine.exec_start(created["Id"])
        return output.decode()

    def pane_pid(self, window: str) -> int:
        return int(self.run(f"tmux -L agentbox list-panes -t agentbox:{window} -F '#{{pane_pid}}'").split()[0])

    def windows(self) -> list[str]:
        return self.run("tmux -L agentbox list-windows -t =agentbox -F '#{window_name}'").split()

    def restart_lead(self) -> None:
        """What C-b R does."""
        self.run("tmux -L agentbox respawn-pane -t agentbox:main \\; wait-for -S agentbox-changed")

    def launches(self) -> list[list[str]]:
        """Arguments of each start of the lead, oldest first."""
        file = self.home / "launches"
        return [line.split() for line in file.read_text(encoding="ascii").splitlines()] if file.exists() else []

    def converse(self) -> str:
        """Give the lead's conversation a turn, so that it can be resumed; its id."""
        session_id = str(json.loads((self.home / ".agentbox/lead.json").read_text(encoding="ascii"))["session_id"])
        config = self.home / ".standin"
        path = agents.transcript(MANIFEST, config, "/workspace", session_id)
        assert path is not None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"type": "user"}\n', encoding="ascii")
        return session_id

    def report(self) -> reports.Report:
        """What `agentbox ls` tells of the box."""
        with contextlib.closing(_engine.connect(self.host)) as engine:
            box = seen.find(engine, self.site.instance, self.name, str(self.site.state_root))
            assert box is not None
            return reports.reports(engine, [box])[0]

    def troubles(self) -> dict[str, str]:
        """What is wrong with the box, by check."""
        return {check.id: check.seen for check in self.report().troubles}

    def answers(self) -> bool:
        """Whether its page on the host says that it works."""
        try:
            return self.health()[0] == http.client.OK
        except (OSError, http.client.HTTPException):
            return False

    def health(self) -> tuple[int, list[str]]:
        """What its page on the host says: the status, and the reasons for whatever is not as it should be."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.page, timeout=5)) as connection:
            connection.request("GET", "/healthz")
            response = connection.getresponse()
            return response.status, json.loads(response.read())["reasons"]

    def wait_until_well(self) -> None:
        """Until nothing is wrong, the lead runs in its window beside the Observer's, and the page answers."""
        eventually(self.report, lambda report: not report.troubles and report.lead and report.lead.state == "running")
        eventually(self.windows, lambda windows: windows == [_naming.WINDOW_LEAD, _naming.WINDOW_OBSERVER])
        if self.page:
            eventually(self.answers, bool)
