"""Fixtures of the tests on a real engine: instances that vanish afterwards, and engines to maltreat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import docker
import pytest

from tests.integration import engines
from tests.integration.workshops import Workshop

Instances = Callable[[], str]


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.APIClient]:
    """A client of the machine's engine."""
    client = engines.client()
    yield client
    client.close()


@contextmanager
def _instances(engine: docker.APIClient) -> Iterator[Instances]:
    with ExitStack() as stack:

        def new() -> str:
            name = engines.new_instance_name()
            stack.callback(engines.remove_instance, engine, name)
            return name

        yield new


@pytest.fixture
def instance(engine: docker.APIClient) -> Iterator[str]:
    """The name of a new instance; what carries its label is removed afterwards."""
    with _instances(engine) as new:
        yield new()


@pytest.fixture(scope="module")
def new_instance(engine: docker.APIClient) -> Iterator[Instances]:
    """Makes names of new instances; what carries their labels is removed after the last test of the module."""
    with _instances(engine) as new:
        yield new


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for state and workspaces that is removed afterwards."""
    with engines.short_directory() as path:
        yield path


@pytest.fixture(scope="module")
def module_place() -> Iterator[Path]:
    """As ``place``, for all tests of a module."""
    with engines.short_directory() as path:
        yield path


@pytest.fixture(scope="module")
def second_engine(module_place: Path) -> Iterator[engines.SecondEngine]:
    """A running engine of the module's own, without network; a test that stops it starts it again."""
    directory = module_place / "engine"
    directory.mkdir()
    with engines.second_engine(directory) as second:
        yield second


@pytest.fixture
def workshop(engine: docker.APIClient, instance: str, place: Path) -> Iterator[Workshop]:
    made = Workshop(engine, instance, place)
    yield made
    made.remove()


@pytest.fixture
def built(workshop: Workshop) -> Workshop:
    """A workshop with its image."""
    assert workshop.build()["changed"]
    return workshop
