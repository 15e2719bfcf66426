"""The real Claude Code behind the thickest walls that a box can be given and keep its network."""

from __future__ import annotations

import re
from collections.abc import Iterator

import docker
import pytest

from tests.e2e.support import Json, MessagesApi
from tests.e2e.world import World, converged
from tests.integration import engines

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
WALLS = {"seccomp": "strict", "read_only": True}


@pytest.fixture(scope="module")
def world(engine: docker.APIClient, vendor: MessagesApi) -> Iterator[World]:
    with engines.short_directory() as directory, converged("dev", directory, engine, vendor.url, WALLS) as made:
        yield made


def test_the_agent_works(world: World, turn: list[Json]) -> None:
    assert (world.workspace / "made.txt").read_text(encoding="utf-8") == "by the agent\n"
    assert [event["type"] for event in turn][-1] == "Stop"
    assert "Seccomp:\t2" in world.box.exec("cat", "/proc/self/status")
    assert "Read-only file system" in world.box.exec("sh", "-c", "touch /etc/made 2>&1", check=False)


def test_the_box_is_healthy_and_stays_as_it_is(world: World, turn: list[Json]) -> None:
    doctor = world.site.agentbox("doctor")
    assert doctor.returncode == 0, doctor.output
    again = world.site.converge().succeeded()
    assert re.findall(r"^workstation\s+: ok=\d+\s+changed=(\d+)\s", again.output, re.MULTILINE) == ["0"], again.output
