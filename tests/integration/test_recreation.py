"""Boxes made anew: nothing that lasts is lost, and whatever kills a run, the next one has a whole box."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _engine, _state, _swap
from tests.integration import engines, runs
from tests.integration.sites import Site, files

MADE, ANEW = 256 << 20, 300 << 20  # sizes of /dev/shm in bytes: by default, and in the changed declaration


def declared(site: Site, **changed: Any) -> dict[str, Any]:
    return site.box("one", **changed)


@pytest.fixture
def site(instance: str, place: Path) -> Site:
    """An instance with box ``one``, in whose HOME a file lies."""
    site = Site(instance, place)
    created = site.converge(declared(site))
    assert not created.get("failed"), created["msg"]
    return site


def names(engine: docker.APIClient, site: Site) -> list[str]:
    found = engine.containers(all=True, filters={"label": f"agentbox.instance={site.instance}"})
    return sorted(item["Names"][0].lstrip("/") for item in found)


def box_of(result: runs.Result) -> dict[str, Any]:
    found: dict[str, Any] = result["boxes"][0]
    return found


def assert_whole(engine: docker.APIClient, site: Site, shm_size: int) -> None:
    """One container with the right /dev/shm runs, its files describe it, and no journal is left."""
    assert names(engine, site) == [site.container("one")]
    live = engine.inspect_container(site.container("one"))
    assert live["State"]["Running"] is True
    assert live["HostConfig"]["ShmSize"] == shm_size
    record = _state.read_json(site.paths("one").record)
    assert record is not None
    assert record["spec"]["shm_size"] == shm_size
    assert not Path(_swap.journal_path(site.paths("one"))).exists()


def test_a_differing_box_is_made_anew_and_keeps_what_lasts(engine: docker.APIClient, site: Site) -> None:
    before = engine.inspect_container(site.container("one"))["Id"]
    run = engine.exec_create(before, ["touch", "/home/agent/kept", "/workspace/kept"])
    engine.exec_start(run["Id"])
    kept = site.converge(declared(site, shm_size=ANEW))
    assert (kept["changed"], [item["path"] for item in kept["drift"]]) == (False, ["shm_size"])
    anew = site.converge(declared(site, shm_size=ANEW, recreate="drift"))
    assert [action["action"] for action in anew["actions"]] == ["recreate"]
    assert_whole(engine, site, ANEW)
    live = engine.inspect_container(site.container("one"))
    assert live["Id"] != before
    run = engine.exec_create(live["Id"], ["ls", "/home/agent/kept", "/workspace/kept"])
    assert engine.exec_start(run["Id"]).split() == [b"/home/agent/kept", b"/workspace/kept"]
    assert site.converge(declared(site, shm_size=ANEW, recreate="drift"))["changed"] is False


def test_somebody_who_is_attached_is_spared(engine: docker.APIClient, site: Site) -> None:
    container = site.container("one")
    run = engine.exec_create(container, ["script", "-qc", "tmux -L agentbox attach", "/dev/null"], tty=True)
    run_id = run["Id"]
    wait = ["bash", "-c", "until tmux -L agentbox has-session; do sleep 0.1; done"]
    engine.exec_start(engine.exec_create(container, wait)["Id"])
    terminal = engine.exec_start(run_id, tty=True, socket=True)
    seen = ["bash", "-c", "until tmux -L agentbox list-clients | grep -q .; do sleep 0.1; done"]
    engine.exec_start(engine.exec_create(container, seen)["Id"])
    before = engine.inspect_container(container)["Id"]
    spared = site.converge(declared(site, shm_size=ANEW, recreate="drift"))
    assert (spared["changed"], [item["path"] for item in spared["drift"]]) == (False, ["shm_size"])
    assert engine.inspect_container(container)["Id"] == before
    busy = site.converge(declared(site, shm_size=ANEW, recreate="drift"), recreate_busy=True)
    terminal.close()
    assert busy["changed"] is True
    assert_whole(engine, site, ANEW)


def test_a_new_container_that_fails_brings_the_old_one_back(engine: docker.APIClient, site: Site) -> None:
    container = site.container("one")
    before = engine.inspect_container(container)["Id"]
    broken = {**files(), "entry.sh": "echo no such luck\nexit 3\n"}
    failed = site.converge(declared(site, shm_size=ANEW, recreate="always"), files=broken)
    assert failed["failed"] is True
    assert "does not stay up" in box_of(failed)["msg"]
    assert "no such luck" in box_of(failed)["msg"]
    assert "the old container is back" in box_of(failed)["msg"]
    assert engine.inspect_container(container)["Id"] == before
    assert_whole(engine, site, MADE)
    entry = Path(site.paths("one").mount, "entry.sh")
    assert entry.read_text(encoding="utf-8") == files()["entry.sh"]
    assert entry.stat().st_mode & 0o777 == 0o755


def _die(_line: str = "") -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def _recreate_and_die(site: Site, live: dict[str, Any], moment: str) -> None:
    """Start a recreation that is killed before anything, with nothing new yet, or with the new container running."""
    engine = _engine.connect()
    made = {**live["Config"], "HostConfig": live["HostConfig"]}

    def create() -> str:
        if moment == "set aside":
            _die()
        return str(engine.client.create_container_from_config(made, site.container("one"))["Id"])

    def report(line: str) -> None:
        if moment in line:
            _die()

    record = _state.json_file(site.paths("one").record, {"spec": {}}, 0o600)
    name = site.container("one")
    _swap.recreate(engine, site.paths("one"), name, live, files=(record,), create=create, wait=60.0, report=report)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("setting the old container aside", marks=pytest.mark.full),
        "set aside",
        pytest.param("waiting until", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("goes", [False, pytest.param(True, marks=pytest.mark.full)], ids=["converged", "removed"])
def test_a_run_killed_amid_a_recreation_is_taken_up(
    engine: docker.APIClient, site: Site, moment: str, goes: bool
) -> None:
    live = engine.inspect_container(site.container("one"))
    process = multiprocessing.get_context("fork").Process(target=_recreate_and_die, args=(site, live, moment))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert Path(_swap.journal_path(site.paths("one"))).exists()
    if goes:
        removed = site.converge({"name": "one", "state": "absent"})
        assert not removed.get("failed"), removed.get("msg")
        assert names(engine, site) == []
        assert not Path(site.paths("one").directory).exists()
        return
    predicted = site.converge(declared(site), check=True)
    assert Path(_swap.journal_path(site.paths("one"))).exists()
    taken_up = site.converge(declared(site))
    assert not taken_up.get("failed"), taken_up.get("msg")
    assert predicted["actions"][0]["action"] == "finish_swap"
    assert engine.inspect_container(site.container("one"))["Id"] == live["Id"]
    assert_whole(engine, site, MADE)
    assert site.converge(declared(site))["changed"] is False


def test_a_run_killed_after_the_new_container_worked_is_finished(engine: docker.APIClient, site: Site) -> None:
    container = site.container("one")
    live = engine.inspect_container(container)
    aside = engine.create_container(engines.IMAGE, ["true"], name=f"{container}{_swap.ASIDE}")
    swap = {"container": container, "old": aside["Id"], "was_running": True, "previous": {}, "committed": True}
    _state.write_file(_state.json_file(_swap.journal_path(site.paths("one")), swap, 0o600))
    finished = site.converge(declared(site))
    assert [action["action"] for action in finished["actions"]] == ["finish_swap"]
    assert engine.inspect_container(container)["Id"] == live["Id"]
    assert_whole(engine, site, MADE)
