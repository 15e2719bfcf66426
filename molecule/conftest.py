"""Fixtures for the tests of all scenarios. They look at the host from outside, not through our own modules."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml
from testinfra.host import Host

ROOT = Path(__file__).resolve().parents[1]
INVENTORY = ROOT / ".cache" / "molecule" / "inventory.yml"


@dataclass(frozen=True)
class Scenario:
    """What Molecule did so far in this scenario."""

    folder: Path
    name: str

    def runs(self, playbook: str, *, check: bool = False) -> list[list[dict[str, Any]]]:
        """The changes of each run of a playbook, in order."""
        records = map(json.loads, (self.folder / f"runs-{self.name}.jsonl").read_text(encoding="utf-8").splitlines())
        return [record["changed"] for record in records if (record["playbook"], record["check"]) == (playbook, check)]

    def tree_before(self) -> set[str]:
        """What stood on the host before the role did anything, as tree.py prints it."""
        return set((self.folder / f"tree-{self.name}").read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="session")
def host_variables() -> dict[str, Any]:
    variables: dict[str, Any] = yaml.safe_load(INVENTORY.read_text(encoding="utf-8"))["all"]["hosts"]["instance"]
    return variables


@pytest.fixture(scope="session")
def host(host_variables: dict[str, Any]) -> Host:
    return testinfra.get_host(f"docker://{host_variables['test_host']}")


@pytest.fixture(scope="session")
def scenario() -> Scenario:
    return Scenario(Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]), os.environ["MOLECULE_SCENARIO_NAME"])
