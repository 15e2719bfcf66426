"""Logins of the real agents, of the right shape and good for nothing, where the agents themselves look for them."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from tests.integration import engines, runs
from tests.integration.sites import UID, Site
from tests.integration.workshops import Workshop

LATER = 4_102_444_800  # seconds since the epoch
START = 60.0  # seconds for an agent to show its first screen


def manifest(agent: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((runs.REPOSITORY / f"agents/{agent}.yml").read_text(encoding="utf-8"))
    return loaded


def log_in(home: Path, agent: str, content: dict[str, Any]) -> None:
    """Leave a login in a home of the host, as the agent does."""
    path = home / manifest(agent)["config"]["directory"] / manifest(agent)["credentials"]["file"]
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    path.chmod(0o600)
    for made in (home, path.parent, path):
        os.chown(made, UID, UID)


def converged(site: Site, home: Path, box: dict[str, Any]) -> None:
    agent = str(box["lead"])
    result = site.converge(box, identity_home=str(home), manifests={agent: manifest(agent)})
    assert not result.get("failed"), result["msg"]
    site.wait_for_session(str(box["name"]))


def screen(site: Site, box: str, wanted: str) -> str:
    """The lead's screen once it shows ``wanted``."""
    deadline = time.monotonic() + START
    while wanted not in (seen := site.run(box, "tmux -L agentbox capture-pane -p -t agentbox:main")):
        assert time.monotonic() < deadline, seen
        time.sleep(0.5)
    return seen


def test_claude_finds_the_seeded_login_and_keeps_its_settings_where_its_variable_says(
    instance: str, place: Path, engine: docker.APIClient
) -> None:
    site, home = Site(instance, place), place / "home"
    token = {"accessToken": "sk-ant-oat01-x", "refreshToken": "sk-ant-ort01-x", "expiresAt": LATER * 1000}
    log_in(home, "claude", {"claudeAiOauth": {**token, "scopes": ["user:inference"], "subscriptionType": "pro"}})
    box = site.box(
        "one",
        image=engines.IMAGE_CLAUDE,
        lead="claude",
        agents=["claude"],
        memory="2g",
        credentials="seed",
        env={"CLAUDE_CONFIG_DIR": "/data/claude", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        volumes=[f"{instance}-data:/data"],
    )
    converged(site, home, box)
    for _ in range(2):
        assert json.loads(site.run("one", "claude auth status"))["loggedIn"] is True
        assert json.loads(site.run("one", "cat /data/claude/.claude.json"))["hasCompletedOnboarding"] is True
        assert site.run("one", "stat -c '%U %a' /data/claude /data/claude/.credentials.json").split() == [
            "agent",
            "700",
            "agent",
            "600",
        ]
        assert site.run("one", "find ~ -maxdepth 1 -name '.claude*' -exec find {} -type f \\;") == ""
        engine.restart(site.container("one"), timeout=5)
        site.wait_for_session("one")


@pytest.mark.full
def test_what_claude_stores_beside_a_mounted_login_is_stored_on_the_host(instance: str, place: Path) -> None:
    """It renews a login in the same way, for which it would need its vendor."""
    site, home = Site(instance, place), place / "home"
    token = {"accessToken": "sk-ant-oat01-x", "refreshToken": "sk-ant-ort01-x", "expiresAt": LATER * 1000}
    log_in(home, "claude", {"claudeAiOauth": {**token, "scopes": ["user:inference"]}})
    box = {"image": engines.IMAGE_CLAUDE, "lead": "claude", "agents": ["claude"], "memory": "2g"}
    converged(site, home, site.box("one", **box, credentials="mount"))
    store = "claude mcp add --transport http --client-id x --client-secret -s user srv https://mcp.example/mcp"
    site.run("one", f"MCP_CLIENT_SECRET=of-the-box {store}")
    kept = (home / ".claude/.credentials.json").read_text(encoding="utf-8")
    assert "of-the-box" in kept
    assert json.loads(kept)["claudeAiOauth"] == {**token, "scopes": ["user:inference"]}
    assert [path.name for path in (home / ".claude").iterdir()] == [".credentials.json"]


# On top of the stand-in's image, whose rest is that of every image.
CODEX = """\
ARG BASE
FROM ${BASE}
USER root
ARG VERSION_CODEX
RUN npm install --global --prefix /usr/local --cache /tmp/npm "@openai/codex@${VERSION_CODEX}" && rm -rf /tmp/npm
USER agent
"""


@pytest.mark.full
@pytest.mark.timeout(600)
def test_codex_finds_its_login_in_a_directory_that_was_not_there_and_asks_nothing(
    workshop: Workshop, instance: str, place: Path
) -> None:
    built = workshop.build(dockerfile=CODEX, files={}, manifests={"codex": manifest("codex")}, agents=["codex"])
    assert not built.get("failed"), built["msg"]
    site, home = Site(instance, place), place / "home"
    claims = base64.urlsafe_b64encode(json.dumps({"exp": LATER, "email": "pat@person.example"}).encode()).decode()
    token = f"e30.{claims.rstrip('=')}.c2ln"
    tokens = {"id_token": token, "access_token": token, "refresh_token": "rt-x", "account_id": "x"}
    log_in(home, "codex", {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens})
    box = site.box(
        "one",
        image=workshop.tag,
        lead="codex",
        agents=["codex"],
        memory="2g",
        env={"CODEX_HOME": "/home/agent/x/codex"},
    )
    converged(site, home, {**box, "credentials": "seed"})
    assert "Logged in using ChatGPT" in site.run("one", "codex login status 2>&1")
    assert site.run("one", "stat -c '%U %a' ~/x/codex ~/x/codex/auth.json").split() == ["agent", "700", "agent", "600"]
    assert site.try_run("one", "test -e ~/.codex").returncode != 0

    # A key is a login too, with which the agent starts without its vendor; in a workspace that could run code.
    workspace = site.workspace("two")
    (workspace / ".codex").mkdir()
    (workspace / ".codex/config.toml").write_text('model = "x"\n', encoding="utf-8")
    other = place / "other"
    log_in(other, "codex", {"auth_mode": "apikey", "OPENAI_API_KEY": "sk-x"})
    converged(site, other, {**box, "name": "two", "workspace": str(workspace), "credentials": "seed"})
    # The model that the workspace asks for, which counts once that is trusted.
    assert "Trust" not in screen(site, "two", "x default")
    engines.remove_instance(workshop.engine, instance)  # before its image goes
