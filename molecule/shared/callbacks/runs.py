"""Writes down what each run of a scenario changed, and prints the handlers among it and the time it took.

Molecule's own idempotence report blames a handler on the task before it. The records, one JSON object per run, are
what the tests compare predictions with. Molecule's folder is shared by all scenarios, so each has a file there.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible import context
from ansible.playbook.handler import Handler
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: runs
type: notification
short_description: Write down what each run changed
description: One JSON object per run in runs-<scenario>.jsonl of Molecule's folder.
"""


class CallbackModule(CallbackBase):
    """A run's changes, by host and task."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "runs"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._playbook = ""
        self._start = time.monotonic()
        self._changed: list[dict[str, Any]] = []

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._playbook = Path(playbook._file_name).name

    def v2_runner_on_ok(self, result: Any) -> None:
        if result.is_changed():
            handler = isinstance(result.task, Handler)
            self._changed.append({"host": result.host.get_name(), "task": result.task.get_name(), "handler": handler})

    def v2_playbook_on_stats(self, stats: Any) -> None:
        for change in self._changed:
            if change["handler"]:
                self._display.display(f"Changed by handler: [{change['host']}] => {change['task']}")
        record = {"playbook": self._playbook, "check": bool(context.CLIARGS.get("check")), "changed": self._changed}
        self._display.display(f"Seconds of {self._playbook}: {time.monotonic() - self._start:.0f}")
        name = f"runs-{os.environ['MOLECULE_SCENARIO_NAME']}.jsonl"
        with Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], name).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
