"""Boxes made anew: nothing that lasts is lost, and whatever kills a run, the next one has a whole box."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _naming, _state, _swap
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


@pytest.mark.full
def test_a_file_that_was_lost_before_does_not_keep_the_old_one_from_coming_back(
    engine: docker.APIClient, site: Site
) -> None:
    Path(site.paths("one").passwd).unlink()
    failed = site.converge(declared(site, shm_size=ANEW, recreate="always"), files={**files(), "entry.sh": "exit 3\n"})
    assert "the old container is back" in box_of(failed)["msg"]
    assert_whole(engine, site, MADE)
    assert site.converge(declared(site))["changed"] is False


def rebuild(engine: docker.APIClient, reference: str, context: str) -> None:
    """Give ``reference`` to another image, which was built from ``context``."""
    made = engine.create_container(engines.IMAGE, ["true"], labels={"agentbox.test": "recreation"})
    try:
        repository, _, tag = reference.partition(":")
        engine.commit(made["Id"], repository, tag, changes=[f"LABEL {_naming.LABEL_CONTEXT}={context}"])
    finally:
        engine.remove_container(made["Id"])


def test_an_image_rebuilt_under_a_running_box_changes_it_only_on_request(
    engine: docker.APIClient, instance: str, place: Path
) -> None:
    """The box is kept and says so; made anew, it keeps its workspace and what is in its HOME."""
    site, image = Site(instance, place), f"{instance}:latest"
    rebuild(engine, image, "sha256:first")
    try:
        box = declared(site, lead="none", agents=[], image=image)
        assert not site.converge_here(box)["failed"]
        site.run("one", "echo token > ~/.token && echo work > /workspace/work")
        before = engine.inspect_container(site.container("one"))["Id"]
        rebuild(engine, image, "sha256:second")
        kept = site.converge_here(box)
        assert kept["changed"] is False
        assert [(item["path"], item["declared"], item["live"]) for item in kept["drift"]] == [
            ("image", f"{image} (second)", f"{image} (first)")
        ]
        assert engine.inspect_container(site.container("one"))["Id"] == before
        anew = site.converge_here({**box, "recreate": "drift"})
        assert [action["action"] for action in anew["actions"]] == ["recreate"]
        assert engine.inspect_container(site.container("one"))["Id"] != before
        assert site.run("one", "cat ~/.token /workspace/work").split() == ["token", "work"]
        again = site.converge_here(box)
        assert (again["changed"], again["drift"]) == (False, [])
    finally:
        engines.remove_instance(engine, instance)
        engine.remove_image(image, force=True)
