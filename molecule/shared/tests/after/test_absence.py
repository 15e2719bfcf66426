"""State absent, applied twice."""

from __future__ import annotations

from conftest import Scenario


def test_absent_changes_once(scenario: Scenario) -> None:
    first, second = scenario.runs("absent.yml")
    assert first
    assert second == []
