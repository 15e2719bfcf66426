"""What a running playbook tells: the callback's JSON lines and the modules' progress lines, followed as they grow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MAX_READ = 1 << 20  # bytes taken from a file at one look; the rest comes with the next one


class Follower:
    """Yields the whole lines that were appended to a file since the last look. The file may come later."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def lines(self) -> Iterator[str]:
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read(_MAX_READ)
        except FileNotFoundError:
            return
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")


@dataclass(frozen=True)
class Failure:
    """What failed, on what, and what to do next."""

    host: str
    task: str
    role: str
    message: str
    hint: str


@dataclass
class Activity:
    """The state of a run, built from its events."""

    play: str = ""
    task: str = ""
    role: str = ""
    detail: str = ""
    changed: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)  # last result by action
    events: list[dict[str, Any]] = field(default_factory=list)  # all, as the callback wrote them

    @property
    def step(self) -> str:
        """``role: task`` with the detail a module gave last."""
        where = f"{self.role.rpartition('.')[2]}: {self.task}" if self.role else self.task
        return f"{where} ({self.detail})" if self.detail else where

    def see(self, event: dict[str, Any]) -> None:
        """Take in one event of the callback."""
        self.events.append(event)
        kind = event.get("event")
        if kind == "play":
            self.play = str(event.get("name", ""))
        elif kind == "task":
            # Ansible's own check of a role's variables bears a long title of Ansible's making.
            checking = event.get("action") == "ansible.builtin.validate_argument_spec"
            self.task = "Check the variables" if checking else str(event.get("name", ""))
            self.role, self.detail = str(event.get("role") or ""), ""
        elif kind == "result":
            self._see_result(event)

    def _see_result(self, event: dict[str, Any]) -> None:
        if isinstance(event.get("result"), dict):
            self.results[str(event.get("action"))] = event["result"]
        status = event.get("status")
        if status == "changed":
            self.changed.append(str(event.get("name", "")))
        elif status in ("failed", "unreachable") and not event.get("ignored"):
            self.failures.append(
                Failure(
                    host=str(event.get("host", "")),
                    task=str(event.get("name", "")),
                    role=str(event.get("role") or ""),
                    message=str(event.get("msg") or "no reason was given"),
                    hint=str(event.get("hint") or ""),
                )
            )

    def see_detail(self, line: str) -> None:
        """Take in one line of a module's progress file: ``<unix time> <text>``."""
        _, _, text = line.partition(" ")
        self.detail = text.strip()


class Run:
    """Follows the two files of one run."""

    def __init__(self, events: Path, details: Path) -> None:
        self._events = Follower(events)
        self._details = Follower(details)
        self.activity = Activity()

    def update(self) -> Activity:
        """Read what is new and return the state."""
        for line in self._events.lines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                self.activity.see(event)
        for line in self._details.lines():
            self.activity.see_detail(line)
        return self.activity
