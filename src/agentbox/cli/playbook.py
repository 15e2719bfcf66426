"""Run one of the collection's playbooks on this machine, follow it, and end it decently when interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, TextIO

import yaml

from agentbox._shared._errors import AgentboxError

from . import collection, processes
from .activity import Activity, Run
from .exits import RunInterruptedError
from .progress import Progress

KEPT_LOGS = 20
_POLL = 0.2  # seconds between two looks at the run
_GRACE = 20.0  # seconds an interrupted run gets to leave things in order
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class PlaybookFailedError(AgentboxError):
    """A run ended with a failure; the message says what failed, on what, and where the full log is."""

    def __init__(self, message: str, hint: str, activity: Activity) -> None:
        super().__init__(message, hint)
        self.activity = activity


@dataclass(frozen=True)
class Playbook:
    """What to run. ``variables`` go through a private file, so they may hold secrets."""

    name: str
    variables: Mapping[str, Any]
    skip_tags: Sequence[str] = ()
    check: bool = False  # predict, and change nothing


def run(playbook: Playbook, logs: Path, stream: TextIO) -> Activity:
    """Run ``playbook`` and return what it did. Raises ``PlaybookFailedError`` or ``RunInterruptedError``."""
    log = _new_log(logs, playbook.name)
    with tempfile.TemporaryDirectory(prefix="agentbox-") as directory, _caught_signals() as caught:
        scratch = Path(directory)
        with log.open("wb") as output:
            process = _start(playbook, scratch, output)
            follower = Run(scratch / "events", scratch / "progress")
            progress = Progress(stream)
            try:
                _follow(process, follower, progress, caught)
            finally:
                progress.finish()
        activity = follower.update()
    if process.returncode != 0:
        raise PlaybookFailedError(_explained(activity, log), f"The whole log is in {log}", activity)
    return activity


def _start(playbook: Playbook, scratch: Path, output: IO[bytes]) -> subprocess.Popen[bytes]:
    variables = {**playbook.variables, "agentbox_progress": str(scratch / "progress")}
    _write_private(scratch / "variables.yml", inert_yaml(variables))
    (scratch / "ansible.cfg").touch()
    return subprocess.Popen(
        command(playbook, scratch),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=scratch,
        env=environment(os.environ, scratch),
        # Without a terminal of its own nothing below can ask for a password, and Ctrl-C reaches us alone.
        start_new_session=True,
    )


def command(playbook: Playbook, scratch: Path) -> list[str]:
    """The argument vector; it holds no values."""
    skipped = ["--skip-tags", ",".join(playbook.skip_tags)] if playbook.skip_tags else []
    return [
        *(sys.executable, "-m", "ansible", "playbook"),
        *("--inventory", "localhost,", "--extra-vars", f"@{scratch / 'variables.yml'}"),
        *skipped,
        *(["--check"] if playbook.check else []),
        f"{collection.NAMESPACE}.{playbook.name}",
    ]


def environment(environ: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The caller's environment with our own Ansible settings in place of any of theirs."""
    inherited = {name: value for name, value in environ.items() if not name.startswith("ANSIBLE_")}
    return {
        **inherited,
        "LC_ALL": "C.UTF-8",  # Ansible refuses to start in a locale that is not UTF-8
        "AGENTBOX_ACTIVITY": str(scratch / "events"),
        "ANSIBLE_CONFIG": str(scratch / "ansible.cfg"),
        "ANSIBLE_HOME": str(scratch / "ansible"),
        "ANSIBLE_REMOTE_TEMP": str(scratch / "remote"),
        "ANSIBLE_COLLECTIONS_PATH": str(collection.collections_path()),
        "ANSIBLE_CALLBACKS_ENABLED": f"{collection.NAMESPACE}.activity",
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
    }


class _InertDumper(yaml.SafeDumper):
    """Marks text that looks like a template as none, so that braces in a path or a secret stay what they are."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Not on every text: Ansible reads a marked "1" or "true" as number or boolean.
    if any(opening in text for opening in ("{{", "{%", "{#")):
        return dumper.represent_scalar("!unsafe", text, style='"')
    return dumper.represent_str(text)


_InertDumper.add_representer(str, _represent_text)


def inert_yaml(variables: Mapping[str, Any]) -> str:
    """Variables for Ansible in which no value is a template."""
    return yaml.dump(dict(variables), Dumper=_InertDumper, width=2**31)


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def _new_log(directory: Path, name: str) -> Path:
    """A new private file; the oldest of the directory give way."""
    try:
        directory.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        for old in sorted(directory.glob("*.log"))[: -KEPT_LOGS + 1]:
            old.unlink(missing_ok=True)
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        descriptor, path = tempfile.mkstemp(".log", f"{stamp}-{name}-", directory)
    except OSError as error:
        raise AgentboxError(f"cannot write a log into {directory}: {error}", "Free or repair that directory") from error
    os.close(descriptor)
    return Path(path)


def _follow(process: subprocess.Popen[bytes], follower: Run, progress: Progress, caught: list[signal.Signals]) -> None:
    """Show progress until the run ends; raise ``RunInterruptedError`` after having ended it."""
    while process.poll() is None:
        progress.show(follower.update().step or "Start Ansible")
        if caught:
            progress.finish()
            processes.end(process, _GRACE, impatient=lambda: len(caught) > 1)
            raise RunInterruptedError
        time.sleep(_POLL)


@contextlib.contextmanager
def _caught_signals() -> Iterator[list[signal.Signals]]:
    """Collect the signals that ask for an end, in place of dying from them."""
    caught: list[signal.Signals] = []

    def note(number: int, _frame: FrameType | None) -> None:
        caught.append(signal.Signals(number))

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _explained(activity: Activity, log: Path) -> str:
    """What failed. A run that failed before its first task told only its log."""
    if not activity.failures:
        return f"Ansible could not run: {_last_lines(log)}"
    return "\n".join(
        f"{failure.role + ': ' if failure.role else ''}{failure.task} failed on {failure.host}: {failure.message}"
        + (f". {failure.hint}" if failure.hint else "")
        for failure in activity.failures
    )


def _last_lines(log: Path, count: int = 5) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-count:])
