"""A site with two boxes as `site.yml` makes it from nothing: one led by Claude Code, and a neighbour."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker

from agentbox._shared import _naming
from tests.e2e.support import Box, Json, Outcome, Site, wait_for
from tests.e2e.support import docker as docker_cli
from tests.integration import engines

DEV_UID = 20117  # no image knows it, and nobody else uses it
STATE_ROOT = _naming.default_state_root(0, {})


@dataclass(frozen=True)
class Owner:
    """Whose workspace it is, as whom the agent then works in it, and what it may do unasked."""

    uid: int
    box_uid: int
    permissions: Json  # keys of the box's declaration
    mode_shown: str  # what the agent's screen says of it


@dataclass(frozen=True)
class World:
    """The site as its first run left it."""

    owner: Owner
    site: Site
    first_run: Outcome
    key: str  # the agent's, a secret
    workspace: Path
    box: Box
    neighbour: Box

    def wait_until_ready(self) -> str:
        """The lead's screen once it takes prompts."""
        return self.box.wait_for_screen(self.owner.mode_shown)

    def events(self, after: str = "") -> list[Json]:
        """The events on the box's page, all or those after one."""
        found: list[Json] = self.box.get(f"/api/events?after={after}" if after else "/api/events")["events"]
        return found

    def turn(self, prompt: str, answer: str, timeout: float = 30.0) -> list[Json]:
        """Type a prompt and wait for the answer on the screen; the events of this turn, up to Stop."""
        before = self.events()
        self.box.type(prompt)
        self.box.wait_for_screen(answer, timeout)

        def events_with_stop() -> list[Json]:
            events = self.events(before[-1]["id"] if before else "")
            return events if any(event["type"] == "Stop" for event in events) else []

        return wait_for("Stop on the page", events_with_stop, timeout)


@contextmanager
def converged(
    kind: str, directory: Path, engine: docker.APIClient, vendor: str, walls: Json | None = None
) -> Iterator[World]:
    """The site for workspaces of the ordinary user ``dev`` or of ``root``.

    ``vendor`` is the API's URL, ``walls`` are more keys of the declaration of the agent's box.
    """
    instance = engines.new_instance_name()
    key = f"sk-ant-{secrets.token_urlsafe(40)}"
    port = _free_port()
    with _owner(kind) as owner:
        workspace, other = _workspace(directory / "code", owner), _workspace(directory / "other", owner)
        led = {
            "name": "default",
            "workspace": str(workspace),
            "lead": "claude",
            **owner.permissions,
            **(walls or {}),
            "publish": f"127.0.0.1:{port}",
            "memory": "2g",
            "cpus": 2,
            "env": {"ANTHROPIC_BASE_URL": vendor, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
            "secrets": {"ANTHROPIC_API_KEY": key},
        }
        beside = {"name": "neighbour", "workspace": str(other), "lead": "none", "memory": "1g", "cpus": 1}
        site = Site.declare(instance, directory, {"agentbox_boxes": [led, beside]})
        try:
            first_run = site.converge("-vvv", "--diff").succeeded()
            box, neighbour = site.box("default", port), site.box("neighbour")
            yield World(owner, site, first_run, key, workspace, box, neighbour)
        finally:
            engines.remove_instance(engine, instance)
            docker_cli("image", "rm", "--force", _naming.image_tag(instance), check=False)
            shutil.rmtree(_naming.state_dir(STATE_ROOT, instance), ignore_errors=True)


@contextmanager
def _owner(kind: str) -> Iterator[Owner]:
    if kind == "root":
        yield Owner(0, 1000, {"yolo": True}, "bypass permissions on")
        return
    with _user_dev() as uid:
        yield Owner(uid, uid, {"permission_mode": "acceptEdits"}, "accept edits on")


@contextmanager
def _user_dev() -> Iterator[int]:
    """The uid of the user dev, who is made if missing and then removed again."""
    known = [entry.pw_uid for entry in pwd.getpwall() if entry.pw_name == "dev"]
    if known:
        yield known[0]
        return
    subprocess.run(["useradd", f"--uid={DEV_UID}", "--no-create-home", "dev"], check=True)
    try:
        yield DEV_UID
    finally:
        subprocess.run(["userdel", "dev"], check=True)


def _workspace(directory: Path, owner: Owner) -> Path:
    """A workspace with a file in it, all of it the owner's alone."""
    directory.mkdir(parents=True)
    readme = directory / "README"
    readme.write_text("from before\n", encoding="utf-8")
    for path in (directory, readme):
        os.chown(path, owner.uid, owner.uid)
    return directory


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
