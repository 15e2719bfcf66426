"""Runs that are killed at every step, and runs at the same time: the next one converges and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _naming
from tests.integration import engines, kills, runs
from tests.integration.sites import Site, files

SECRETS = {"one": {"STANDIN_TOKEN": "value-of-a-secret"}}
LIGHT = {"lead": "none", "agents": []}
PIDS = 200  # what a changed declaration says

Converge = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Scenario:
    """Something that module ``box`` does: the declarations before and after, and what has to be there then."""

    before: Callable[[Site], list[dict[str, Any]]]
    after: Callable[[Site], list[dict[str, Any]]]
    boxes: tuple[str, ...]  # that have to run in the end
    options: Mapping[str, Any]  # of the module
    homes: tuple[str, ...]  # boxes whose HOME has to be there in the end
    renamed: bool = False  # somebody renames box one before


def one(site: Site, **declared: Any) -> dict[str, Any]:
    return site.box("one", **LIGHT, **declared)


def two(site: Site, **declared: Any) -> dict[str, Any]:
    return site.box("two", **LIGHT, **declared)


def gone(name: str) -> dict[str, Any]:
    return {"name": name, "state": "absent"}


SCENARIOS = {
    "create": Scenario(lambda _: [], lambda site: [one(site)], ("one",), {"secrets": SECRETS}, ("one",)),
    "recreate": Scenario(
        lambda site: [one(site)],
        lambda site: [one(site, pids=PIDS, env={"A": "b"}, recreate="always")],
        ("one",),
        {"secrets": SECRETS},
        ("one",),
    ),
    "remove": Scenario(lambda site: [one(site)], lambda _: [gone("one")], (), {"remove_volumes": True}, ()),
    "remove all": Scenario(lambda site: [one(site)], lambda _: [], (), {"state": "absent", "remove_volumes": True}, ()),
    "prune": Scenario(
        lambda site: [one(site), two(site)],
        lambda site: [two(site)],
        ("two",),
        {"prune": True, "remove_volumes": True},
        ("two",),
    ),
    "prune the last": Scenario(lambda site: [one(site)], lambda _: [], (), {"prune": True, "remove_volumes": True}, ()),
    # A box declared under another name is another box: the HOME of the one before stays.
    "rename": Scenario(lambda site: [one(site)], lambda site: [two(site)], ("two",), {"prune": True}, ("one", "two")),
    "give the name back": Scenario(
        lambda site: [one(site)], lambda site: [one(site)], ("one",), {"secrets": SECRETS}, ("one",), True
    ),
    "remove a renamed one": Scenario(
        lambda site: [one(site)], lambda _: [], (), {"prune": True, "remove_volumes": True}, (), True
    ),
    "stop": Scenario(
        lambda site: [one(site)], lambda site: [one(site, state="stopped")], (), {"secrets": SECRETS}, ("one",)
    ),
}


class World:
    """A scenario on one instance, over and over."""

    def __init__(self, engine: docker.APIClient, site: Site, scenario: Scenario) -> None:
        self._engine = engine
        self._site = site
        self._scenario = scenario

    def begin(self) -> None:
        """Bring the instance to the state before, from whatever it is in."""
        self._site.converge_here(state="absent", remove_volumes=True)
        self._site.state_root.mkdir(exist_ok=True)
        self._scenario.after(self._site)  # makes the workspaces
        before = self._scenario.before(self._site)
        if before:
            secrets = {name: SECRETS[name] for name in SECRETS if name in [box["name"] for box in before]}
            made = self._site.converge_here(*before, secrets=secrets)
            assert not made["failed"], made["msg"]
        if self._scenario.renamed:
            self._engine.rename(self._site.container("one"), f"{self._site.instance}-renamed")

    def act(self, *, check: bool = False) -> dict[str, Any]:
        """What is interrupted, and later run again."""
        scenario = self._scenario
        return self._site.converge_here(*scenario.after(self._site), check=check, **scenario.options)

    def recovers(self, *, settled: bool = True) -> None:
        """Run again: it does what it predicts, all is as declared, and the run after that changes nothing.

        Without ``settled`` the engine may still do what the killed run asked for, so that nobody can predict.
        """
        predicted, completed = self.act(check=True), self.act()
        assert not completed["failed"], completed["msg"]
        assert predicted["actions"] == completed["actions"] or not settled
        self._assert_whole()
        again = self.act()
        assert not again["failed"], again["msg"]
        assert again["changed"] is False, again["actions"]

    def _assert_whole(self) -> None:
        site, scenario = self._site, self._scenario
        found = engines.belongings(self._engine, site.instance)
        running = {name for name, it in found["containers"].items() if it["Status"] == "running"}
        assert running == {f"/{site.container(box)}" for box in scenario.boxes}
        declared = scenario.after(site)
        present = {f"/{site.container(box['name'])}" for box in declared if box.get("state") != "absent"}
        assert set(found["containers"]) == present
        assert {name for name in found["volumes"] if name.endswith("-home")} == {
            _naming.home_volume(site.instance, box) for box in scenario.homes
        }
        assert len(found["networks"]) == (1 if present else 0)
        self._assert_files({box["name"] for box in declared if box.get("state") != "absent"})
        for box in declared:
            if "pids" in box:
                live = self._engine.inspect_container(site.container(box["name"]))
                assert live["HostConfig"]["PidsLimit"] == box["pids"]

    def _assert_files(self, boxes: set[str]) -> None:
        site = self._site
        assert site.state.exists() is (self._scenario.options.get("state") != "absent")
        assert {path.name for path in (site.state / "boxes").glob("*")} == boxes
        assert {path.name for path in (site.state / "relay").glob("*")} == boxes
        volumes = engines.belongings(self._engine, site.instance)["volumes"]
        assert sorted(path.name for path in (site.state / "volumes").glob("*")) == volumes
        left = [path for path in site.state.rglob("*") if path.name.endswith(".new") or path.name == "swap.json"]
        assert left == []
        for name in boxes & set(SECRETS):
            secret = Path(site.paths(name).secrets, "STANDIN_TOKEN")
            if "secrets" in self._scenario.options:
                assert secret.read_text(encoding="utf-8") == SECRETS[name]["STANDIN_TOKEN"]


def kill_everywhere(world: World, place: Path, following: World) -> None:
    """Kill before every step, and at every request that nobody waits for the answer of; then run ``following``."""
    world.begin()
    taken, _ = kills.steps(world.act, place)
    places = [(step, True) for step in range(len(taken))]
    places += [(step, False) for step, what in enumerate(taken) if what.startswith(("POST", "PUT", "DELETE"))]
    problems = []
    for step, answered in places:
        world.begin()
        died = kills.killed(world.act, place, step, answered=answered)
        try:
            following.recovers(settled=died.settled)
        except AssertionError as error:
            left = "not taken" if answered else "not answered"
            problems.append(f"{step} {died.steps[-1]}, {left}: {error}")
    assert not problems, "\n".join(problems)


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_killed_at_any_step_is_completed_by_the_next(
    engine: docker.APIClient, instance: str, place: Path, name: str
) -> None:
    world = World(engine, Site(instance, place), SCENARIOS[name])
    kill_everywhere(world, place, world)


@pytest.mark.full
@pytest.mark.timeout(3000)
def test_a_killed_recreation_that_is_no_longer_wanted_leaves_one_box(
    engine: docker.APIClient, instance: str, place: Path
) -> None:
    site, before = Site(instance, place), SCENARIOS["recreate"].before
    unwanted = World(engine, site, SCENARIOS["recreate"])
    as_before = World(engine, site, Scenario(before, before, ("one",), {"secrets": SECRETS}, ("one",)))
    kill_everywhere(unwanted, place, as_before)


def failing(engine: docker.APIClient, site: Site) -> World:
    """A recreation whose new container does not stay up, so that the old one comes back."""
    options = {"secrets": SECRETS, "files": {**files(), "entry.sh": "exit 3\n"}}
    recreate = SCENARIOS["recreate"]
    return World(engine, site, Scenario(recreate.before, recreate.after, ("one",), options, ("one",)))


@pytest.mark.full
@pytest.mark.timeout(3000)
def test_a_run_killed_while_it_takes_a_recreation_back_leaves_one_box(
    engine: docker.APIClient, instance: str, place: Path
) -> None:
    site, before = Site(instance, place), SCENARIOS["recreate"].before
    as_before = World(engine, site, Scenario(before, before, ("one",), {"secrets": SECRETS}, ("one",)))
    kill_everywhere(failing(engine, site), place, as_before)


@pytest.mark.full
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("first", ["POST /containers/create?name=", "DELETE /containers/"])
def test_a_second_kill_while_the_first_is_made_good_leaves_one_box(
    engine: docker.APIClient, instance: str, place: Path, first: str
) -> None:
    """Before it is committed the recreation is taken back, after that it is finished."""
    world = World(engine, Site(instance, place), SCENARIOS["recreate"])

    def die_once() -> None:
        world.begin()
        kills.killed(world.act, place, first)

    die_once()
    taken, _ = kills.steps(world.act, place)
    for step in range(len(taken)):
        die_once()
        died = kills.killed(world.act, place, step)
        world.recovers(settled=died.settled)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        pytest.param("create", "POST /containers/create?name=", id="create"),
        pytest.param("recreate", "POST /containers/create?name=", id="recreate"),
        pytest.param("remove", "remove /", id="remove"),
    ],
)
def test_a_killed_run_is_completed_by_the_next(
    engine: docker.APIClient, instance: str, place: Path, name: str, step: str
) -> None:
    world = World(engine, Site(instance, place), SCENARIOS[name])
    world.begin()
    kills.killed(world.act, place, step)
    world.recovers()


@pytest.mark.full
@pytest.mark.parametrize("step", ["stop?t=", "POST /containers/create?name=", "DELETE /containers/"])
def test_a_box_whose_recreation_was_killed_can_be_removed(
    engine: docker.APIClient, instance: str, place: Path, step: str
) -> None:
    world = World(engine, Site(instance, place), SCENARIOS["recreate"])
    world.begin()
    kills.killed(world.act, place, step)
    World(engine, Site(instance, place), SCENARIOS["remove"]).recovers()


def test_two_runs_at_once(engine: docker.APIClient, instance: str, place: Path) -> None:
    """One waits for the other; what both declared is there once."""
    site = Site(instance, place)
    task = site.task(site.box("one"), site.box("two"))
    with ThreadPoolExecutor(2) as pool:
        first, second = (run.results[0] for run in pool.map(runs.play, [[task], [task]]))
    assert not first.get("failed"), first
    assert not second.get("failed"), second
    assert sorted([first["changed"], second["changed"]]) == [False, True]
    found = engines.belongings(engine, instance)["containers"]
    assert {name: it["Status"] for name, it in found.items()} == {
        f"/{site.container(box)}": "running" for box in ("one", "two")
    }
