"""Run Molecule's scenarios: ``python -m tests.molecule [--full] [SCENARIO ...]``.

All of them by default, one after the other on one throwaway host, each with its minutes. ``--full`` adds the
scenario ``default`` on a host of every other platform.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
FOLDER = ROOT / ".cache" / "molecule-run"
# In this order: each role builds on the ones before, and "default" begins with nothing again.
SCENARIOS = ("docker", "tmux", "agent_clis", "hooks", "image", "box", "default")
OTHER_PLATFORMS = ("debian-13",)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.molecule", description=__doc__)
    parser.add_argument("--full", action="store_true", help="add scenario default on every other platform")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    arguments = parser.parse_args()
    chosen = [name for name in SCENARIOS if name in arguments.scenarios or not arguments.scenarios]
    if len(chosen) < len(set(arguments.scenarios)):
        parser.error(f"scenarios are {', '.join(SCENARIOS)}")
    runs = [("debian-12", chosen)]
    if arguments.full:
        runs += [(platform, ["default"]) for platform in OTHER_PLATFORMS]
    return next((code for code in (run(platform, names) for platform, names in runs) if code != 0), 0)


def run(platform: str, scenarios: list[str]) -> int:
    """Run scenarios on a fresh host of ``platform``, without a terminal; returns Molecule's exit code."""
    shutil.rmtree(FOLDER, ignore_errors=True)  # Molecule's memory of an interrupted run
    environment = os.environ | {
        "AGENTBOX_TEST_PLATFORM": platform,
        "MOLECULE_EPHEMERAL_DIRECTORY": str(FOLDER),
        "NO_COLOR": "1",
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [str(BIN / "molecule"), "test", *(f"--scenario-name={name}" for name in scenarios)]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
