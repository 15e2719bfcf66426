"""A power cut without systemd: the engine and every process of its boxes are gone at once, and the engine is started.

With systemd, on a whole host that is started again, this is in the tests of the fleet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbox._shared import _naming
from tests.integration import engines, runs
from tests.integration.durable import MANIFEST, DurableBox, eventually
from tests.integration.sites import Site

NAMES = ("kept", "declared", "asked", "moved")
pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


@pytest.fixture
def loaded(second_engine: engines.SecondEngine) -> engines.SecondEngine:
    """An engine of the tests' own that has the stand-in's image."""
    second_engine.load(engines.IMAGE)
    return second_engine


@pytest.fixture
def boxes(loaded: engines.SecondEngine, place: Path) -> Iterator[dict[str, DurableBox]]:
    """Well boxes without network, which that engine has none of, and with conversations."""
    site = Site(engines.new_instance_name(), place)
    engine = loaded.client()
    made = {}
    for name in NAMES:
        home = loaded.data / "volumes" / _naming.home_volume(site.instance, name) / "_data"
        made[name] = DurableBox(site, name, home, engine, loaded.host)
    converge(site, loaded, *made.values())
    for box in made.values():
        box.wait_until_well()
        box.converse()
    yield made
    for box in made.values():
        loaded.client().remove_container(box.container, force=True)


def converge(site: Site, engine: engines.SecondEngine, *boxes: DurableBox, state: str = "started") -> None:
    declared = [box.declaration(network="none", state=state) for box in boxes]
    result = site.converge(*declared, docker_host=engine.host, manifests={"standin": MANIFEST})
    assert not result.get("failed"), result["msg"]


def test_after_a_power_cut_is_back_what_ran_and_nothing_else(
    loaded: engines.SecondEngine, boxes: dict[str, DurableBox]
) -> None:
    site, before = boxes["kept"].site, boxes["kept"].launches()
    workspace = site.workspace("moved")
    converge(site, loaded, boxes["declared"], state="stopped")
    stop(site, loaded, "asked")
    loaded.power_cut()
    workspace.rename(aside := workspace.with_name("aside"))  # on a disk that is mounted later in the boot
    loaded.start()

    back = {name: DurableBox(site, name, box.home, loaded.client(), box.host) for name, box in boxes.items()}
    back["kept"].wait_until_well()
    assert back["kept"].launches()[len(before) :] == [["resume", before[0][1]]]
    relay = Path(site.paths("kept").relay).stat().st_ino
    looked = f"stat -c %i {_naming.BOX_RELAY}; stat -f -c %T /tmp; stat -c %A /tmp"
    assert back["kept"].run(looked).split() == [str(relay), "tmpfs", "drwxrwxrwt"]
    for name in ("declared", "asked"):
        assert back[name].inspect()["State"]["Status"] == "exited"
        assert back[name].troubles() == {}

    trouble = eventually(back["moved"].troubles, lambda troubles: "state" in troubles)["state"]
    assert "the engine could not start it" in trouble
    assert str(workspace) in trouble
    aside.rename(workspace)
    converge(site, loaded, back["moved"])
    back["moved"].wait_until_well()
    assert [how for how, _ in back["moved"].launches()] == ["new", "resume"]


def stop(site: Site, engine: engines.SecondEngine, name: str) -> None:
    """The playbook behind `agentbox stop`."""
    variables = {
        "agentbox_instance": site.instance,
        "agentbox_docker_host": engine.host,
        "agentbox_state_root": str(site.state_root),
        "agentbox_boxes": [{"name": name, "workspace": str(site.workspace(name))}],
    }
    done = runs.playbook("stop", variables)
    assert done.returncode == 0, done.output
