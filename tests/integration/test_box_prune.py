"""Pruning takes what this run's user made, and leaves everybody else's alone, however alike it looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docker

from agentbox._shared import _naming
from tests.integration import engines
from tests.integration.conftest import Instances
from tests.integration.sites import Site

LIGHT: dict[str, Any] = {"lead": "none", "agents": []}


def everything(engine: docker.APIClient, containers: list[str]) -> dict[str, Any]:
    return {name: engines.look(engine, name) for name in containers}


def test_only_own_boxes_are_pruned(
    engine: docker.APIClient, new_instance: Instances, instance: str, place: Path
) -> None:
    site = Site(instance, place)
    somebody = Site(instance, place / "somebody")  # with a state directory of their own
    neighbour = Site(new_instance(), place / "neighbour")
    for home in (somebody, neighbour):
        home.directory.mkdir()
    assert not site.converge_here(site.box("one", **LIGHT), site.box("two", **LIGHT))["failed"]
    assert not somebody.converge_here(somebody.box("theirs", **LIGHT))["failed"]
    assert not neighbour.converge_here(neighbour.box("one", **LIGHT))["failed"]
    named, labelled, copied = f"{instance}-three", f"{instance}-four", f"{instance}-copy"
    labels = {
        _naming.LABEL_MANAGED: "",
        _naming.LABEL_INSTANCE: instance,
        _naming.LABEL_BOX: "four",
        _naming.LABEL_STATE_DIR: str(site.state),
    }
    # As of a container that somebody runs from an image that was made of box one.
    labels_of_one = {**labels, _naming.LABEL_MANAGED: "true", _naming.LABEL_BOX: "one"}
    engine.create_container(engines.IMAGE, ["true"], name=named, labels={"agentbox.test": "prune"})
    try:
        engine.create_container(engines.IMAGE, ["true"], name=labelled, labels=labels)
        engine.create_container(engines.IMAGE, ["true"], name=copied, labels=labels_of_one)
        (site.state / "boxes" / "three").mkdir()  # of a box that is half gone; others took its name
        foreign = [named, labelled, copied, somebody.container("theirs"), neighbour.container("one")]
        before = everything(engine, foreign)

        pruned = site.converge_here(site.box("two", **LIGHT), prune=True)
        assert not pruned["failed"], pruned["msg"]
        assert {action["box"] for action in pruned["actions"]} == {"one", "three"}
        assert everything(engine, foreign) == before
        assert engine.inspect_container(site.container("two"))["State"]["Running"] is True
        homes = {item["Name"] for item in engine.volumes(filters={"name": instance})["Volumes"]}
        assert _naming.home_volume(instance, "one") in homes, "volumes stay unless asked for"

        last = site.converge_here(prune=True, remove_volumes=True)
        assert not last["failed"], last["msg"]
        assert everything(engine, foreign) == before
        left = engines.belongings(engine, instance)
        assert f"/{site.container('two')}" not in left["containers"]
        assert len(left["networks"]) == 1, "somebody's box is in it"
        assert _naming.home_volume(instance, "theirs") in left["volumes"]
        assert _naming.home_volume(instance, "two") not in left["volumes"]
        assert site.converge_here(prune=True, remove_volumes=True)["changed"] is False
    finally:
        engine.remove_container(named, force=True)
