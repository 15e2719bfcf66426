"""Role docker on a host without systemd, where the package's init script cannot work and starts are forbidden."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests import hosts
from tests.integration import runs

START = "Start the engine and wait until it answers"
FORBID_STARTS = "printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d"
# Kills the engine as a crash would, and gives its numbers to another program.
CRASH = """
pkill -KILL -x dockerd; pkill -KILL -x containerd
while pgrep -x dockerd || pgrep -x containerd; do sleep 0.1; done
sleep 600 & other=$!
for file in /run/docker.pid /run/docker-ssd.pid /run/docker/containerd/containerd.pid; do echo $other > $file; done
"""


@dataclass(frozen=True)
class Host:
    variables: dict[str, Any]

    def role(self, *, check: bool = False, **variables: Any) -> runs.Run:
        return runs.play([runs.role_task("docker", variables)], check=check, variables=self.variables)

    def shell(self, command: str) -> str:
        name = self.variables["test_host"]
        done = subprocess.run(
            ["docker", "exec", name, "sh", "-c", command], capture_output=True, text=True, check=False
        )
        return done.stdout


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with hosts.host_without_systemd() as variables:
        yield Host(variables)


def changed(run: runs.Run) -> list[str]:
    assert run.returncode == 0, run.output
    assert not [result for result in run.results if result.get("failed")], run.output
    return run.changed


def failure(run: runs.Run) -> str:
    """The message of the first task that failed, before which nothing was changed."""
    first = next(index for index, result in enumerate(run.results) if result.get("failed"))
    assert not [result["task"] for result in run.results[:first] if result.get("changed")]
    message: str = run.results[first]["msg"]
    return message


def test_a_platform_that_was_never_tried_is_refused_before_anything_is_done(host: Host) -> None:
    host.shell("cp /etc/os-release /root/os-release; sed -i 's/debian/plan9/gI' /etc/os-release")
    refused = host.role(check=True)
    host.shell("cat /root/os-release > /etc/os-release")
    assert "installs one on Debian 12 and Debian 13 only, not on plan9 GNU/Linux 12" in failure(refused)


def test_an_unknown_user_is_refused_by_name(host: Host) -> None:
    refused = host.role(check=True, docker_users="root, nobody-of-that-name")
    [told] = [result["msg"] for result in refused.results if result.get("failed")]
    assert told == "docker_users: there is no user nobody-of-that-name on this host"


@pytest.mark.timeout(600)
def test_without_systemd_the_role_starts_the_engine_itself(host: Host) -> None:
    host.shell(FORBID_STARTS)
    assert START in changed(host.role())
    assert host.shell("docker version --format '{{.Server.Version}}'").strip()
    assert changed(host.role()) == []

    # A killed engine, with its number in use by another program: started again, and nothing else changes.
    host.shell(CRASH)
    assert changed(host.role()) == [START]
    assert host.shell("service docker status").strip().endswith("is running.")

    # A stopped one that cannot start: the reason from its log, soon.
    host.shell('service docker stop; echo \'{"bip": "nonsense"}\' > /etc/docker/daemon.json')
    message = failure(host.role(docker_timeout=20))
    assert "the engine ended right after its start" in message
    assert "invalid CIDR address: nonsense" in message
    host.shell("rm /etc/docker/daemon.json")
    assert changed(host.role()) == [START]

    # Absent, also the second time.
    assert len(changed(host.role(docker_state="absent"))) == 2
    assert host.shell("pgrep -x dockerd; command -v dockerd") == ""
    assert changed(host.role(docker_state="absent")) == []
