"""Runs that are killed, and runs at the same time: the next one converges and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest

from agentbox._shared import _naming
from tests.integration import engines, runs
from tests.integration.sites import Site

REACH_TIMEOUT = 60.0  # seconds for a run to get to where it is killed
SECRETS = {"one": {"STANDIN_TOKEN": "value-of-a-secret"}}
Reached = Callable[[docker.APIClient, Site], bool]


def lock_held(_engine: docker.APIClient, site: Site) -> bool:
    return holder(site) is not None


def state_written(_engine: docker.APIClient, site: Site) -> bool:
    return any(Path(site.paths(name).mount).exists() for name in ("one", "two"))


def volume_made(engine: docker.APIClient, site: Site) -> bool:
    return bool(engine.volumes(filters={"label": f"{_naming.LABEL_INSTANCE}={site.instance}"})["Volumes"])


def container_made(engine: docker.APIClient, site: Site) -> bool:
    return bool(engine.containers(all=True, filters={"label": f"{_naming.LABEL_BOX}", "name": f"^/{site.instance}-"}))


def container_started(engine: docker.APIClient, site: Site) -> bool:
    return bool(engine.containers(filters={"name": f"^/{site.instance}-"}))


def holder(site: Site) -> int | None:
    """Process id of the module that works on the instance now."""
    try:
        pid = int(json.loads(Path(_naming.lock_path(str(site.state))).read_text(encoding="utf-8"))["pid"])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError, KeyError):
        return None
    return pid if b"ansible" in command.lower() or b"python" in command else None


def kill_when(engine: docker.APIClient, site: Site, reached: Reached, task: runs.Task) -> runs.Result:
    """Run ``task`` and kill the module with SIGKILL as soon as ``reached``; returns what Ansible made of it."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(runs.play, [task])
        deadline = time.monotonic() + REACH_TIMEOUT
        while not running.done() and time.monotonic() < deadline:
            pid = holder(site)
            if pid and reached(engine, site):
                os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.002)
        return running.result().results[0]


def assert_whole(engine: docker.APIClient, site: Site, *boxes: str) -> None:
    """All boxes run, and nothing is left of what the killed run had begun."""
    names = {name for found in engine.containers(filters={"name": f"^/{site.instance}"}) for name in found["Names"]}
    assert names == {f"/{site.container(box)}" for box in boxes}
    everything = engine.containers(all=True, filters={"name": f"^/{site.instance}"})
    assert len(everything) == len(boxes)
    assert not [path for path in site.state.rglob("*") if path.name.endswith(".new") or path.name == "swap.json"]


def points(short: Reached, *long: Reached) -> pytest.MarkDecorator:
    """Where to kill: once in every run, at the other points in the long one."""
    marked = [pytest.param(point, id=point.__name__, marks=pytest.mark.full) for point in long]
    return pytest.mark.parametrize("reached", [pytest.param(short, id=short.__name__), *marked])


@points(container_made, lock_held, state_written, volume_made, container_started)
def test_a_killed_creation_is_completed(engine: docker.APIClient, instance: str, place: Path, reached: Reached) -> None:
    site = Site(instance, place)
    task = site.task(site.box("one"), site.box("two"), secrets=SECRETS)
    killed = kill_when(engine, site, reached, task)
    assert killed["failed"] is True, "the run ended before it was killed"
    completed, again = runs.play([task, task]).results
    assert not completed.get("failed"), completed
    assert again["changed"] is False, again
    assert_whole(engine, site, "one", "two")
    secret = Path(site.paths("one").secrets, "STANDIN_TOKEN")
    assert secret.read_text(encoding="utf-8") == SECRETS["one"]["STANDIN_TOKEN"]


def old_set_aside(engine: docker.APIClient, site: Site) -> bool:
    return bool(engine.containers(all=True, filters={"name": f"^/{site.container('one')}\\.old$"}))


def new_made(engine: docker.APIClient, site: Site) -> bool:
    return len(engine.containers(all=True, filters={"name": f"^/{site.container('one')}"})) > 1


def new_started(engine: docker.APIClient, site: Site) -> bool:
    return old_set_aside(engine, site) and bool(engine.containers(filters={"name": f"^/{site.container('one')}$"}))


@points(new_made, old_set_aside, new_started)
def test_a_killed_recreation_is_taken_up(
    engine: docker.APIClient, instance: str, place: Path, reached: Reached
) -> None:
    """HOME stays; the next run ends with one container that is what was declared."""
    site = Site(instance, place)
    first = site.converge(site.box("one"), site.box("two"))
    assert not first.get("failed"), first
    site.run("one", "echo kept > ~/kept")
    other = engine.inspect_container(site.container("two"))["Id"]
    task = site.task(site.box("one", shm_size="300m", recreate="drift"), site.box("two"))
    killed = kill_when(engine, site, reached, task)
    assert killed["failed"] is True, "the run ended before it was killed"
    completed, again = runs.play([task, task]).results
    assert not completed.get("failed"), completed
    assert again["changed"] is False, again
    assert_whole(engine, site, "one", "two")
    assert engine.inspect_container(site.container("one"))["HostConfig"]["ShmSize"] == 300 << 20
    assert engine.inspect_container(site.container("two"))["Id"] == other
    assert site.run("one", "cat ~/kept") == "kept\n"


@pytest.mark.full
def test_a_killed_removal_is_completed(engine: docker.APIClient, instance: str, place: Path) -> None:
    site = Site(instance, place)
    first = site.converge(site.box("one"), site.box("two"), secrets=SECRETS)
    assert not first.get("failed"), first
    task = site.task({"name": "one", "state": "absent"}, {"name": "two", "state": "absent"}, remove_volumes=True)
    killed = kill_when(engine, site, lambda *_: not container_started(engine, site), task)
    assert killed["failed"] is True, "the run ended before it was killed"
    completed, again = runs.play([task, task]).results
    assert not completed.get("failed"), completed
    assert again["changed"] is False, again
    assert engines.belongings(engine, instance) == {"containers": {}, "volumes": [], "networks": []}
    assert not Path(site.paths("one").directory).exists()


def test_two_runs_at_once(engine: docker.APIClient, instance: str, place: Path) -> None:
    """One waits for the other; what both declared is there once."""
    site = Site(instance, place)
    task = site.task(site.box("one"), site.box("two"))
    with ThreadPoolExecutor(2) as pool:
        first, second = (run.results[0] for run in pool.map(runs.play, [[task], [task]]))
    assert not first.get("failed"), first
    assert not second.get("failed"), second
    assert sorted([first["changed"], second["changed"]]) == [False, True]
    assert_whole(engine, site, "one", "two")
