"""What is rarely there: boxes that are not, leftovers, names that meet, labels and containers of strangers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _engine, _naming, _swap
from agentbox._shared._errors import EngineError
from agentbox._shared._volumes import Volume, unprepared
from agentbox.cli import playbook
from tests.integration import engines, runs
from tests.integration.sites import Site, manifests


@pytest.fixture(scope="module")
def created(new_instance: Callable[[], str], module_place: Path) -> tuple[Site, list[runs.Result]]:
    """Box ``one``, without secrets, and the results of its prediction and its creation."""
    site = Site(new_instance(), module_place)
    task = site.task(site.box("one"))
    results = runs.play([{**task, "check_mode": True}, task], diff=True).results
    assert not results[1].get("failed"), results[1]
    return site, results


@pytest.fixture
def site(created: tuple[Site, list[runs.Result]]) -> Site:
    return created[0]


@pytest.fixture
def stranger(engine: docker.APIClient) -> Iterator[Callable[..., str]]:
    """Makes containers that are not Agentbox's; returns their ids."""
    made: list[str] = []

    def make(name: str, labels: dict[str, str] | None = None) -> str:
        made.append(engine.create_container(engines.IMAGE, ["true"], name=name, labels=labels)["Id"])
        return made[-1]

    yield make
    for container in made:
        engine.remove_container(container, force=True)


def exists(engine: docker.APIClient, container: str) -> bool:
    return bool(engine.containers(all=True, filters={"id": container}))


def test_check_mode_shows_the_difference_that_the_run_makes(created: tuple[Site, list[runs.Result]]) -> None:
    """Of new files and, although the box has no secret, of changed ones."""
    site, (predicted, made) = created
    assert predicted["diff"] == made["diff"]
    Path(site.paths("one").mount, "tmux.conf").write_text("changed\n", encoding="utf-8")
    task = site.task(site.box("one"))
    predicted, repaired = runs.play([{**task, "check_mode": True}, task], diff=True).results
    assert predicted["diff"] == repaired["diff"]
    assert repaired["diff"]["before"] != repaired["diff"]["after"]


def run_stop(site: Site, scratch: Path, *boxes: dict[str, Any]) -> str:
    """Run the playbook ``stop`` for ``boxes``; its output."""
    variables = {
        "agentbox_instance": site.instance,
        "agentbox_state_root": str(site.state_root),
        "agentbox_become": False,
        "ansible_python_interpreter": sys.executable,
        "agentbox_boxes": list(boxes),
        "agentbox_manifests": {"standin": manifests()["standin"]},
    }
    (scratch / "ansible.cfg").touch()
    (scratch / "variables.yml").write_text(playbook.inert_yaml(variables), encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ansible", "playbook", "--inventory=localhost,", "--connection=local"),
            *(f"--extra-vars=@{scratch}/variables.yml", "agentbox.fleet.stop"),
        ],
        env=playbook.environment(os.environ, scratch),
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_stopping_makes_no_box_and_leaves_absent_ones_absent(
    engine: docker.APIClient, site: Site, tmp_path: Path
) -> None:
    run_stop(site, tmp_path, site.box("one"), site.box("missing"), site.box("gone", state="absent"))
    found = engine.containers(all=True, filters={"label": f"{_naming.LABEL_INSTANCE}={site.instance}"})
    assert [(item["Names"], item["State"]) for item in found] == [([f"/{site.container('one')}"], "exited")]
    assert not Path(site.paths("missing").directory).exists()
    assert not site.converge(site.box("one")).get("failed")


def test_output_that_is_cut_off_is_no_success(site: Site) -> None:
    engine = _engine.connect()
    container = site.container("one")
    try:
        with pytest.raises(EngineError, match="cut off after 1000 bytes"):
            engine.run(container, ["timeout", "5", "yes"], timeout=20, most=1000)
        assert engine.run(container, ["sh", "-c", "echo x; exit 3"], timeout=20, most=1000) == (3, b"x\n")
    finally:
        engine.close()


def test_a_used_volume_stays_prepared_and_one_made_anew_is_not(engine: docker.APIClient, site: Site) -> None:
    name = _naming.home_volume(site.instance, "one")
    site.run("one", "touch ~/something")
    raw = engine.inspect_volume(name)
    assert unprepared(str(site.state), site.instance, [name], {name: Volume.from_api(raw)}) == ()
    labels = {key: value for key, value in raw["Labels"].items() if key != "agentbox.mark"}
    anew = Volume.from_api({**raw, "Labels": labels})
    assert unprepared(str(site.state), site.instance, [name], {name: anew}) == (name,)


def test_a_container_of_a_stranger_is_no_helper(
    engine: docker.APIClient, site: Site, stranger: Callable[..., str]
) -> None:
    """It has the name of the container that prepares volumes, and is removed neither for that nor with the box."""
    container = stranger(f"{site.container('two')}.prepare")
    absent = {"name": "two", "state": "absent"}
    refused, removed = runs.play([site.task(site.box("two")), site.task(absent)]).results
    assert refused["failed"] is True
    assert f"container {site.container('two')}.prepare exists and was not made by" in refused["msg"]
    assert not removed.get("failed"), removed
    assert exists(engine, container)


def test_what_a_lost_journal_left_is_told_and_goes_with_the_box(
    engine: docker.APIClient, site: Site, stranger: Callable[..., str]
) -> None:
    three = site.box("three", network="none")
    assert not site.converge(three).get("failed")
    labels = engine.inspect_container(site.container("three"))["Config"]["Labels"]
    aside = f"{site.container('three')}{_swap.ASIDE}"
    left = engine.create_container(engines.IMAGE, ["true"], name=aside, labels=labels)["Id"]
    journal = Path(_swap.journal_path(site.paths("three")))
    journal.write_text(json.dumps({"container": "x", "old": 1}), encoding="utf-8")
    damaged = site.converge(three)
    assert damaged["failed"] is True
    assert f"{journal} is damaged" in damaged["msg"]
    journal.unlink()
    told = site.converge(three)
    assert told["changed"] is False
    assert f"container {aside} is left of a recreation" in told["warnings"][0]
    removed = site.converge({"name": "three", "state": "absent"}, remove_volumes=True)
    assert not removed.get("failed"), removed
    assert not exists(engine, left)


def test_a_workspace_of_two_is_told_when_the_second_is_made(site: Site) -> None:
    one = site.box("first", network="none", state="stopped")
    assert not site.converge(one).get("warnings")
    told = site.converge({**one, "name": "second"}, check=True)["warnings"]
    assert f"box second: container {site.container('first')} works in {one['workspace']} too" in told
    assert not site.converge({"name": "first", "state": "absent"}, remove_volumes=True).get("failed")


def test_pruning_makes_no_path_of_a_strangers_label(
    engine: docker.APIClient, site: Site, stranger: Callable[..., str]
) -> None:
    labels = {
        _naming.LABEL_MANAGED: "true",
        _naming.LABEL_INSTANCE: site.instance,
        _naming.LABEL_STATE_DIR: str(site.state),
        _naming.LABEL_BOX: "../../..",
    }
    container = stranger(f"{site.instance}-hostile", labels)
    before = site.look(engine)
    pruned = site.converge(site.box("one"), prune=True)
    assert (pruned["changed"], pruned.get("failed", False)) == (False, False), pruned
    assert site.look(engine) == before
    assert exists(engine, container)


def test_two_instances_whose_boxes_have_one_name(
    engine: docker.APIClient, site: Site, new_instance: Callable[[], str], place: Path
) -> None:
    """``x`` of box ``b-c`` and ``x-b`` of box ``c`` have one container's and one volume's name."""
    first, second = Site(site.instance, site.directory), Site(f"{site.instance}-b", place)
    assert first.container("b-c") == second.container("c")
    volume = _naming.home_volume(first.instance, "b-c")
    assert volume == _naming.home_volume(second.instance, "c")
    absent = {"name": "c", "state": "absent"}
    made, taken, spared, _, other_volume, kept = runs.play(
        [
            first.task(first.box("b-c", network="none")),
            second.task(second.box("c", network="none")),
            second.task(absent, remove_volumes=True),
            first.task({"name": "b-c", "state": "absent"}),
            second.task(second.box("c", network="none")),
            second.task(absent, remove_volumes=True),
        ]
    ).results
    assert not made.get("failed"), made
    for result in (taken, spared):
        assert f"is box b-c of instance {first.instance}" in result["msg"]
    assert f"volume {volume} belongs to instance {first.instance}" in other_volume["msg"]
    assert not kept.get("failed"), kept
    assert engine.inspect_volume(volume)["Labels"][_naming.LABEL_INSTANCE] == first.instance
