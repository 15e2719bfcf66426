"""`make up` turns a fresh machine into a running agent box: engine, image, box and page from nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.pages import script
from tests.e2e.workstation import Transcript, Workstation, fresh_machine

pytestmark = pytest.mark.timeout(1500)

SILENCE = 15.0  # seconds; progress comes at least every 10, the rest is slack for a busy machine
BOX_UID = 1000  # the agent's when root asks for a box
PAGE = "http://127.0.0.1:4317"
FETCH = "python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read().decode())'"


@pytest.fixture(scope="module")
def machine() -> Iterator[Workstation]:
    """A fresh machine with the user dev, who may not become root; root and dev each have a clone."""
    with fresh_machine() as fresh:
        fresh.make_user("dev")
        fresh.clone_repository("dev")
        fresh.clone_repository("root")
        yield fresh


@pytest.fixture(scope="module")
def refused(machine: Workstation) -> Transcript:
    """The first thing ever called on the machine: `make up` by somebody who cannot become root."""
    return machine.run("dev", "cd agentbox && make up")


@pytest.fixture(scope="module")
def first_run(machine: Workstation, refused: Transcript) -> Transcript:
    """`make up` by root on the machine that the refused run left untouched."""
    return machine.run("root", "cd agentbox && make up")


@pytest.fixture(scope="module")
def installed(machine: Workstation, first_run: Transcript) -> Workstation:
    """The machine with root's box running."""
    assert first_run.returncode == 0, first_run.output
    return machine


def running_box(machine: Workstation) -> list[str]:
    """What differs as soon as the default box is made anew or restarted: container, image, time of its start."""
    fields = "{{.Id}} {{.Image}} {{.State.StartedAt}}"
    return machine.run("root", f"docker inspect --format '{fields}' agentbox").output.split()[1:]


def test_sudo_that_would_ask_without_a_terminal_is_one_clear_error(machine: Workstation, refused: Transcript) -> None:
    assert refused.returncode != 0
    assert "sudo asks for a password and there is no terminal" in refused.output
    assert "Traceback" not in refused.output
    assert machine.run("dev", "ls -d agentbox/.venv agentbox-workspace").returncode != 0


def test_make_up_ends_with_what_the_user_needs_next(first_run: Transcript) -> None:
    assert first_run.returncode == 0, first_run.output
    assert PAGE in first_run.output
    assert "agentbox attach" in first_run.output
    assert "claude auth login" in first_run.output


def test_make_up_never_leaves_the_user_without_news(first_run: Transcript) -> None:
    assert first_run.longest_silence < SILENCE, first_run.output


def test_the_box_works_on_the_default_workspace_with_the_agent_in_it(installed: Workstation) -> None:
    workspace = installed.run("root", "stat -c '%u %F' /root/agentbox-workspace")
    assert workspace.output.endswith(f"{BOX_UID} directory")
    version = installed.run("root", "docker exec agentbox claude --version")
    assert "Claude Code" in version.output


def test_the_page_answers(installed: Workstation) -> None:
    page = installed.run("root", f"{FETCH} {PAGE}/healthz")
    assert page.returncode == 0, page.output


def test_doctor_finds_the_machine_healthy(installed: Workstation) -> None:
    doctor = installed.run("root", "agentbox/.venv/bin/agentbox doctor --json 2>/dev/null")
    assert doctor.returncode == 0, doctor.output
    report = json.loads("\n".join(line for _, line in doctor.lines))
    assert report["verdict"] in {"ok", "warn"}


def test_a_second_make_up_changes_nothing(installed: Workstation) -> None:
    before = running_box(installed)
    again = installed.run("root", "cd agentbox && make up")
    assert again.returncode == 0, again.output
    assert PAGE in again.output
    assert "Build the image (" not in again.output
    assert running_box(installed) == before


@pytest.mark.full
def test_an_ordinary_user_gets_a_box_of_their_own_through_sudo(installed: Workstation) -> None:
    """And another user's box of the same name stays theirs."""
    installed.allow_sudo("dev")
    taken = installed.run("dev", "cd agentbox && make up")
    assert "Error 2" in taken.output, "make reports the exit code of agentbox"
    assert "--name" in taken.output
    own = installed.run("dev", "cd agentbox && make up", {"AGENTBOX_NAME": "dev"})
    assert own.returncode == 0, own.output
    workspace = installed.run("dev", "stat -c %U agentbox-workspace")
    assert workspace.output.endswith("dev")
    written = installed.run(
        "root", "docker exec agentbox-dev touch /workspace/note && stat -c %U /home/dev/agentbox-workspace/note"
    )
    assert written.output.endswith("dev"), written.output


# The pages a newcomer follows, last, because they take everything away in the end.


def test_the_tutorial_works_as_written(installed: Workstation) -> None:
    done = installed.run("root", script("tutorial.md"))
    assert done.returncode == 0, done.output
    assert "agentbox-review" not in installed.run("root", "docker ps --all --format '{{.Names}}'").output


@pytest.mark.full
def test_every_command_of_the_how_to_page_works(installed: Workstation) -> None:
    done = installed.run("root", f"cd agentbox\n{script('how-to.md')}")
    assert done.returncode == 0, done.output
