"""Containers that Agentbox did not make, declared as boxes: seen and entered as such, and never changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from agentbox._shared import _naming
from tests.integration import engines, runs
from tests.integration.sites import Site

NAME = "legacy"


@pytest.fixture
def site(instance: str, place: Path) -> Site:
    return Site(instance, place)


@pytest.fixture
def container(engine: docker.APIClient, site: Site) -> Iterator[str]:
    """A running container with the very name that Agentbox would give to box ``legacy``.

    Somebody ran it from the image of the instance, whose labels it has.
    """
    name = site.container(NAME)
    labels = {_naming.LABEL_MANAGED: "true", _naming.LABEL_INSTANCE: site.instance}
    created = engine.create_container(engines.IMAGE, ["sleep", "600"], name=name, labels=labels)
    engine.start(created["Id"])
    yield name
    engine.remove_container(created["Id"], force=True, v=True)


def adopted(container: str, **more: Any) -> dict[str, Any]:
    return {"name": NAME, "state": "adopted", "container": container, **more}


def actions(result: runs.Result) -> list[tuple[str, str]]:
    return [(action["action"], action["detail"]) for action in result["actions"] if action["box"]]


def test_adopting_writes_a_record_and_touches_nothing_else(
    engine: docker.APIClient, site: Site, container: str
) -> None:
    before = engines.look(engine, container)
    predicted = site.converge_here(adopted(container), check=True)
    assert not site.state.exists()
    done = site.converge_here(adopted(container))
    assert done["actions"] == predicted["actions"]
    assert actions(done) == [("adopt", container)]
    assert [(box["state"], box["container"], box["attach"]) for box in done["boxes"]] == [("adopted", container, None)]
    assert site.converge_here(adopted(container))["changed"] is False
    assert engines.look(engine, container) == before
    found = engines.belongings(engine, site.instance)
    assert (list(found["containers"]), found["volumes"], found["networks"]) == ([f"/{container}"], [], [])


@pytest.mark.parametrize("running", [True, pytest.param(False, marks=pytest.mark.full)], ids=["running", "stopped"])
def test_whatever_is_declared_the_container_stays_as_it_is(
    engine: docker.APIClient, site: Site, container: str, running: bool
) -> None:
    if not running:
        engine.stop(container, timeout=0)
    before = engines.look(engine, container)
    own = site.box(NAME, lead="none", agents=[])
    flags = {"prune": True, "remove_volumes": True, "upgrade": True, "recreate_busy": True}
    tried = {
        "started": [{**own, "recreate": recreate} for recreate in ("never", "drift", "always")],
        "stopped": [{**own, "state": "stopped", "recreate": "always"}],
        "absent": [{"name": NAME, "state": "absent"}],
        "adopted": [adopted(container)],
        "not at all": [None],
    }
    for state, declarations in tried.items():
        for declaration in declarations:
            site.converge_here(adopted(container))
            result = site.converge_here(*([declaration] if declaration else []), **flags)
            assert engines.look(engine, container) == before, (state, declaration)
            # Who wants a box of that name and no longer the adopted one has to move the container away.
            assert result["failed"] is (state in ("started", "stopped")), result["msg"]
    site.converge_here(adopted(container))
    gone = site.converge_here(state="absent", remove_volumes=True)
    assert not gone["failed"], gone["msg"]
    assert not site.state.exists()
    assert engines.look(engine, container) == before


def test_it_is_forgotten_when_it_is_absent_pruned_or_made_by_agentbox(
    engine: docker.APIClient, site: Site, container: str
) -> None:
    other = f"{container}-of-others"
    made = engine.create_container(engines.IMAGE, ["true"], name=other, labels={"agentbox.test": "adopted"})
    try:
        before = engines.look(engine, other)
        own = site.box(NAME, lead="none", agents=[])
        engine.rename(container, f"{container}-moved-away")
        for declared, options in (
            ([{"name": NAME, "state": "absent"}], {}),
            ([], {"prune": True}),
            ([own], {}),
        ):
            site.converge_here(adopted(other))
            done = site.converge_here(*declared, **options)
            assert not done["failed"], done["msg"]
            assert ("forget", other) in actions(done)
            assert site.converge_here(*declared, **options)["changed"] is False
            assert engines.look(engine, other) == before
        refused = site.converge_here(adopted(other))
        assert "Agentbox made a box legacy itself" in refused["msg"]
    finally:
        engine.remove_container(made["Id"], force=True)


def test_what_cannot_be_adopted_is_refused_by_its_key(engine: docker.APIClient, site: Site, container: str) -> None:
    missing = site.converge_here(adopted("abx-no-such-container"))
    assert "boxes[0].container: there is no container abx-no-such-container" in missing["msg"]
    beginning = str(engine.inspect_container(container)["Id"])[:12]
    assert "there is no container" in site.converge_here(adopted(beginning))["msg"], "the start of an id is no name"
    more = site.converge_here(adopted(container, memory="4g", recreate="always"))
    assert "boxes[0].memory: an adopted box is left as it is" in more["msg"]
    assert "boxes[0].recreate: an adopted box is left as it is" in more["msg"]
    twice = site.converge_here(adopted(container), {**adopted(container), "name": "other"})
    assert f"boxes[1].container: the container's name '{container}' is that of boxes[0] too" in twice["msg"]
    own = site.box("one", lead="none", agents=[])
    assert not site.converge_here(own)["failed"]
    ours = site.converge_here({**adopted(site.container("one")), "name": "two"})
    assert f"boxes[0].container: {site.container('one')} was made by Agentbox" in ours["msg"]


def test_it_is_seen_and_entered_as_a_box(engine: docker.APIClient, site: Site, container: str) -> None:
    """By the modules, the inventory of boxes and its connection."""
    assert not site.converge_here(adopted(container))["failed"]
    before = engines.look(engine, container)
    inventory = site.directory / "boxes.yml"
    source = {"plugin": "agentbox.fleet.boxes", "state_root": str(site.state_root), "instances": [site.instance]}
    inventory.write_text(yaml.safe_dump(source), encoding="utf-8")
    common = {"instance": site.instance, "state_root": str(site.state_root)}
    told = runs.play([runs.module_task("box_info", common), runs.module_task("health", {**common, "fail_on": "never"})])
    [box] = told.results[0]["boxes"]
    assert (box["name"], box["container"], box["adopted"], box["state"]) == (NAME, container, True, "running")
    assert (box["workspace"], box["lead"], box["attach"]) == (None, None, None)
    [check] = [check for check in told.results[1]["checks"] if check["subject"] == NAME]
    assert (check["id"], check["verdict"]) == ("state", "ok")
    assert f"adopted container {container} is running" in check["seen"]
    entered = runs.play(
        [
            {"name": "in it", "ansible.builtin.raw": "echo in $(hostname)"},
            {"name": "groups", "ansible.builtin.debug": {"msg": "{{ group_names | sort }}"}},
        ],
        inventory=inventory,
        hosts="all",
        variables={"agentbox_state_root": str(site.state_root)},
    )
    assert entered.results[0]["stdout"].split() == ["in", before["Config"]["Hostname"]]
    assert entered.results[1]["msg"] == ["adopted", f"instance_{site.instance}", "state_running"]
    assert engines.look(engine, container) == before


def test_network_and_volumes_that_it_uses_stay(engine: docker.APIClient, site: Site, container: str) -> None:
    """With the last box go the network and the caches, but for what a container of others uses."""
    assert not site.converge_here(site.box("one", lead="none", agents=[]), adopted(container))["failed"]
    engine.connect_container_to_network(container, site.instance)
    before = engines.look(engine, container)
    gone = site.converge_here(state="absent", remove_volumes=True)
    assert not gone["failed"], gone["msg"]
    assert engines.look(engine, container) == before
    left = engines.belongings(engine, site.instance)
    assert (list(left["containers"]), left["volumes"], len(left["networks"])) == ([f"/{container}"], [], 1)
    engine.disconnect_container_from_network(container, site.instance)
    assert not site.converge_here(adopted(container))["failed"]
    again = site.converge_here(state="absent")
    assert ("remove_network", _naming.network_name(site.instance)) in [
        (action["action"], action["detail"]) for action in again["actions"]
    ]
    assert engine.inspect_container(container)["Id"] == before["Id"]
