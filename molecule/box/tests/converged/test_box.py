"""The boxes that the role promises, as the engine, their page and their tmux show them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from testinfra.host import Host

SECRET = "not-shown-anywhere"  # noqa: S105 -- a made-up one
SECRET_FILE = "/var/lib/agentbox/agentbox/boxes/default/mount/secrets/MOLECULE_TOKEN"  # noqa: S105 -- a path
HEALTHY = "for i in $(seq 60); do curl -fsS -m 3 http://127.0.0.1:4317/healthz && exit 0; sleep 1; done; exit 1"
WINDOWS = "tmux -L agentbox list-windows -t agentbox -F '#{window_name}'"


@pytest.fixture(scope="module", params=["agentbox", "agentbox-second"])
def box(host: Host, request: pytest.FixtureRequest) -> dict[str, Any]:
    [found] = json.loads(host.check_output(f"docker inspect {request.param}"))
    result: dict[str, Any] = found
    return result


def test_it_is_hardened(box: dict[str, Any]) -> None:
    settings = box["HostConfig"]
    assert settings["CapDrop"] == ["ALL"]
    assert not settings["CapAdd"]
    assert "no-new-privileges" in [option.partition(":")[0] for option in settings["SecurityOpt"]]
    assert settings["Privileged"] is False
    assert settings["Memory"] == settings["MemorySwap"] == 512 * 1024 * 1024
    assert settings["PidsLimit"] == 512
    assert not box["Config"]["User"].startswith("0:")


def test_it_runs(box: dict[str, Any]) -> None:
    assert box["State"]["Running"]


def test_the_secret_is_nowhere_in_it(host: Host, box: dict[str, Any]) -> None:
    assert SECRET not in json.dumps(box)


def test_the_secret_is_for_the_box_only(host: Host) -> None:
    file = host.file(SECRET_FILE)
    assert file.mode == 0o400
    assert file.user == "dev"
    assert file.content_string.strip() == SECRET


def test_the_page_is_healthy(host: Host) -> None:
    container = "docker exec agentbox sh -c %s"
    assert host.run(container, HEALTHY).succeeded


def test_its_windows(host: Host) -> None:
    assert host.check_output(f"docker exec agentbox {WINDOWS}").split() == ["main", "observer"]


def test_what_it_writes_belongs_to_the_owner_of_the_workspace(host: Host) -> None:
    assert host.run("docker exec agentbox touch /workspace/from-the-box").succeeded
    assert host.file("/srv/code/from-the-box").user == "dev"


def test_it_may_write_into_a_workspace_of_root(host: Host) -> None:
    assert host.run("docker exec agentbox-second touch /workspace/from-the-box").succeeded
    assert host.file("/srv/other").user == "root"
