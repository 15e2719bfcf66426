"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from tests.e2e.support import Json, MessagesApi, Outcome, bridge_address, messages_api
from tests.e2e.world import World, converged
from tests.integration import engines


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.APIClient]:
    """A client of the machine's engine."""
    client = engines.client()
    yield client
    client.close()


@pytest.fixture(scope="session")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessagesApi]:
    """The double of the vendor's API, where every box on a bridge network can reach it."""
    with messages_api(bridge_address(), tmp_path_factory.mktemp("vendor") / "requests.jsonl") as double:
        yield double


@pytest.fixture(scope="module", params=["dev", "root"])
def world(request: pytest.FixtureRequest, engine: docker.APIClient, vendor: MessagesApi) -> Iterator[World]:
    """`site.yml` run on nothing, for workspaces of the ordinary user dev and for workspaces of root."""
    with engines.short_directory() as directory, converged(request.param, directory, engine, vendor.url) as made:
        yield made


@pytest.fixture(scope="module")
def turn(world: World) -> list[Json]:
    """The events of one turn, in which the agent made a file in the workspace and appended to another."""
    world.wait_until_ready()
    return world.turn("RUN: echo by the agent > made.txt && echo more >> README && cat made.txt", "Finished: by the")


@pytest.fixture(scope="module")
def second_run(world: World, turn: list[Json]) -> Outcome:
    """`site.yml` run again, after the agent has worked."""
    return world.site.converge("-vvv", "--diff").succeeded()
