"""The image that the role promises, as the engine and a container of it show it."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

RUN = "docker run --rm agentbox:latest"


@pytest.fixture(scope="module")
def labels(host: Host) -> dict[str, str]:
    found: dict[str, str] = json.loads(
        host.check_output("docker image inspect --format '{{json .Config.Labels}}' agentbox:latest")
    )
    return found


def test_labels_say_what_is_in_it(labels: dict[str, str]) -> None:
    assert labels["agentbox.instance"] == "agentbox"
    assert labels["agentbox.agents"] == "standin=0.28.2"
    assert labels["agentbox.context"]
    assert labels["agentbox.base"]


def test_the_agent_runs_in_a_login_shell_of_the_user(host: Host) -> None:
    assert host.check_output(f"{RUN} bash -lc 'id -un; esbuild --version'").split() == ["agent", "0.28.2"]


@pytest.mark.parametrize("program", ["tmux -V", "git --version", "/opt/agentbox/bin/python -c 'import agentbox'"])
def test_what_a_box_needs_is_there(host: Host, program: str) -> None:
    assert host.run(f"{RUN} {program}").succeeded


def test_home_belongs_to_every_user_of_the_group(host: Host) -> None:
    assert host.check_output(f"{RUN} stat -c '%g %a' /home/agent") == "0 770"
