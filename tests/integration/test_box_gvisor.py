"""A box whose kernel is gVisor's, on an engine that has its runtime."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import engines, runs
from tests.integration.durable import MANIFEST, DurableBox
from tests.integration.sites import UID, Site

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]
# Without /dev/kvm the sandbox traces its processes, which is slow and works everywhere. The engine has no network.
RUNTIME = """#!/bin/sh
exec runsc --platform=ptrace --network=none "$@"
"""


@pytest.fixture(scope="module")
def engine_with_gvisor(module_place: Path) -> Iterator[engines.SecondEngine]:
    if shutil.which("runsc") is None:
        (installed,) = runs.play([{"agentbox.fleet.packages": {"names": ["runsc"]}}]).results
        assert not installed.get("failed"), installed
    runtime = module_place / "runsc"
    runtime.write_text(RUNTIME, encoding="ascii")
    runtime.chmod(0o755)
    directory = module_place / "engine"
    directory.mkdir()
    with engines.second_engine(directory, {"runsc": runtime}) as second:
        second.load(engines.IMAGE)
        yield second


@pytest.fixture(scope="module")
def box(engine_with_gvisor: engines.SecondEngine, module_place: Path) -> Iterator[DurableBox]:
    second = engine_with_gvisor
    site = Site(engines.new_instance_name(), module_place)
    made = DurableBox(site, "walled", Path(), second.client(), second.host)
    result = converge(made)
    assert not result.get("failed"), result["msg"]
    yield made
    second.client().remove_container(made.container, force=True)


def converge(box: DurableBox) -> runs.Result:
    declared = box.declaration(network="none", runtime="runsc")
    return box.site.converge(declared, docker_host=box.host, manifests={"standin": MANIFEST})


def test_the_kernel_is_another_one_and_the_box_works(box: DurableBox) -> None:
    box.wait_until_well()
    assert box.inspect()["HostConfig"]["Runtime"] == "runsc"
    assert "gVisor" in box.run("dmesg")
    # Debian 12's gVisor refuses the system call that `stat` and `ls -l` ask with.
    look = "import os; open('/workspace/made', 'w').close(); print(os.stat('/workspace/made').st_uid)"
    assert box.run(f'id -u; python3 -c "{look}"').split() == [str(UID)] * 2
    assert (box.site.workspace("walled") / "made").stat().st_uid == UID


def test_a_second_run_changes_nothing(box: DurableBox) -> None:
    again = converge(box)
    assert not again.get("failed"), again["msg"]
    assert (again["changed"], again["drift"]) == (False, [])


def test_it_stops_in_order_and_comes_back(box: DurableBox) -> None:
    box.engine.stop(box.container, timeout=30)
    assert box.inspect()["State"]["ExitCode"] == 0
    box.engine.start(box.container)
    box.wait_until_well()
