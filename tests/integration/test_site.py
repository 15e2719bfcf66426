"""Playbook site over this machine: optional parts that fail, and two runs at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.integration import runs
from tests.integration.sites import Site, manifests

SUMMARY = "Optional parts failed, everything else is done: tmux: "


def site_with_a_broken_part(site: Site, box: dict[str, Any], *, fails: bool) -> runs.Run:
    """A run in which the host's tmux is older than what is asked for."""
    known = {
        "agentbox_boxes": [box],
        "agentbox_fail_on_optional": fails,
        "agentbox_instance": site.instance,
        "agentbox_manifests": {"standin": manifests()["standin"]},
        "agentbox_state_root": str(site.state_root),
        "tmux_minimum_version": "99",
    }
    return runs.playbook("site", known, arguments=["--tags=tmux,box,verify", "--skip-tags=install"])


@pytest.fixture(scope="module")
def both(new_instance: Any, module_place: Path) -> tuple[Site, runs.Run, runs.Run]:
    """Two runs at once for one box: one that takes a failed part for a failure, and one that does not."""
    site = Site(new_instance(), module_place)
    box = site.box("one")
    with ThreadPoolExecutor(2) as pool:
        strict, lenient = pool.map(lambda fails: site_with_a_broken_part(site, box, fails=fails), (True, False))
    return site, strict, lenient


def test_a_failed_part_does_not_keep_the_boxes_from_converging(
    both: tuple[Site, runs.Run, runs.Run], engine: docker.APIClient
) -> None:
    site, *done = both
    for run in done:
        [failed, *_] = run.failed
        assert failed["task"] == "Verify | Refuse a version that is too old"
        assert not run.result("Present | Converge the boxes").get("failed"), run.output
        assert "failed" not in run.result("Wait until the boxes are healthy")
    assert engine.inspect_container(site.container("one"))["State"]["Running"] is True


def test_the_summary_lists_it_and_the_policy_makes_the_exit_code(both: tuple[Site, runs.Run, runs.Run]) -> None:
    _, strict, lenient = both
    assert strict.returncode != 0
    assert lenient.returncode == 0, lenient.output
    assert strict.failed[-1]["msg"].startswith(SUMMARY)
    assert lenient.result("Tell which optional parts failed")["msg"].startswith(SUMMARY)
    assert "is older than 99" in lenient.result("Tell which optional parts failed")["msg"]


def test_of_two_runs_at_once_one_waits(both: tuple[Site, runs.Run, runs.Run]) -> None:
    _, *done = both
    assert sorted(run.result("Present | Converge the boxes")["changed"] for run in done) == [False, True]
