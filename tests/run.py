"""Run the tests in stages: ``python -m tests.run [--full] [AREA]``.

AREA is a stage (setup, lint, unit, integration, molecule, e2e) or a role. Every stage prints its minutes.
The first stage that fails ends the run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests import cleanup
from tests.molecule import SCENARIOS

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
ROLES = ("docker", "tmux", "agent_clis", "hooks", "image", "box", "gitops")
NOT_FULL = ["-m", "not full"]
# The tests wait more than they compute. A file stays in one process, because its tests share boxes.
SIDE_BY_SIDE = ["--numprocesses", "4", "--dist", "loadfile"]


class StageError(Exception):
    """A command of a stage failed; the text is the command."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.run", description=__doc__)
    parser.add_argument("--full", action="store_true", help="add every platform and the long loops")
    parser.add_argument("area", nargs="?", choices=[*STAGES, *ROLES], metavar="AREA")
    arguments = parser.parse_args()
    minutes: dict[str, float] = {}
    for name, stage in selected(arguments.area):
        print(f"== {name}", flush=True)  # noqa: T201
        start = time.monotonic()
        try:
            stage(arguments.area or "", arguments.full)
        except StageError as error:
            print(f"== {name} FAILED after {(time.monotonic() - start) / 60:.1f} min: {error}", flush=True)  # noqa: T201
            return 1
        minutes[name] = (time.monotonic() - start) / 60
        print(f"== {name} passed in {minutes[name]:.1f} min", flush=True)  # noqa: T201
    total = sum(minutes.values())
    print(f"== passed: {', '.join(f'{k} {v:.1f}' for k, v in minutes.items())}; {total:.1f} min", flush=True)  # noqa: T201
    return 0


def selected(area: str | None) -> list[tuple[str, Callable[[str, bool], None]]]:
    """The stages of an area: all of them, one, or those that know the role."""
    if area is None:
        return list(STAGES.items())
    if area in ROLES:
        scenario = ("molecule",) if area in SCENARIOS else ()  # a role without one has its tests in integration
        return [(name, STAGES[name]) for name in ("setup", "lint", "integration", *scenario)]
    needs_engine = area in ("integration", "molecule", "e2e")
    return [(name, STAGES[name]) for name in (("setup", area) if needs_engine else (area,))]


def setup(_area: str, _full: bool) -> None:
    """An engine through the project's own role, no left-overs, and the images that the tests share."""
    run(BIN / "ansible-playbook", "site.yml", "--tags", "docker")
    programs()
    for line in cleanup.remove_leftovers():
        print(line, flush=True)  # noqa: T201
    run(BIN / "python", "-m", "tests.images")


def programs() -> None:
    """What tests call on this host besides the engine, where it is missing."""
    if not all(map(shutil.which, ("tmux", "setfacl"))):
        names = json.dumps({"names": ["acl", "tmux"]})
        run(BIN / "ansible", "localhost", "--module-name", "agentbox.fleet.packages", "--args", names)


def lint(_area: str, _full: bool) -> None:
    run(BIN / "ruff", "check", ".")
    run(BIN / "ruff", "format", "--check", ".")
    # One run for each of the two names that the module_utils are imported by.
    run(BIN / "mypy", "src/agentbox", "tools")
    run(BIN / "mypy", "collections/ansible_collections/agentbox/fleet/plugins")
    run(BIN / "yamllint", "--strict", ".")
    run(BIN / "ansible-lint")
    run(BIN / "antsibull-changelog", "lint")


def unit(_area: str, _full: bool) -> None:
    programs()
    pytest("tests/unit", *SIDE_BY_SIDE)


def integration(area: str, full: bool) -> None:
    only = ["-k", area] if area in ROLES else []
    pytest("tests/integration", *SIDE_BY_SIDE, *only, full=full)


def molecule(area: str, full: bool) -> None:
    run(BIN / "python", "-m", "tests.molecule", *(["--full"] if full else []), *([area] if area in ROLES else []))


def e2e(_area: str, full: bool) -> None:
    pytest("tests/e2e", full=full)


STAGES: dict[str, Callable[[str, bool], None]] = {
    "setup": setup,
    "lint": lint,
    "unit": unit,
    "integration": integration,
    "molecule": molecule,
    "e2e": e2e,
}


def pytest(*arguments: str, full: bool = True) -> None:
    run(BIN / "python", "-m", "pytest", "--durations=10", *([] if full else NOT_FULL), *arguments)


def run(*command: str | Path) -> None:
    """Run from the root, without a terminal, as a pipeline does."""
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment, check=False).returncode != 0:
        raise StageError(" ".join(str(part) for part in command))


if __name__ == "__main__":
    sys.exit(main())
