"""Playbook remove: nothing of an instance is left but what shall stay, however it came to be there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _naming
from tests.integration import engines, runs
from tests.integration.sites import Site

# Molecule's scenario default ends with playbook remove, twice, in every run.
pytestmark = pytest.mark.full

CANARY = "canary-of-a-secret"


def remove(site: Site, *, check: bool = False, **variables: Any) -> runs.Run:
    known = {"agentbox_instance": site.instance, "agentbox_state_root": str(site.state_root)}
    # What converges this host itself is no test's to remove.
    return runs.playbook("remove", {**known, **variables}, arguments=["--skip-tags=gitops"], check=check, diff=True)


def removal(site: Site, **options: Any) -> runs.Task:
    """The module's part of it."""
    given = {"state": "absent", "instance": site.instance, "state_root": str(site.state_root)}
    return runs.module_task("box", {**given, **options})


def labels(site: Site, **more: str) -> dict[str, str]:
    return {_naming.LABEL_MANAGED: "true", _naming.LABEL_INSTANCE: site.instance, **more}


def image(site: Site, content: str, *tags: str) -> str:
    """ID of an image of the instance."""
    words = [f"--label={key}={value}" for key, value in labels(site).items()]
    names = [f"--tag={site.instance}:{tag}" for tag in tags]
    text = f"FROM {engines.IMAGE}\nLABEL content={content}\n"
    command = ["docker", "build", "--quiet", *words, *names, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.strip()


def images(engine: docker.APIClient, site: Site) -> list[str]:
    found = engine.images(filters={"label": f"{_naming.LABEL_INSTANCE}={site.instance}"})
    return sorted(item["Id"] for item in found)


def left(site: Site) -> list[str]:
    """Names in the state directory."""
    return sorted(path.name for path in site.state.iterdir()) if site.state.is_dir() else []


@dataclass(frozen=True)
class Removed:
    """What two boxes of which one was declared, images, and runs of the playbook with and without data came to."""

    site: Site
    before: dict[str, Any]
    checked: dict[str, Any]
    predicted: runs.Run
    removed: runs.Run
    again: runs.Run
    kept: dict[str, Any]
    kept_images: list[str]
    kept_state: list[str]
    purged: runs.Run


@pytest.fixture(scope="module")
def removed(engine: docker.APIClient, new_instance: Callable[[], str], module_place: Path) -> Removed:
    site = Site(new_instance(), module_place)
    for number, tags in enumerate((["untagged"], ["previous"], ["latest"])):
        image(site, str(number), *tags)
    subprocess.run(["docker", "tag", f"{site.instance}:latest", f"{site.instance}:untagged"], check=True)
    subprocess.run(["docker", "rmi", f"{site.instance}:untagged"], check=True, stdout=subprocess.DEVNULL)
    boxes = [site.box("one", image=f"{site.instance}:latest", secrets=["TOKEN"]), site.box("undeclared")]
    secrets = {"one": {"TOKEN": CANARY}}
    assert not site.converge(*boxes, secrets=secrets).get("failed")
    site.run("one", "echo kept > ~/kept; echo kept > /workspace/kept")

    before = site.look(engine)
    predicted = remove(site, check=True)
    checked = site.look(engine)
    gone, again = remove(site), remove(site)
    kept, kept_images, kept_state = engines.belongings(engine, site.instance), images(engine, site), left(site)

    purged = remove(site, agentbox_purge=True)
    return Removed(site, before, checked, predicted, gone, again, kept, kept_images, kept_state, purged)


def test_check_mode_predicts_and_touches_nothing(removed: Removed) -> None:
    assert removed.before == removed.checked
    for task in ("Remove | Remove everything of the instance", "Absent | Remove the images"):
        predicted, done = removed.predicted.result(task), removed.removed.result(task)
        assert predicted["changed"] is True
        assert predicted["actions"] == done["actions"]


def test_everything_goes_but_volumes_and_workspaces(removed: Removed) -> None:
    assert removed.removed.returncode == 0, removed.removed.output
    assert removed.kept == {"containers": {}, "volumes": removed.before["engine"]["volumes"], "networks": []}
    assert len(removed.kept["volumes"]) > 2
    assert removed.kept_images == []
    assert removed.kept_state == ["lock", "volumes"]


def test_a_second_run_changes_nothing(removed: Removed) -> None:
    assert (removed.again.returncode, removed.again.changed) == (0, []), removed.again.output


def test_purging_takes_the_data_too(removed: Removed, engine: docker.APIClient) -> None:
    assert removed.purged.returncode == 0, removed.purged.output
    assert engines.belongings(engine, removed.site.instance) == {"containers": {}, "volumes": [], "networks": []}
    assert not removed.site.state.exists()
    assert Path(removed.site.workspace("one"), "kept").read_text(encoding="utf-8") == "kept\n"


@pytest.fixture
def site(instance: str, place: Path) -> Site:
    return Site(instance, place)


@pytest.fixture
def strangers(engine: docker.APIClient, site: Site) -> dict[str, str]:
    """A container of another user's state directory in the instance's network with a volume of the instance."""
    engine.create_network(site.instance, labels=labels(site))
    for name in ("used", "spare"):
        engine.create_volume(f"{site.instance}-{name}", labels=labels(site))
    names = {"stranger": f"{site.instance}-theirs", "helper": f"{site.instance}-gone.prepare", "trial": "trial"}
    state_dirs = {"stranger": "/home/other/state", "helper": str(site.state)}
    ids = {}
    for kind, name in names.items():
        more = {_naming.LABEL_STATE_DIR: state_dirs[kind]} if kind in state_dirs else {}
        bind = [f"{site.instance}-used:/data"] if kind == "stranger" else []
        host = engine.create_host_config(network_mode=site.instance, binds=bind)
        made = engine.create_container(
            engines.IMAGE,
            ["sleep", "60"],
            name=name if kind != "trial" else f"{site.instance}x-trial",
            labels=labels(site, **more),
            host_config=host,
        )
        ids[kind] = made["Id"]
    engine.start(ids["stranger"])
    return ids


def test_what_killed_runs_left_goes_and_what_others_use_stays(
    engine: docker.APIClient, site: Site, strangers: dict[str, str]
) -> None:
    """No box is there any more; a helper, an image's trial, a network, volumes and parts of the state are."""
    (site.state / "relay" / "gone").mkdir(parents=True)
    (site.state / "image-x.json").write_text("{}", encoding="utf-8")
    run = runs.play([removal(site, remove_volumes=True), removal(site, remove_volumes=True)])
    first, second = run.results
    assert not first.get("failed"), first
    found = engines.belongings(engine, site.instance)
    assert [item["Id"] for item in found["containers"].values()] == [strangers["stranger"]]
    assert found["volumes"] == [f"{site.instance}-used"]
    assert len(found["networks"]) == 1
    assert not site.state.exists()
    assert f"container {site.instance}-theirs is another user's and stays, with what it uses" in first["warnings"]
    assert second["changed"] is False
    engine.remove_container(strangers["stranger"], force=True)
    assert runs.play([removal(site, remove_volumes=True)]).results[0]["changed"] is True
    assert engines.belongings(engine, site.instance) == {"containers": {}, "volumes": [], "networks": []}


def test_parts_that_are_none_are_refused(site: Site) -> None:
    run = remove(site, agentbox_remove_also="tmux,kernel")
    assert run.returncode != 0
    assert "agentbox_remove_also: takes agent_clis, tmux, docker, not kernel" in run.output
