"""Prediction is outcome: for generated pairs of living box and declaration, check mode lists what a run does.

Pairs are numbered and made from their number alone, so that a failing one can be made again.
"""

from __future__ import annotations

import contextlib
import random
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _files, _naming
from agentbox._shared._boxes import BoxResult, Outcome
from tests.integration import direct, engines, faults
from tests.integration.faults import FAULTS, REBUILT, Fault, Target
from tests.integration.sites import UID, Site

BATCH = 20  # pairs that one run converges
BATCHES = 10
ALWAYS = 9  # the batch with most kinds of faults
VALUE = "value-of-a-secret"
# Values of options, each with another spelling of it. The first is the default.
IN_PLACE: Mapping[str, list[tuple[Any, Any]]] = {
    "memory": [("4g", 4 << 30), ("512m", "0.5g"), ("600m", 600 << 20)],
    "cpus": [(4, "4.0"), (1, 1.0), (0.5, "0.5")],
    "pids": [(512, "512"), (100, "100"), (200, 200)],
    "networks": [([], None), (["{instance}-lan"], ["{instance}-lan"])],
}
ANEW: Mapping[str, list[tuple[Any, Any]]] = {
    "shm_size": [("256m", 256 << 20), ("64m", "64MiB")],
    "tmp_size": [("1g", "1024m"), ("64m", 64 << 20)],
    "env": [({}, None), ({"A": "1", "B": ""}, {"B": "", "A": "1"}), ({"A": "2"}, {"A": "2"})],
    "timezone": [("host", "host"), ("Asia/Tokyo", "Asia/Tokyo")],
    "locale": [("C.UTF-8", "C.UTF-8"), ("de_DE.UTF-8", "de_DE.UTF-8")],
    "network": [("bridge", "bridge"), ("none", "none")],
    "read_only": [(False, False), (True, True)],
    "seccomp": [("default", "default"), ("strict", "strict")],
    "workspace_target": [("/workspace", "/workspace"), ("mirror", "mirror")],
    "healthcheck": [({}, None), ({"interval": "1m30s"}, {"interval": 90})],
    "agents": [(["standin"], ["standin"]), ([], [])],
    "credentials": [("auto", "auto"), ("none", "none")],
    "mounts": [([], None), (["{data}:/data:ro"], ["{data}/:/data/:ro"]), (["{data}:/data"], ["{data}:/data:rw"])],
    "volumes": [([], None), (["{instance}-more:/more"], [{"name": "{instance}-more", "target": "/more/"}])],
}
OPTIONS = {**IN_PLACE, **ANEW}


@dataclass(frozen=True)
class Pair:
    """A box as it is made, what happens to it, and what is declared then. Values are places in ``OPTIONS``."""

    number: int
    made: Mapping[str, int]
    declared: Mapping[str, int]
    respelled: frozenset[str]
    state: tuple[str, str]  # when it is made, and declared
    recreate: str
    secrets: bool
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        return f"p{self.number}"

    @property
    def gone(self) -> bool:
        return any(fault.gone for fault in self.faults)

    @property
    def needs_new(self) -> bool:
        """Whether only a new container makes it what is declared."""
        if self.gone or self.state[1] == "absent":
            return False
        names = {fault.name for fault in self.faults}
        stays_up = self.state == ("started", "started") and not names & {"stopped", "killed"}
        broken = any(fault.anew and (stays_up or not fault.running) for fault in self.faults)
        return broken or any(self.made[option] != self.declared[option] for option in ANEW)

    @property
    def may_be_anew(self) -> bool:
        return self.recreate != "never"

    def declaration(self, site: Site, *, now: bool) -> dict[str, Any]:
        """How it is written down: with defaults left out, half of the time in another spelling."""
        values = self.declared if now else self.made
        written = {
            option: OPTIONS[option][place][now and option in self.respelled]
            for option, place in values.items()
            if place or (now and option in self.respelled) or option == "agents"
        }
        data = site.directory / "data"
        filled = {option: _filled(value, data=data, instance=site.instance) for option, value in written.items()}
        rules = {"state": self.state[now], "recreate": self.recreate}
        image = {"image": f"{site.instance}-{self.name}"} if REBUILT in self.faults else {}
        return direct.box(site, self.name, **filled, **rules, **image)


def _filled(value: Any, **names: Any) -> Any:
    if isinstance(value, str):
        return value.format(**names)
    if isinstance(value, list):
        return [_filled(item, **names) for item in value]
    return {key: _filled(item, **names) for key, item in value.items()} if isinstance(value, dict) else value


def generated(number: int) -> Pair:
    """Pair ``number``; always the same one."""
    chance = random.Random(f"agentbox {number}")  # noqa: S311 - no secret
    made = {
        option: chance.randrange(len(values)) if chance.random() < 0.25 else 0 for option, values in OPTIONS.items()
    }
    changed = {
        *chance.sample(sorted(IN_PLACE), chance.choice([0, 0, 1, 2])),
        *chance.sample(sorted(ANEW), chance.choice([0, 0, 0, 1, 1, 2])),
    }
    state = (
        chance.choice(["started", "started", "stopped"]),
        chance.choice(["started"] * 7 + ["stopped"] * 2 + ["absent"]),
    )
    secrets = state[1] != "absent" and chance.random() < 0.5
    possible = [fault for fault in FAULTS if _is_possible(fault, made, state[0], secrets=secrets)]
    return Pair(
        number=number,
        made=_agreeing(made),
        declared=_agreeing({**made, **{option: chance.randrange(len(OPTIONS[option])) for option in sorted(changed)}}),
        respelled=frozenset(option for option in OPTIONS if chance.random() < 0.5),
        state=state,
        recreate=chance.choice(["never", "drift", "always"]),
        secrets=secrets,
        faults=_together(chance.sample(possible, chance.choice([0, 1, 1, 2, 3]))),
    )


def _agreeing(values: dict[str, int]) -> dict[str, int]:
    """A box without a network has no further ones."""
    return {**values, "networks": 0} if values["network"] else values


def _is_possible(fault: Fault, made: Mapping[str, int], state: str, *, secrets: bool) -> bool:
    there = {"": True, "bridge": made["network"] == 0, "agents": made["agents"] == 0, "secrets": secrets}
    return there[fault.of] and (state == "started" or not fault.running)


def _together(chosen: list[Fault]) -> tuple[Fault, ...]:
    """The first of those that touch the same, in an order in which all can be done; what is gone has no name."""
    first = {fault.touches: fault for fault in reversed(chosen)}
    if "state" in first and first["state"].gone:
        first.pop("name", None)
    return tuple(sorted(first.values(), key=lambda fault: fault.stage))


@dataclass(frozen=True)
class Batch:
    """Pairs that lived together, and what the runs over all of them said and did."""

    site: Site
    pairs: list[Pair]
    before: dict[str, str]  # ids of containers by box
    predicted: Outcome
    done: Outcome
    again: Outcome


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(number, marks=[] if number == ALWAYS else [pytest.mark.full], id=f"batch {number}")
        for number in range(BATCHES)
    ],
)
def batch(
    request: pytest.FixtureRequest, engine: docker.APIClient, new_instance: Callable[[], str], module_place: Path
) -> Iterator[Batch]:
    place = module_place / str(request.param)
    (place / "data").mkdir(parents=True)
    site = Site(new_instance(), place)
    pairs = [generated(request.param * BATCH + index) for index in range(BATCH)]
    with contextlib.ExitStack() as stack:
        for pair in pairs:
            if REBUILT in pair.faults:
                image = Target(engine, site, pair.name).image
                engine.tag(engines.IMAGE, image.removesuffix(":latest"), "latest")
                stack.callback(engine.remove_image, image)
        yield lived(engine, site, pairs)
        absent = [{"name": pair.name, "state": "absent"} for pair in pairs]
        direct.converge(site, absent, remove_volumes=True)


def lived(engine: docker.APIClient, site: Site, pairs: list[Pair]) -> Batch:
    """Make the boxes of ``pairs``, let happen what happens to them, and converge what is declared then."""
    for suffix in (faults.FOREIGN, "lan"):
        engine.create_network(f"{site.instance}-{suffix}", labels={_naming.LABEL_INSTANCE: site.instance})
    secrets = {pair.name: {faults.SECRET: VALUE} for pair in pairs if pair.secrets}
    made = direct.converge(site, [pair.declaration(site, now=False) for pair in pairs], secrets=secrets)
    assert made.failures == []
    before = {}
    for pair in pairs:
        target = Target(engine, site, pair.name)
        before[pair.name] = target.id
        for fault in pair.faults:
            fault.do(target)
            if fault.name == "label edited":
                before[pair.name] = target.id
    declared = [pair.declaration(site, now=True) for pair in pairs]
    predicted = direct.converge(site, declared, secrets=secrets, check=True)
    done = direct.converge(site, declared, secrets=secrets)
    return Batch(site, pairs, before, predicted, done, direct.converge(site, declared, secrets=secrets))


def results(batch: Batch, outcome: Outcome) -> list[tuple[Pair, BoxResult]]:
    assert [result.name for result in outcome.boxes] == [pair.name for pair in batch.pairs]
    return list(zip(batch.pairs, outcome.boxes, strict=True))


def kinds(result: BoxResult) -> list[str]:
    return [action["action"] for action in result.as_dict()["actions"]]


def test_nothing_fails(batch: Batch) -> None:
    for outcome in (batch.predicted, batch.done, batch.again):
        assert outcome.failures == []


def test_what_check_mode_lists_is_what_the_run_does(batch: Batch) -> None:
    for predicted, (pair, done) in zip(batch.predicted.boxes, results(batch, batch.done), strict=True):
        assert predicted.as_dict() == done.as_dict(), pair
    assert batch.predicted.as_dict() == batch.done.as_dict()
    assert batch.predicted.warnings == batch.done.warnings


def test_the_run_after_it_changes_nothing_and_tells_the_same_drift(batch: Batch) -> None:
    for (pair, done), again in zip(results(batch, batch.done), batch.again.boxes, strict=True):
        assert (kinds(again), again.as_dict()["drift"]) == ([], done.as_dict()["drift"]), pair
    assert batch.again.as_dict()["changed"] is False


def test_only_what_needs_it_is_made_anew_and_what_stays_different_is_told(batch: Batch) -> None:
    for pair, done in results(batch, batch.done):
        anew = pair.needs_new and pair.may_be_anew
        assert ("recreate" in kinds(done)) == anew, pair
        assert ("create" in kinds(done)) == (pair.gone and pair.state[1] != "absent"), pair
        assert bool(done.as_dict()["drift"]) == (pair.needs_new and not anew), (pair, done.as_dict()["drift"])


def test_boxes_are_what_was_declared(batch: Batch, engine: docker.APIClient) -> None:
    for pair, done in results(batch, batch.done):
        if pair.state[1] == "absent":
            assert engine.containers(all=True, filters={"name": f"^/{done.container}$"}) == [], pair
            continue
        live = engine.inspect_container(done.container)
        assert live["State"]["Status"] == ("running" if pair.state[1] == "started" else live["State"]["Status"]), pair
        assert live["State"]["Running"] == (pair.state[1] == "started"), pair
        made_anew = {"recreate", "create"} & {*kinds(done)}
        assert (live["Id"] == batch.before[pair.name]) != bool(made_anew), pair
        host, memory = live["HostConfig"], [4 << 30, 512 << 20, 600 << 20][pair.declared["memory"]]
        assert (host["Memory"], host["MemorySwap"]) == (memory, memory), pair
        assert host["PidsLimit"] == [512, 100, 200][pair.declared["pids"]], pair
        assert host["RestartPolicy"]["Name"] == "unless-stopped", pair
        if host["NetworkMode"] == (batch.site.instance, "none")[pair.declared["network"]]:
            lan = [f"{batch.site.instance}-lan"] if pair.declared["networks"] else []
            assert sorted(live["NetworkSettings"]["Networks"]) == [host["NetworkMode"], *lan], pair
        if live["State"]["Running"]:
            limit = Target(engine, batch.site, pair.name).cgroup("pids", "pids.max", "pids.max")
            assert limit.read_text(encoding="ascii").strip() == str(host["PidsLimit"]), pair
        if not done.as_dict()["drift"]:
            assert host["ShmSize"] == [256 << 20, 64 << 20][pair.declared["shm_size"]], pair
            assert host["ReadonlyRootfs"] == bool(pair.declared["read_only"]), pair
            environment = [{}, {"A": "1", "B": ""}, {"A": "2"}][pair.declared["env"]]
            assert {f"{name}={value}" for name, value in environment.items()} <= {*live["Config"]["Env"]}, pair


def test_files_are_whole_also_of_boxes_that_stay_different(batch: Batch, engine: docker.APIClient) -> None:
    for pair, _ in results(batch, batch.done):
        if pair.state[1] == "absent":
            continue
        box = Target(engine, batch.site, pair.name)
        whole = {box.entry: (0o755, direct.ENTRY), Path(box.paths.passwd): (0o644, _files.passwd(UID))}
        whole |= {box.secret: (0o400, VALUE)} if pair.secrets else {}
        for path, expected in whole.items():
            found = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="utf-8")
            assert found == expected, (path.name, pair)
        assert stat.S_IMODE(Path(box.paths.record).stat().st_mode) == 0o600, pair
        assert Path(box.paths.relay).is_dir(), pair


def test_the_pairs_are_worth_it() -> None:
    """All faults are among them, boxes that need a new container and that don't, and every leave to make one."""
    pairs = [generated(number) for number in range(BATCH * BATCHES)]
    assert len(pairs) == 200
    assert {fault.name for pair in pairs for fault in pair.faults} == {fault.name for fault in FAULTS}
    always = pairs[BATCH * ALWAYS : BATCH * (ALWAYS + 1)]
    assert {(pair.needs_new, pair.recreate) for pair in always} == {
        (needed, recreate) for needed in (True, False) for recreate in ("never", "drift", "always")
    }
    assert len({fault.name for pair in always for fault in pair.faults}) > len(FAULTS) // 2
    assert any(pair.gone for pair in always)
    assert any(not pair.faults and pair.made == pair.declared for pair in always)
