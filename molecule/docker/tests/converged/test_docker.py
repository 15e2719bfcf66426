"""The engine that role docker promises."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import ROOT, Scenario
from testinfra.host import Host

HARDENED = "--cap-drop=ALL --security-opt=no-new-privileges --read-only --memory=64m --memory-swap=64m --pids-limit=50"


@pytest.fixture(scope="module")
def image() -> str:
    """An image in the host's engine, from the engine outside."""
    load = [sys.executable, "-m", "tests.hosts", "load-base"]
    loaded = subprocess.run(load, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return loaded.stdout.strip().removeprefix("Loaded image: ")


def test_the_unit_runs_and_starts_with_the_host(host: Host) -> None:
    unit = host.service("docker")
    assert unit.is_running
    assert unit.is_enabled


def test_no_recommended_packages_came_along(host: Host) -> None:
    assert not host.package("git").is_installed


def test_the_user_may_use_the_engine(host: Host) -> None:
    assert "docker" in host.user("dev").groups
    assert host.run("su dev -c 'docker version'").succeeded


def test_the_modules_have_their_library(host: Host) -> None:
    assert host.run("/usr/bin/python3 -c 'import docker'").succeeded


def test_a_hardened_container_runs(host: Host, image: str) -> None:
    limit = host.check_output(f"docker run --rm {HARDENED} {image} sh -c 'id -u; grep CapEff /proc/self/status'")
    assert limit.split() == ["0", "CapEff:", "0000000000000000"]


def test_a_container_reaches_the_network_beyond_its_host(host: Host, image: str) -> None:
    """A closed port of the machine outside answers at once, which only happens where packets are forwarded."""
    beyond = host.check_output("ip -4 route show default").split()[2]
    script = f"hostname -i; exec timeout 20 bash -c ': <>/dev/tcp/{beyond}/9'"
    asked = host.run(f"docker run --rm {image} bash -c %s", script)
    assert "Connection refused" in asked.stderr
    assert asked.stdout.startswith("198.51.100.")
    assert "MASQUERADE" in host.check_output("iptables -t nat -S POSTROUTING")


def test_hardening_and_engine_leave_each_other_alone(host: Host, scenario: Scenario) -> None:
    assert scenario.runs("hardening.yml") == [[]]
    host.check_output("sysctl --system")
    assert host.sysctl("net.ipv4.ip_forward") == 1


def test_the_engine_works_by_what_is_declared(host: Host) -> None:
    daemon = host.file("/etc/docker/daemon.json")
    assert json.loads(daemon.content_string) == {
        "default-address-pools": [{"base": "198.51.100.0/24", "size": 28}],
        "log-driver": "json-file",
        "log-level": "warn",  # somebody else's
        "log-opts": {"compress": "true", "max-file": "3", "max-size": "10m"},
        "max-concurrent-downloads": 2,
    }
    assert daemon.content_string.startswith('{"log-level":   "warn"')
    assert daemon.mode == 0o600
    assert host.check_output("docker info --format '{{.LoggingDriver}}'") == "json-file"


def test_the_engine_has_the_proxy_and_nobody_else_its_password(host: Host) -> None:
    file = host.file("/etc/docker/agentbox-proxy.env")
    assert (file.user, file.mode) == ("root", 0o600)
    assert "192.0.2.1:3128" in host.check_output("docker info --format '{{.HTTPSProxy}}'")
    assert "127.0.0.1" in host.check_output("docker info --format '{{.NoProxy}}'")
    told = host.check_output("systemctl show docker.service; journalctl --no-pager; docker info")
    assert "canary-password" not in told
    assert host.check_output("grep --recursive --files-with-matches canary-password /etc /var/log") == file.path
