"""Running programs for both sides with the same interpreter, the same options and the same environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PLAYBOOKS = Path(__file__).with_name("playbooks")
CACHE = REPOSITORY / ".cache/bench"
PEER_COLLECTIONS = CACHE / "collections"
_BIN = Path(sys.executable).parent
_FOREIGN = ("AGENTBOX_", "ANSIBLE_", "DOCKER_")
_RECAP = re.compile(r"changed=(\d+)")
_SHOWN = 2000  # characters of a failed program's output


class BenchError(Exception):
    """A side did not do its work, so there is nothing to compare."""


def environment() -> dict[str, str]:
    """The caller's environment without what would reach one side only. Installed programs have their bytecode."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    own.pop("PYTHONDONTWRITEBYTECODE", None)
    return {
        **own,
        "PYTHONPYCACHEPREFIX": str(CACHE / "bytecode"),
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": f"{REPOSITORY / 'collections'}:{PEER_COLLECTIONS}",
        "ANSIBLE_NOCOLOR": "1",
    }


def run(command: Sequence[str], *, extra: Mapping[str, str] | None = None) -> str:
    """Standard output of a program that succeeds. Raises ``BenchError`` for one that does not."""
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**environment(), **(extra or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-_SHOWN:]}")
    return done.stdout


def module(name: str, arguments: Path) -> int:
    """Run a module of the collection as a process of its own; the most memory that it took, in bytes."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"ansible_collections.agentbox.fleet.plugins.modules.{name}", str(arguments)],
        cwd=REPOSITORY,
        env={**environment(), "PYTHONPATH": str(REPOSITORY / "collections")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchError(f"module {name} ended with {process.returncode}")
    return usage.ru_maxrss * 1024


def playbook(
    path: Path | str, variables: Path | None = None, *words: str, extra: Mapping[str, str] | None = None
) -> str:
    """Run a playbook on this machine; its output."""
    return run(
        [
            str(_BIN / "ansible-playbook"),
            *("--inventory=localhost,", "--connection=local"),
            f"--extra-vars=ansible_python_interpreter={sys.executable}",
            *([f"--extra-vars=@{variables}"] if variables else []),
            *words,
            str(path),
        ],
        extra=extra,
    )


def unchanged(output: str) -> None:
    """Raise ``BenchError`` unless the recap of a playbook says that nothing changed."""
    if _RECAP.findall(output) != ["0"]:
        raise BenchError(f"a run that had nothing to do changed something:\n{output[-_SHOWN:]}")


def write_variables(path: Path, variables: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(variables), encoding="utf-8")
    return path


def program(name: str) -> str:
    """Path of a program of the project's environment."""
    return str(_BIN / name)
