"""An engine that is absent, stopped, denied, hanging, elsewhere or full: told apart, and nothing is written."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration import engines, runs
from tests.integration.sites import Site

# Another user runs the module, with an interpreter that everybody may use.
AS_NOBODY = {
    "become": True,
    "become_method": "ansible.builtin.su",
    "become_user": "nobody",
    "become_flags": "-s /bin/sh",
    "vars": {"ansible_python_interpreter": "/usr/bin/python3"},
}
# Case -> what the error says; {place} is the directory of the module's tests.
MESSAGES = {
    "stopped": "nothing listens on the engine's socket {place}/stopped/docker.sock. Start the engine",
    "stopped, check mode": "nothing listens on the engine's socket {place}/stopped/docker.sock. Start the engine",
    "stopped, info": "nothing listens on the engine's socket {place}/stopped/docker.sock. Start the engine",
    "crashed": "nothing listens on the engine's socket {place}/crashed/docker.sock. Start the engine",
    "hanging": "the engine at {place}/hanging/docker.sock did not answer within",
    "denied": "permission denied on the engine's socket {place}/denied/docker.sock. Run as root or through sudo",
    "denied, info": "permission denied on the engine's socket {place}/denied/docker.sock. Run as root or through sudo",
    "environment": "nothing listens on the engine's socket {place}/none.sock",
    "environment, info": "nothing listens on the engine's socket {place}/none.sock",
    "tcp": "DOCKER_HOST tcp://192.0.2.1:2375 is not a local socket",
    "ssh": "DOCKER_HOST ssh://dev@host.example is not a local socket",
    "relative": "DOCKER_HOST unix://relative.sock is not a local socket",
    "nonsense": "DOCKER_HOST nonsense is not a local socket",
}


@pytest.fixture(scope="module")
def site(module_place: Path) -> Site:
    return Site(engines.new_instance_name(), module_place)


@pytest.fixture(scope="module")
def refused(site: Site) -> Iterator[dict[str, runs.Result]]:
    """Results by case, of one run in which each task meets another engine."""
    with ExitStack() as stack:
        hosts = {}
        for case in ("stopped", "crashed", "hanging", "denied"):
            (site.directory / case).mkdir()
            engine = stack.enter_context(engines.second_engine(site.directory / case))
            hosts[case] = engine.host
            if case == "stopped":
                engine.stop()
            elif case == "crashed":
                engine.crash()
            elif case == "hanging":
                stack.enter_context(engine.hanging())
            else:
                engine.socket.chmod(0o600)
        box = site.box("one")
        elsewhere = {"DOCKER_HOST": f"unix://{site.directory}/none.sock"}
        tasks = {
            "stopped": site.task(box, docker_host=hosts["stopped"]),
            "stopped, check mode": site.task(box, docker_host=hosts["stopped"], keywords={"check_mode": True}),
            "stopped, info": info_task(site, hosts["stopped"]),
            "crashed": site.task(box, docker_host=hosts["crashed"]),
            "hanging": site.task(box, docker_host=hosts["hanging"]),
            "denied": site.task(box, docker_host=hosts["denied"], keywords=AS_NOBODY),
            "denied, info": info_task(site, hosts["denied"], **AS_NOBODY),
            "environment": site.task(box, keywords={"environment": elsewhere}),
            "environment, info": info_task(site, environment=elsewhere),
            "tcp": site.task(box, docker_host="tcp://192.0.2.1:2375"),
            "ssh": site.task(box, docker_host="ssh://dev@host.example"),
            "relative": site.task(box, docker_host="unix://relative.sock"),
            "nonsense": site.task(box, docker_host="nonsense"),
        }
        run = runs.play(list(tasks.values()))
        yield dict(zip(tasks, run.results, strict=True))


def info_task(site: Site, host: str = "", **keywords: object) -> runs.Task:
    return runs.module_task("box_info", {"instance": site.instance, "docker_host": host}, **keywords)


@pytest.mark.parametrize("case", MESSAGES)
def test_each_is_told_apart_and_named(refused: dict[str, runs.Result], site: Site, case: str) -> None:
    result = refused[case]
    assert result["failed"] is True
    assert not result.get("changed")
    assert MESSAGES[case].format(place=site.directory) in result["msg"]
    assert not site.state_root.exists()


def test_absent_is_named_or_predicted_from(site: Site, place: Path) -> None:
    """Where no engine is installed; check mode predicts from that if an earlier task would install one."""
    predict = {"engine_absent": "predict"}
    tasks = [
        site.task(site.box("one")),
        info_task(site),
        site.task(site.box("one"), **predict),
        site.task(site.box("one"), **predict, keywords={"check_mode": True}),
    ]
    *failed, predicted = runs.play(tasks, prefix=engines.without_engine(place)).results
    for result in failed:
        assert result["failed"] is True
        assert "no engine is installed (nothing listens on /var/run/docker.sock, no dockerd)" in result["msg"]
    assert not predicted.get("failed"), predicted
    assert predicted["changed"] is True
    assert {"box": "one", "action": "create", "detail": site.container("one")} in predicted["actions"]
    assert not site.state_root.exists()


def test_nothing_is_there_to_be_removed_without_an_engine(site: Site, place: Path) -> None:
    """Also of a box with secrets; what an engine that is gone left on the disk goes."""
    absent = {"name": "one", "state": "absent"}
    left = Site(engines.new_instance_name(), place)
    Path(left.paths("one").mount).mkdir(parents=True)
    tasks = [
        site.task(absent, secrets={"one": {"TOKEN": "value-of-a-secret"}}),
        site.task(prune=True),
        site.task(absent, remove_volumes=True, keywords={"check_mode": True}),
        left.task(absent),
    ]
    *nothing, removed = runs.play(tasks, prefix=engines.without_engine(place)).results
    assert [(result["changed"], result.get("failed", False)) for result in nothing] == [(False, False)] * 3, nothing
    assert not site.state_root.exists()
    assert [action["action"] for action in removed["actions"]] == ["remove_path"]
    assert not removed.get("failed"), removed
    assert not Path(left.paths("one").directory).exists()


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


def test_full_disk_of_the_engine(place: Path, full_engine: engines.SecondEngine) -> None:
    site = Site(engines.new_instance_name(), place)
    box = site.box("one", image="tiny:latest", lead="none", agents=[], network="none")
    result = runs.play([site.task(box, docker_host=full_engine.host)]).results[0]
    assert result["failed"] is True
    assert site.container("one") in result["msg"]
    assert "no space left on device" in result["msg"]
    assert full_engine.client().containers(all=True) == []
