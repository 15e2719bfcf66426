"""What is true of every role: check mode tells the truth, a second run finds nothing to do, drift is repaired."""

from __future__ import annotations

import json
import os
import subprocess

from conftest import ROOT, Scenario

# Where nothing forbids it, the package starts the engine itself, before the role does what was predicted of it.
OVERTAKEN = {"agentbox.fleet.docker : Start the engine and wait until it answers"}


def test_predictions_came_true(scenario: Scenario) -> None:
    predicted, _ = scenario.runs("converge.yml", check=True)
    first, *_ = scenario.runs("converge.yml")
    assert [change for change in predicted if change in first or change["task"] not in OVERTAKEN] == first


def test_nothing_to_do_a_second_time(scenario: Scenario) -> None:
    _, second, _ = scenario.runs("converge.yml")
    assert second == []


def test_check_mode_finds_nothing_to_do_afterwards(scenario: Scenario) -> None:
    _, after = scenario.runs("converge.yml", check=True)
    assert after == []


def test_drift_was_found(scenario: Scenario) -> None:
    *_, repair = scenario.runs("converge.yml")
    assert repair


def test_the_code_under_test_is_the_checkout() -> None:
    """Not a copy that Molecule or an earlier installation left somewhere."""
    found = subprocess.run(
        ["ansible-doc", "--json", "--type=module", "agentbox.fleet.packages"],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    path = json.loads(found.stdout)["agentbox.fleet.packages"]["doc"]["filename"]
    assert os.path.realpath(path) == str(ROOT / "plugins" / "modules" / "packages.py")
