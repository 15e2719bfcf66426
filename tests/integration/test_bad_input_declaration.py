"""Declarations that are wrong on paper: one error names every key with its path, and nothing is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docker
import pytest

from tests.integration import engines, runs
from tests.integration.sites import Site

CANARY = "value-that-must-not-be-shown"

# Declaration without its name -> what the error says after the box's path.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"memroy": "4g"}, ".memroy: unknown key, did you mean memory?"),
    ({"privileged": True}, ".privileged: unknown key"),
    ({"memory": "511m"}, ".memory: must be at least 512m, not 511m"),
    ({"memory": "lots"}, ".memory: must be a size such as 512m or 4g, not 'lots'"),
    ({"memory": True}, ".memory: must be a size"),
    ({"cpus": "many"}, ".cpus: must be a number of CPUs"),
    ({"pids": 1.5}, ".pids: must be a whole number, not the number 1.5"),
    ({"yolo": "maybe"}, ".yolo: must be true or false, not 'maybe'"),
    ({"uid": 0, "yolo": True}, ".uid: a box never runs as uid 0"),
    ({"uid": "root"}, ".uid: must be a whole number, not 'root'"),
    ({"state": "running"}, ".state: must be one of started, stopped, absent"),
    ({"workspace": "relative/path"}, ".workspace: must be an absolute path"),
    ({"workspace": ["/srv"]}, ".workspace: must be an absolute path, not a list"),
    ({"env": {"DEBUG": True}}, ".env.DEBUG: must be a string, not the boolean true"),
    ({"env": {"COUNT": 1}}, ".env.COUNT: must be a string, not the number 1;"),
    ({"env": {"TEMPLATE": "{{ 40 + 2 }}"}}, ".env.TEMPLATE: must be a string, not the number 42;"),
    ({"env": {"RATIO": 1.5}}, ".env.RATIO: must be a string, not the number 1.5"),
    ({"env": {"NOTHING": None}}, ".env.NOTHING: must be a string, not null"),
    ({"env": {"no-name": "x"}}, ".env: 'no-name' is no valid name of an environment variable"),
    ({"env": ["A=b"]}, ".env: must be a mapping"),
    ({"publish": "127.0.0.1:70000"}, ".publish: must be none, a port, or address:port"),
    ({"network": "host"}, ".network: 'host' is refused"),
    ({"network": "none", "publish": 4999}, ".publish: nothing can be published with network none"),
    ({"mounts": ["/srv:/etc/passwd"]}, ".mounts: target /etc/passwd is taken"),
    ({"mounts": [{"source": "/srv", "target": "x"}]}, ".mounts[0].target: must be an absolute path"),
    ({"lead": "nobody"}, ".lead: there is no manifest of 'nobody'"),
    ({"agents": ["standin", "standin"]}, ".agents[1]: 'standin' stands twice"),
    ({"permission_mode": "wild"}, ".permission_mode: standin has no mode 'wild'"),
    ({"image": "no image"}, ".image: 'no image' is no image reference"),
    ({"credentials": "some"}, ".credentials: must be one of auto, seed, mount, none"),
]
WRONG_NAMES = ["My Repo", "-x", "a_b", "Ünï", "x" * 42, "", 7, None, ["a"]]


@pytest.fixture(scope="module")
def refused(engine: docker.APIClient, module_place: Path) -> tuple[runs.Result, Site]:
    """The answer to one call with everything that is wrong, beside a box that is right."""
    site = Site(engines.new_instance_name(), module_place)
    boxes = [site.box("right")]
    boxes += [site.box(f"wrong{index}", **declared) for index, (declared, _) in enumerate(WRONG)]
    boxes += [site.box("named", workspace=str(site.workspace("right"))) | {"name": name} for name in WRONG_NAMES]
    boxes += [site.box("twice"), site.box("twice")]
    boxes += ["text", 3, None]
    return site.converge(*boxes), site


@pytest.mark.parametrize("index", range(len(WRONG)), ids=lambda index: "-".join(WRONG[index][0]) + f"-{index}")
def test_a_wrong_value_is_named_with_its_path(refused: tuple[runs.Result, Site], index: int) -> None:
    result, _ = refused
    assert f"boxes[{index + 1}]{WRONG[index][1]}" in result["msg"]


@pytest.mark.parametrize("index", range(len(WRONG_NAMES)))
def test_a_wrong_name_is_named_with_its_path(refused: tuple[runs.Result, Site], index: int) -> None:
    result, _ = refused
    assert f"boxes[{1 + len(WRONG) + index}].name: " in result["msg"]


def test_a_duplicate_names_both_places(refused: tuple[runs.Result, Site]) -> None:
    result, _ = refused
    first = 1 + len(WRONG) + len(WRONG_NAMES)
    assert f"boxes[{first + 1}].name: the name 'twice' is that of boxes[{first}] too" in result["msg"]


def test_what_is_no_mapping_is_named_with_its_path(refused: tuple[runs.Result, Site]) -> None:
    result, _ = refused
    first = 1 + len(WRONG) + len(WRONG_NAMES) + 2
    for offset, described in enumerate(["'text'", "the number 3", "null"]):
        assert f"boxes[{first + offset}]: must be a mapping, not {described}" in result["msg"]


def test_nothing_was_touched(refused: tuple[runs.Result, Site], engine: docker.APIClient) -> None:
    result, site = refused
    assert result["failed"] is True
    assert not result["changed"]
    assert engines.belongings(engine, site.instance) == {"containers": {}, "volumes": [], "networks": []}
    assert not site.state_root.exists()


def test_calls_that_are_wrong_as_a_whole(place: Path) -> None:
    """Boxes that are no list, and an instance that is no name; nothing at all is fine."""
    site, unnamed = Site(engines.new_instance_name(), place), Site("Not A Name", place)
    tasks = [site.task(), site.task(), site.task(), site.task(), unnamed.task(unnamed.box("one"))]
    for task, boxes in zip(tasks, [None, "", site.box("one"), "one"], strict=False):
        task["agentbox.fleet.box"]["boxes"] = boxes
    nothing, empty, mapping, text, instance = runs.play(tasks).results
    for result in (nothing, empty):
        assert not result.get("failed"), result
        assert result["changed"] is False
    assert "boxes: must be a list of boxes, not a mapping" in mapping["msg"]
    assert "boxes: must be a list of boxes, not 'one'" in text["msg"]
    assert "instance: 'Not A Name' is no valid name" in instance["msg"]
    assert all(result["failed"] for result in (mapping, text, instance))
    assert not site.state_root.exists()


def test_secrets_in_the_wrong_place_are_refused_without_their_value(place: Path) -> None:
    """A mapping of secrets belongs into the option that Ansible hides; elsewhere its values are never quoted."""
    site = Site(engines.new_instance_name(), place)
    run = runs.play(
        [
            site.task(site.box("one"), secrets={"two": {"TOKEN": CANARY}}),
            site.task(site.box("one"), secrets={"one": {"NO-NAME": CANARY}}),
            site.task(site.box("one"), secrets={"one": {"TOKEN": [CANARY]}}),
            site.task(site.box("one", env={"TOKEN": "x"}), secrets={"one": {"TOKEN": CANARY}}),
        ],
        diff=True,
        verbosity=3,
    )
    messages = [result["msg"] for result in run.results]
    assert "secrets.two: there is no box of that name" in messages[0]
    assert "secrets.one: 'NO-NAME' is no valid name of an environment variable" in messages[1]
    assert "secrets.one.TOKEN: " in messages[2]
    assert "boxes[0].secrets.TOKEN: stands in env too" in messages[3]
    assert all(result["failed"] for result in run.results)
    assert CANARY not in run.output
    assert CANARY not in str(run.results)
    assert not site.state_root.exists()
