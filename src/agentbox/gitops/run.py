"""One run: fetch, accept, check, converge, and say how it ended."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from agentbox._shared import _report
from agentbox._shared._errors import AgentboxError, LockedError
from agentbox._shared._gitops import BUSY, Places, Settings
from agentbox._shared._health import plain
from agentbox._shared._state import Directory, ensure_directory, json_file, locked, read_json, write_file

from .errors import RefusedError, RunError
from .git import Repository
from .playbook import Playbook

SCHEMA = 1
_KEPT = ("accepted", "applied")  # commits: last accepted, last converged to


class Run:
    """A run and the status that it leaves. ``status`` is complete at any moment, also when the run is killed."""

    def __init__(self, settings: Settings, places: Places) -> None:
        self._settings = settings
        self._places = places
        before = read_json(str(places.status)) or {}
        self._same = (before.get("repository"), before.get("branch")) == (settings.repository, settings.branch)
        self.status: dict[str, Any] = {
            "schema": SCHEMA,
            "outcome": "running",
            "reason": "",
            "mode": settings.mode,
            "host": settings.host,
            "repository": settings.repository,
            "branch": settings.branch,
            "commit": None,
            "started": _now(),
            "finished": None,
            "counts": None,
            **{key: before.get(key) for key in _KEPT},
        }

    def execute(self) -> int:
        """Run to the end; the exit code."""
        try:
            with _ended_by_signal():
                self._save()
                self._prepare()
                self._end(self._converged(self._accepted()))
        except RunError as error:
            self._end(error.outcome, str(error))
        except (AgentboxError, OSError) as error:
            self._end("failed", str(error))
        return 0 if self.status["outcome"] in ("ok", "drift") else 1

    def summary(self) -> str:
        """The line for the journal."""
        status = self.status
        at = f" at {status['commit'][:12]}" if status["commit"] else ""
        counts = f": {_report.summary({'counts': status['counts']})}" if status["counts"] else ""
        return f"{status['outcome']}: {status['mode']} {status['branch']}{at}" + (
            f": {status['reason']}" if status["reason"] else counts
        )

    def _prepare(self) -> None:
        """Take away what earlier runs left: environments and collections that were replaced, the checked out tree."""
        used = {self._places.python.resolve(), self._places.collections.resolve()}
        for path in (*self._places.code.glob("python-*"), *self._places.code.glob("collections-*")):
            if path not in used:
                shutil.rmtree(path)
        shutil.rmtree(self._places.tree, ignore_errors=True)
        for directory in (self._places.work, self._places.reports):
            ensure_directory(Directory(str(directory), 0o700))

    def _accepted(self) -> str:
        """The commit to run, found acceptable."""
        repository = Repository(self._settings, self._places)
        commit = self.status["commit"] = repository.fetch()
        if self._settings.verify_signatures:
            repository.require_signature(commit)
        before = self.status["accepted"] if self._same else None
        if before and not self._settings.allow_rewritten and not repository.contains(commit, before):
            raise RefusedError(
                f"the branch was rewritten: commit {commit[:12]} does not build on {before[:12]}",
                "Set gitops_allow_rewritten to follow it",
            )
        repository.require_path(commit, "inventory", self._settings.inventory)
        repository.require_path(commit, "playbook", self._settings.playbook)
        self.status["accepted"] = commit
        return commit

    def _converged(self, commit: str) -> str:
        """The outcome of checking and, if told to, converging."""
        playbook = Playbook(self._settings, self._places, commit)
        for path in self._places.reports.iterdir():
            path.unlink()  # all that lies there belongs to one run
        found = playbook.run("check", check=True)
        self.status["counts"] = found["counts"]
        if self._settings.mode == "report":
            return str(found["outcome"])
        done = playbook.run("converge", check=False)
        self.status["applied"] = commit
        # What was changed is no drift any more.
        return "drift" if done["counts"]["drift"] else "ok"

    def _end(self, outcome: str, reason: str = "") -> None:
        self.status |= {"outcome": outcome, "reason": plain(reason), "finished": _now()}
        self._save()

    def _save(self) -> None:
        write_file(json_file(str(self._places.status), self.status, 0o644))


def run(places: Places) -> tuple[int, str]:
    """One run with the settings of the host; exit code and the line for the journal."""
    try:
        ensure_directory(Directory(str(places.state), 0o755))
        with locked(str(places.state), "gitops run", 0):
            current = Run(Settings.from_json(_configuration(places.settings)), places)
            return current.execute(), current.summary()
    except LockedError as error:
        return BUSY, f"not run: {error}"
    except AgentboxError as error:
        return 1, f"failed: {error}"


def _configuration(path: Path) -> dict[str, Any]:
    found = read_json(str(path))
    if found is None:
        raise AgentboxError(f"{path} is missing or damaged", "Run role agentbox.fleet.gitops again")
    return found


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Let systemd's request to end become an error, so that the status says it. What runs below got the signal too."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise RunError(f"ended by {signal.Signals(number).name} (stopped, or over its time limit)")

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
