"""The engine that role docker promises."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT
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


def test_a_container_reaches_the_host_over_the_bridge(host: Host, image: str) -> None:
    address = host.check_output(f"docker run --rm {image} hostname -i")
    assert address.startswith("172.")
    assert "MASQUERADE" in host.check_output("iptables -t nat -S POSTROUTING")
