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

    def role(self, **variables: Any) -> runs.Run:
        return runs.play([runs.role_task("docker", variables)], variables=self.variables)

    def shell(self, command: str) -> str:
        name = self.variables["agentbox_test_host"]
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
    broken = host.role(docker_timeout=20)
    [failed] = [result for result in broken.results if result.get("failed")]
    assert "the engine ended right after its start" in failed["msg"]
    assert "invalid CIDR address: nonsense" in failed["msg"]
    host.shell("rm /etc/docker/daemon.json")
    assert changed(host.role()) == [START]

    # Absent, also the second time.
    assert len(changed(host.role(docker_state="absent"))) == 2
    assert host.shell("pgrep -x dockerd; command -v dockerd") == ""
    assert changed(host.role(docker_state="absent")) == []
