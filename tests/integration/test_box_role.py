"""Role box through Ansible: what it hands to the module, and what it does with the answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.integration import engines, runs
from tests.integration.sites import UID, Site, manifests

CANARY = "canary-of-a-secret"


def role(site: Site, boxes: Any, **variables: Any) -> runs.Task:
    """The role with ``boxes``; further variables without their prefix."""
    known = {"standin": manifests()["standin"]}
    given = {"boxes": boxes, "instance": site.instance, "state_root": str(site.state_root), "manifests": known}
    return runs.role_task("box", {f"box_{name}": value for name, value in {**given, **variables}.items()})


def module_results(run: runs.Run) -> list[runs.Result]:
    """Results of the tasks that called module box."""
    names = ("Present | Converge the boxes", "Absent | Remove the declared boxes")
    return [result for result in run.results if result["task"] in names]


@pytest.fixture(scope="module")
def site(new_instance: Callable[[], str], module_place: Path) -> Site:
    return Site(new_instance(), module_place)


def test_nothing_declared_is_nothing_to_do(site: Site) -> None:
    """Whatever stands for an optional value that was left empty: no template trips over it."""
    empty: list[Any] = [[], None, ""]
    run = runs.play([*(role(site, value, protected=value) for value in empty), role(site, None, state="absent")])
    assert [result["changed"] for result in module_results(run)] == [False] * 4
    assert not [result for result in run.results if result.get("failed")], run.output
    assert not site.state_root.exists()


def test_what_is_no_list_is_refused_without_showing_a_secret(site: Site) -> None:
    single = site.box("one", secrets={"TOKEN": CANARY})
    text = site.box("one", secrets=f"TOKEN={CANARY}")
    run = runs.play([role(site, single), role(site, CANARY), role(site, [text])], verbosity=3)
    assert "boxes: a list of boxes expected, found a mapping" in run.output
    assert "boxes: a list of boxes expected, found text" in run.output
    assert "boxes[0].secrets: a mapping of variable names to values expected, found text" in run.output
    assert CANARY not in run.output
    assert not site.state_root.exists()


def test_a_wrong_role_variable_is_refused(site: Site) -> None:
    run = runs.play([role(site, [], state="here"), role(site, [], prune="perhaps"), role(site, [], proxy="text")])
    for name in ("box_state", "box_prune", "box_proxy"):
        assert name in run.output


@pytest.fixture(scope="module")
def home(site: Site) -> Path:
    """The home of a person with a git identity and a gh login."""
    home = site.directory / "home"
    (home / ".config/gh").mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = Pat Example\n", encoding="utf-8")
    (home / ".config/gh/hosts.yml").write_text("host.example: {}\n", encoding="utf-8")
    return home


@pytest.fixture(scope="module")
def converged(site: Site, home: Path) -> list[runs.Run]:
    """The role in check mode, twice for real, and in check mode again; with a secret."""
    boxes = [site.box("one", secrets={"STANDIN_TOKEN": CANARY}), site.box("two")]
    task = role(
        site,
        boxes,
        identity_home=str(home),
        gh_login=False,
        proxy={"http_proxy": "http://user:canary-password@192.0.2.1:3128"},
        progress=str(site.directory / "progress"),
    )
    checked = runs.play([task], check=True, diff=True, verbosity=3)
    real = runs.play([task, task], diff=True, verbosity=3)
    return [checked, real, runs.play([task], check=True, diff=True, verbosity=3)]


def test_the_role_predicts_converges_and_rests(converged: list[runs.Run]) -> None:
    checked, real, again = converged
    predicted, created, idle, last = (result for run in (checked, real, again) for result in module_results(run))
    assert not created.get("failed"), created
    assert predicted["actions"] == created["actions"]
    assert [created["changed"], idle["changed"], last["changed"]] == [True, False, False]
    assert again.changed == []


def test_no_secret_is_in_any_output(converged: list[runs.Run], site: Site) -> None:
    for run in converged:
        for secret in (CANARY, "canary-password"):
            assert secret not in run.output
            assert secret not in json.dumps(run.results)
    assert Path(site.paths("one").secrets, "STANDIN_TOKEN").read_text(encoding="utf-8") == CANARY


def test_variables_of_the_role_take_effect(converged: list[runs.Run], engine: docker.APIClient, site: Site) -> None:
    assert len(converged) > 1
    inspected = engine.inspect_container(site.container("one"))
    targets = {mount["Destination"] for mount in inspected["Mounts"]}
    assert "/etc/gitconfig" in targets
    assert "/home/agent/.config/gh" not in targets
    environment = dict(variable.split("=", 1) for variable in inspected["Config"]["Env"])
    assert environment["HTTP_PROXY"] == environment["http_proxy"]
    assert {"localhost", "127.0.0.1", "::1"} <= set(environment["NO_PROXY"].split(","))
    assert site.run("one", "git config --global --includes user.name; git config user.name").strip() == "Pat Example"
    assert site.container("one") in (site.directory / "progress").read_text(encoding="utf-8")


def test_files_in_the_box_are_those_of_the_catalogue(converged: list[runs.Run], site: Site) -> None:
    assert len(converged) > 1
    for name in ("entry.sh", "attach.sh", "tmux.conf"):
        made = Path(site.paths("two").mount, name).read_bytes()
        assert made == (runs.REPOSITORY / "templates/box" / name).read_bytes()


def test_drift_is_told_or_refused(converged: list[runs.Run], engine: docker.APIClient, site: Site, home: Path) -> None:
    """A declaration that only a new container can fulfil, and a box that is not to be made anew."""
    assert len(converged) > 1
    before = engines.belongings(engine, site.instance)
    boxes = [site.box("two", shm_size="300m")]
    common = {"identity_home": str(home), "gh_login": False}
    proxy = {"http_proxy": "http://user:canary-password@192.0.2.1:3128"}
    run = runs.play(
        [
            role(site, boxes, **common, proxy=proxy),
            role(site, boxes, **common, proxy=proxy, fail_on_drift=True),
        ],
        verbosity=1,
    )
    told, refused = module_results(run)
    for result in (told, refused):
        assert result["changed"] is False
        assert {"box": "two", "path": "shm_size", "declared": "300m", "live": "256m"} in result["drift"]
    assert "box two differs from its declaration in" in run.output
    failed = [result for result in run.results if result.get("failed")]
    assert [result["task"] for result in failed] == [
        "Present | Refuse boxes that differ from their declarations and stay so"
    ]
    assert "two.shm_size" in failed[0]["msg"]
    assert engines.belongings(engine, site.instance) == before


def test_agentbox_itself_is_no_workspace(site: Site, place: Path) -> None:
    """Neither the checkout, nor what holds it, nor the controller's Python, nor what the inventory holds."""
    refused = [
        runs.REPOSITORY,
        runs.REPOSITORY / "src",
        runs.REPOSITORY / ".venv",
        place,
    ]
    allowed = place / "beside"
    allowed.mkdir()
    os.chown(allowed, UID, UID)
    boxes = [site.box(f"box{index}", workspace=str(path)) for index, path in enumerate([*refused, allowed])]
    run = runs.play([role(site, boxes, protected=[str(place / "own")])], check=True)
    found = module_results(run)[0]["boxes"]
    for entry, path in zip(found, [*refused, allowed], strict=True):
        assert entry["failed"] is (path != allowed), entry
        assert path == allowed or f".workspace: {path} holds or lies in " in entry["msg"]


def test_absent_removes_the_declared_boxes_and_keeps_volumes(
    converged: list[runs.Run], engine: docker.APIClient, site: Site
) -> None:
    """Whatever state they declare; a second time, and for a box that never was, there is nothing to do."""
    assert len(converged) > 1
    boxes = [site.box("one", state="started", secrets={"STANDIN_TOKEN": CANARY}), site.box("two"), site.box("never")]
    task, last = role(site, boxes, state="absent"), role(site, boxes, state="absent", remove_volumes=True)
    predicted = module_results(runs.play([task], check=True))[0]
    volumes = engines.belongings(engine, site.instance)["volumes"]
    run = runs.play([task, task])
    kept = engines.belongings(engine, site.instance)
    removed, again = module_results(run)
    assert predicted["actions"] == removed["actions"]
    assert [removed["changed"], again["changed"]] == [True, False]
    assert kept == {"containers": {}, "volumes": volumes, "networks": []}
    assert volumes
    assert site.workspace("one").is_dir()
    gone = module_results(runs.play([last]))[0]
    assert gone["changed"] is True
    assert engines.belongings(engine, site.instance)["volumes"] == []
