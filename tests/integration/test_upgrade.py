"""Playbook upgrade: new image, boxes anew from it one by one, and back where one does not become healthy."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _naming, _spec
from tests.integration import runs
from tests.integration.sites import Site, manifests

OLD, NEW = "0.28.1", "0.28.2"  # of the stand-in's package
# Passes the proof of the image, and never the health check of a box.
BROKEN = """
RUN printf '#!/bin/sh\\n[ "$1" = --version ]\\n' > /usr/local/bin/curl && chmod 0755 /usr/local/bin/curl
"""
BOXES = ("one", "two")
# Two images and their boxes take minutes; moving a box and going back are tried by test_recreation.py in every run.
pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def variables(site: Site, version: str, **more: Any) -> dict[str, Any]:
    standin = manifests()["standin"]
    return {
        "agentbox_agents": ["standin"],
        "agentbox_become": False,
        "agentbox_boxes": [site.box(name, image=f"{site.instance}:latest") for name in BOXES],
        "agentbox_instance": site.instance,
        "agentbox_manifests": {"standin": {**standin, "package": {**standin["package"], "version": version}}},
        "agentbox_state_root": str(site.state_root),
        **more,
    }


def play(site: Site, name: str, version: str, *, check: bool = False, **more: Any) -> runs.Run:
    """A playbook over two hosts, both of them this machine, that leaves its engine, packages and users alone."""
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = site.directory / "hosts.json"
    inventory.write_text(json.dumps({"all": {"hosts": {"first": host, "second": host}}}), encoding="utf-8")
    given = variables(site, version, **more)
    skipped = "--skip-tags=docker,tmux,agent_clis,hooks,install"
    return runs.playbook(name, given, inventory=inventory, arguments=[skipped], check=check, diff=True)


def relabel(engine: docker.APIClient, site: Site, box: str, **changed: str) -> None:
    """Make a box's container anew just as it is but for some labels."""
    name = site.container(box)
    live = engine.inspect_container(name)
    engine.remove_container(name, force=True)
    config: Mapping[str, Any] = {
        **live["Config"],
        "Labels": {**live["Config"]["Labels"], **changed},
        "HostConfig": live["HostConfig"],
        "NetworkingConfig": {"EndpointsConfig": {site.instance: {}}},
    }
    engine.create_container_from_config(config, name)
    engine.start(name)


def ids(engine: docker.APIClient, site: Site) -> list[str]:
    return [str(engine.inspect_container(site.container(name))["Id"]) for name in BOXES]


def kinds(run: runs.Run) -> list[tuple[str, str]]:
    actions = run.result("Present | Converge the boxes")["actions"]
    return [(action["box"], action["action"]) for action in actions]


@dataclass(frozen=True)
class Upgraded:
    """Two boxes of an older image, one of them an older version's; then what the upgrades did."""

    site: Site
    before: list[str]
    old_image: str
    predicted: runs.Run
    broken: runs.Run
    back: list[str]
    image_back: str
    home_back: str
    moved: runs.Run
    after: list[str]
    again: runs.Run


@pytest.fixture(scope="module")
def upgraded(engine: docker.APIClient, new_instance: Callable[[], str], module_place: Path) -> Upgraded:
    site = Site(new_instance(), module_place)
    made = play(site, "site", OLD, agentbox_hosts="first")
    assert made.returncode == 0, made.output
    site.run("one", "echo kept > ~/kept; echo kept > /workspace/kept")
    relabel(engine, site, "two", **{_naming.LABEL_SCHEMA: "0"})
    before, image = ids(engine, site), f"{site.instance}:latest"
    old_image = engine.inspect_image(image)["Id"]
    predicted = play(site, "upgrade", NEW, check=True, agentbox_hosts="first")

    broken = play(site, "upgrade", NEW, agentbox_image_snippet=BROKEN, agentbox_health_wait=10)
    back, image_back = ids(engine, site), engine.inspect_image(image)["Id"]
    site.wait_for_session("one")
    home_back = site.run("one", "cat ~/kept /workspace/kept")

    moved = play(site, "upgrade", NEW, agentbox_hosts="first")
    after = ids(engine, site)
    again = play(site, "upgrade", NEW, agentbox_hosts="first")
    return Upgraded(site, before, old_image, predicted, broken, back, image_back, home_back, moved, after, again)


def test_check_mode_tells_which_boxes_an_image_to_come_would_move(upgraded: Upgraded) -> None:
    assert upgraded.predicted.returncode == 0, upgraded.predicted.output
    assert upgraded.predicted.result("Build | Build the image")["changed"] is True
    assert kinds(upgraded.predicted) == [("one", "recreate"), ("two", "recreate")]


def test_a_box_that_does_not_become_healthy_ends_it_and_everything_is_as_before(upgraded: Upgraded) -> None:
    run = upgraded.broken
    assert run.returncode != 0
    told = run.result("Say what failed")["msg"]
    assert f"box one: container {upgraded.site.container('one')} is not healthy after 10 s" in told
    assert "the old container is back" in told
    assert told.endswith(". The image before is in use again")
    assert upgraded.back == upgraded.before
    assert upgraded.image_back == upgraded.old_image
    assert upgraded.home_back == "kept\nkept\n"


def test_boxes_and_hosts_after_the_one_that_fails_are_not_touched(upgraded: Upgraded) -> None:
    left = upgraded.broken.result("Present | Converge the boxes")
    assert "box two was left as it is, because box one failed" in left["warnings"]
    assert [box["name"] for box in left["boxes"] if box["changed"]] == ["one"]
    assert {"box": "two", "path": "schema", "declared": _spec.SCHEMA, "live": 0} in left["drift"]
    assert {result["host"] for result in upgraded.broken.results} == {"localhost", "first"}


def test_boxes_move_with_the_pin_and_keep_what_lasts(upgraded: Upgraded, engine: docker.APIClient) -> None:
    assert upgraded.moved.returncode == 0, upgraded.moved.output
    assert kinds(upgraded.moved) == kinds(upgraded.predicted)
    assert not set(upgraded.after) & set(upgraded.before)
    assert upgraded.site.run("one", "esbuild --version; cat ~/kept /workspace/kept").split() == [NEW, "kept", "kept"]
    labels = engine.inspect_container(upgraded.site.container("two"))["Config"]["Labels"]
    assert labels[_naming.LABEL_SCHEMA] == str(_spec.SCHEMA)
    assert engine.inspect_image(f"{upgraded.site.instance}:previous")["Id"] == upgraded.old_image


def test_a_second_upgrade_changes_nothing(upgraded: Upgraded) -> None:
    assert (upgraded.again.returncode, upgraded.again.changed) == (0, []), upgraded.again.output


def test_a_box_of_a_newer_version_is_refused(upgraded: Upgraded, engine: docker.APIClient) -> None:
    site = upgraded.site
    relabel(engine, site, "two", **{_naming.LABEL_SCHEMA: "99"})
    boxes = variables(site, NEW)["agentbox_boxes"]
    refused = site.converge(*boxes, upgrade=True)
    assert refused["failed"] is True
    assert "box two: box two was made by a newer Agentbox (schema 99, this one knows up to" in refused["msg"]
    assert refused["changed"] is False
