"""Check mode on a host that nobody touched yet."""

from __future__ import annotations

from conftest import ROOT, Scenario
from testinfra.host import Host


def test_check_mode_wrote_nothing(host: Host, scenario: Scenario) -> None:
    program = (ROOT / "molecule" / "shared" / "tree.py").read_text(encoding="utf-8")
    now = set(host.check_output("python3 -c %s", program).splitlines())
    before = scenario.tree_before()
    assert before, "there is no snapshot to compare with"
    assert sorted(now ^ before) == []


def test_check_mode_predicted_something(scenario: Scenario) -> None:
    [predicted] = scenario.runs("converge.yml", check=True)
    assert predicted
