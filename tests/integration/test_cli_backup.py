"""A person takes a box along: `agentbox export` here, `agentbox import` there, and the agent goes on where it was."""

from __future__ import annotations

import json
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.integration import engines
from tests.integration.test_cli import HIDDEN, Desk, new_desk

RESUMED = 60.0  # seconds for the lead to run
# A turn of the recorded conversation, and what a login leaves.
CONVERSE = """
id=$(python3 -c 'import json; print(json.load(open("/home/agent/.agentbox/lead.json"))["session_id"])')
mkdir -p ~/.claude/projects/-workspace
echo '{"type":"user","message":{"role":"user","content":"hello"}}' > ~/.claude/projects/-workspace/$id.jsonl
echo '{}' > ~/.claude/.credentials.json
echo $id
"""


@pytest.fixture(scope="module")
def desk(module_place: Path) -> Iterator[Desk]:
    engine = engines.client()
    with new_desk(engine, module_place) as found:
        config = found.home / ".config/agentbox/config.yml"
        config.parent.mkdir(parents=True)
        config.write_text("memory: 900m\ncpus: 1\nsecrets: {TEST_TOKEN: {env: THE_TOKEN}}\n")
        yield found
    engine.close()


def run_in(container: str, script: str) -> str:
    done = subprocess.run(
        ["docker", "exec", container, "bash", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def arguments_of_the_lead(container: str) -> list[str]:
    """The arguments that the agent was started with, as soon as it runs."""
    deadline = time.monotonic() + RESUMED
    while time.monotonic() < deadline:
        shown = run_in(container, "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f 2>/dev/null; echo; done")
        found = [line.split() for line in shown.splitlines() if "--teammate-mode" in line]
        if found:
            return found[0]
        time.sleep(0.5)
    raise AssertionError("no lead runs")


def test_a_file_that_is_no_backup_is_refused_before_anything(engine: docker.APIClient, desk: Desk) -> None:
    file = desk.directory / "text"
    file.write_text("no archive")
    for name, reason in (("text", "is no sound backup"), ("none", "cannot read")):
        refused = desk.run("import", str(desk.directory / name))
        assert refused.returncode == 2
        assert reason in refused.stderr
    none = desk.run("export", "--name", "nobody")
    assert (none.returncode, "there is no box nobody" in none.stderr) == (1, True)
    assert engines.belongings(engine, desk.instance) == {"containers": {}, "volumes": [], "networks": []}


@pytest.mark.full
def test_a_box_moves_with_its_conversation(engine: docker.APIClient, desk: Desk) -> None:
    began = desk.run("up", "--port", str(desk.port))
    assert began.returncode == 0, began.stderr
    conversation = run_in(desk.instance, CONVERSE)
    file = desk.directory / "box.tar.gz"
    exported = desk.run("export", "--output", str(file))
    assert exported.returncode == 0, exported.stderr
    assert "left out, logins: .claude/.credentials.json (--with-logins" in exported.stdout
    assert "left out, values of secrets: TEST_TOKEN (--with-secrets" in exported.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = desk.run("export", "--output", str(file))
    assert (again.returncode, "exists already" in again.stderr) == (2, True)

    before = engine.inspect_container(desk.instance)["Id"]
    refused = desk.run("import", str(file))
    assert refused.returncode == 2
    assert "there is a box default already" in refused.stderr
    assert "--name" in refused.stderr
    assert engine.inspect_container(desk.instance)["Id"] == before
    kept = desk.run("down")
    refused = desk.run("import", str(file))
    assert (kept.returncode, refused.returncode) == (0, 2)
    assert "HOME of box default" in refused.stderr

    assert desk.run("down", "--volumes").returncode == 0
    imported = desk.run("import", str(file), "--port", str(desk.port))
    assert imported.returncode == 0, imported.stderr
    assert "the backup has no values of its secrets TEST_TOKEN" in imported.stderr
    assert imported.stdout.startswith(f"box       {desk.instance} (started), workspace {desk.workspace}\n")
    assert arguments_of_the_lead(desk.instance)[-2:] == ["--resume", conversation]
    assert run_in(desk.instance, "ls -A ~/.claude/.credentials.json || true") == ""
    attached = desk.run("up")
    assert attached.returncode == 0, attached.stderr


@pytest.mark.full
def test_secrets_travel_when_asked_for_and_stand_nowhere(engine: docker.APIClient, desk: Desk) -> None:
    here, elsewhere = desk.directory / "here", desk.directory / "elsewhere"
    for directory in (here, elsewhere):
        directory.mkdir()
    assert desk.run("up", "--name", "secret", cwd=here).returncode == 0
    file = desk.directory / "secret.tar.gz"
    exported = desk.run("export", "--name", "secret", "--output", str(file), "--with-secrets")
    imported = desk.run("import", str(file), "--name", "other", cwd=elsewhere)
    assert (exported.returncode, imported.returncode) == (0, 0), imported.stderr
    other = engine.inspect_container(f"{desk.instance}-other")
    assert run_in(f"{desk.instance}-other", "cat /agentbox/secrets/TEST_TOKEN") == HIDDEN
    shown = [exported.stdout, exported.stderr, imported.stdout, imported.stderr, json.dumps(other)]
    shown += [path.read_text() for path in (desk.state / "logs").glob("*.log")]
    assert not [text for text in shown if HIDDEN in text]
