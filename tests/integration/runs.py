"""Runs of real Ansible: tasks in, one result per task out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
CALLBACKS = Path(__file__).with_name("callbacks")
COLLECTION = "agentbox.fleet"
PROGRAM = str(Path(sys.executable).with_name("ansible-playbook"))
TIMEOUT = 240  # seconds for one ansible-playbook
# Variables of a developer's shell that must not reach a test.
_FOREIGN = ("AGENTBOX_", "ANSIBLE_", "DOCKER_")

Result = dict[str, Any]
Task = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """What one ansible-playbook did. ``results`` has one entry per task and host, in order."""

    returncode: int
    output: str  # stdout and stderr as a user sees them
    results: list[Result]

    @property
    def changed(self) -> list[str]:
        """Names of the tasks that changed something."""
        return [result["task"] for result in self.results if result.get("changed")]

    @property
    def failed(self) -> list[Result]:
        """Results of the tasks that failed, rescued or not."""
        return [result for result in self.results if result.get("failed")]

    def result(self, task: str) -> Result:
        """The one result of the task of that name."""
        [found] = [result for result in self.results if result["task"] == task and not result.get("skipped")]
        return found


def module_task(name: str, args: Mapping[str, Any], **keywords: Any) -> Task:
    """A task that calls module ``name`` of this collection; ``keywords`` are task keywords, such as ``check_mode``."""
    full = name if "." in name else f"{COLLECTION}.{name}"
    return {"name": name, full: dict(args), **keywords}


def role_task(name: str, variables: Mapping[str, Any], **keywords: Any) -> Task:
    """A task that runs role ``name`` of this collection with ``variables``."""
    return {
        "name": name,
        "ansible.builtin.include_role": {"name": f"{COLLECTION}.{name}", "apply": {"ignore_errors": True}},
        "vars": dict(variables),
        **keywords,
    }


def play(
    tasks: Sequence[Task],
    *,
    check: bool = False,
    diff: bool = False,
    verbosity: int = 0,
    variables: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    gather_facts: bool = False,
    inventory: Path | None = None,
    hosts: str = "localhost",
) -> Run:
    """Run ``tasks`` on localhost with the tests' interpreter; a failed task does not keep the next from running.

    With an ``inventory`` they run on its ``hosts``, in the way it says.

    ``prefix`` is a command that runs ansible-playbook, e.g. in another namespace. Raises when Ansible itself gave no
    result at all, which is a fault of the test.
    """
    document = {
        "name": "Run the tasks of a test",
        "hosts": hosts,
        "gather_facts": gather_facts,
        "vars": {**({} if inventory else {"ansible_python_interpreter": sys.executable}), **(variables or {})},
        "tasks": [{"ignore_errors": True, **task} for task in tasks],
    }
    with TemporaryDirectory(prefix="abx-run-") as directory:
        written = Path(directory, "play.yml")
        written.write_text(json.dumps([document]), encoding="utf-8")
        done = _run(
            [
                *prefix,
                PROGRAM,
                *([f"--inventory={inventory}"] if inventory else ["--inventory=localhost,", "--connection=local"]),
                *_options(check=check, diff=diff, verbosity=verbosity),
                str(written),
            ],
            environment or {},
        )
    if tasks and not done.results:
        raise AssertionError(f"ansible-playbook gave no result:\n{done.output}")
    return done


def playbook(
    name: str,
    variables: Mapping[str, Any] | None = None,
    *,
    inventory: Path | None = None,
    arguments: Sequence[str] = (),
    check: bool = False,
    diff: bool = False,
    verbosity: int = 0,
    timeout: float = TIMEOUT,
) -> Run:
    """Run one of the collection's playbooks with extra ``variables``, on localhost unless there is an ``inventory``."""
    local = {"ansible_python_interpreter": sys.executable, "ansible_connection": "local", "agentbox_become": False}
    with TemporaryDirectory(prefix="abx-run-") as directory:
        written = Path(directory, "variables.json")
        written.write_text(json.dumps({**({} if inventory else local), **(variables or {})}), encoding="utf-8")
        return _run(
            [
                PROGRAM,
                f"--inventory={inventory or 'localhost,'}",
                f"--extra-vars=@{written}",
                *_options(check=check, diff=diff, verbosity=verbosity),
                *arguments,
                f"{COLLECTION}.{name}",
            ],
            {},
            timeout,
        )


def _options(*, check: bool, diff: bool, verbosity: int) -> list[str]:
    wanted = {"--check": check, "--diff": diff, f"-{'v' * verbosity}": bool(verbosity)}
    return [option for option, given in wanted.items() if given]


def _run(command: Sequence[str], environment: Mapping[str, str], timeout: float = TIMEOUT) -> Run:
    with TemporaryDirectory(prefix="abx-results-") as directory:
        recorded = Path(directory, "results.jsonl")
        recorded.touch()
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=_environment(recorded, environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        results = [json.loads(line) for line in recorded.read_text(encoding="utf-8").splitlines()]
    return Run(done.returncode, done.stdout, results)


def _environment(recorded: Path, extra: Mapping[str, str]) -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    return {
        **own,
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
        "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
        "ANSIBLE_CALLBACKS_ENABLED": "results",
        "ANSIBLE_NOCOLOR": "1",
        "AGENTBOX_TEST_RESULTS": str(recorded),
        **extra,
    }
