"""An engine that is absent, stopped, denied, hanging, elsewhere or full: told apart, and nothing is written."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.integration import engines, runs
from tests.integration.sites import Site

BECOME = {"become": True, "become_method": "ansible.builtin.su", "become_user": "nobody", "become_flags": "-s /bin/sh"}
MODULES = ("box", "box_info")


@pytest.fixture
def site(place: Path) -> Site:
    return Site(engines.new_instance_name(), place)


def tasks(site: Site, host: str | None, **keywords: Any) -> list[runs.Task]:
    """Every module that needs the engine, once."""
    address = {"docker_host": host} if host else {}
    return [
        site.task(site.box("one"), keywords=keywords, **address),
        site.task(site.box("one"), keywords={**keywords, "check_mode": True}, **address),
        runs.module_task("box_info", {"instance": site.instance, **address}, **keywords),
    ]


def assert_refused(site: Site, results: list[runs.Result], *parts: str) -> None:
    assert len(results) == len(tasks(site, None))
    for result in results:
        assert result["failed"] is True
        assert not result.get("changed")
        for part in parts:
            assert part in result["msg"]
    assert not site.state_root.exists()


def test_stopped_in_order(site: Site, second_engine: engines.SecondEngine) -> None:
    second_engine.stop()
    try:
        results = runs.play(tasks(site, second_engine.host)).results
    finally:
        second_engine.start()
    assert_refused(site, results, f"nothing listens on the engine's socket {second_engine.socket}", "Start the engine")


def test_crashed(site: Site, second_engine: engines.SecondEngine) -> None:
    second_engine.crash()
    try:
        results = runs.play(tasks(site, second_engine.host)).results
    finally:
        second_engine.start()
    assert_refused(site, results, f"nothing listens on the engine's socket {second_engine.socket}", "Start the engine")


def test_denied(site: Site, second_engine: engines.SecondEngine) -> None:
    """Another user runs the modules; the engine's socket is root's."""
    second_engine.socket.chmod(0o600)
    run = runs.play(
        tasks(site, second_engine.host, **BECOME), variables={"ansible_python_interpreter": "/usr/bin/python3"}
    )
    assert_refused(site, run.results, f"permission denied on the engine's socket {second_engine.socket}")


def test_hanging(site: Site, second_engine: engines.SecondEngine) -> None:
    """A stopped process still accepts connections; one task is enough, it waits for the probe's time."""
    with second_engine.hanging():
        start = time.monotonic()
        result = runs.play(tasks(site, second_engine.host)[:1]).results[0]
        seconds = time.monotonic() - start
    assert result["failed"] is True
    assert f"the engine at {second_engine.socket} did not answer within" in result["msg"]
    assert seconds < 30
    assert not site.state_root.exists()


def test_absent(site: Site, place: Path) -> None:
    run = runs.play(tasks(site, None), prefix=engines.without_engine(place))
    assert_refused(site, run.results, "no engine is installed", "/var/run/docker.sock")


def test_absent_engine_that_is_going_to_be_installed_is_predicted_from(site: Site, place: Path) -> None:
    task = site.task(site.box("one"), engine_absent="predict", keywords={"check_mode": True})
    result = runs.play([task], prefix=engines.without_engine(place)).results[0]
    assert not result.get("failed"), result
    assert result["changed"] is True
    assert [action["box"] for action in result["actions"] if action["action"] == "create"] == ["one"]
    assert not site.state_root.exists()


def test_the_environment_names_the_engine(site: Site, second_engine: engines.SecondEngine, place: Path) -> None:
    """DOCKER_HOST counts for every module; a wrong one is named with its path."""
    info = runs.module_task("box_info", {"instance": site.instance})
    right = runs.play([info], environment={"DOCKER_HOST": second_engine.host}).results[0]
    assert not right.get("failed"), right
    wrong = runs.play(tasks(site, None), environment={"DOCKER_HOST": f"unix://{place}/none.sock"})
    assert_refused(site, wrong.results, f"{place}/none.sock")


@pytest.mark.parametrize(
    "address", ["tcp://192.0.2.1:2375", "ssh://dev@host.example", "unix://relative.sock", "nonsense"]
)
def test_an_address_that_is_no_local_socket(site: Site, address: str) -> None:
    result = runs.play(tasks(site, address)[:1]).results[0]
    assert result["failed"] is True
    assert address in result["msg"]
    assert not site.state_root.exists()


@pytest.fixture
def full_engine(place: Path) -> Iterator[engines.SecondEngine]:
    """An engine whose data lie on a disk that has no space left."""
    directory = place / "full"
    directory.mkdir()
    with (
        engines.mounted("tmpfs", directory / "data", options="size=16m,mode=0711") as data,
        engines.second_engine(directory) as engine,
    ):
        engine.client().import_image_from_data(_tiny_archive(), repository="tiny", tag="latest")
        engines.fill(data)
        yield engine


def _tiny_archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    return buffer.getvalue()


def test_full_disk_of_the_engine(site: Site, full_engine: engines.SecondEngine) -> None:
    result = runs.play(
        [site.task(site.box("one", image="tiny:latest", lead="none", agents=[]), docker_host=full_engine.host)]
    )
    found = result.results[0]
    assert found["failed"] is True
    assert "no space left on device" in found["msg"].lower()
    assert site.container("one") in found["msg"]
    left: docker.APIClient = full_engine.client()
    assert left.containers(all=True) == []
