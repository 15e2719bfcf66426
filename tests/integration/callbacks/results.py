"""Ansible callback of the tests: one JSON line per task result, as Ansible would show it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: results
type: aggregate
short_description: Results as JSON lines
description: Appends one JSON line per task result to the file that AGENTBOX_TEST_RESULTS names.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "results"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: Any) -> None:
        self._write(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._write(result, failed=True)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._write(result, failed=True)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._write(result, skipped=True)

    def _write(self, result: Any, **marks: bool) -> None:
        names = {"host": result.host.get_name(), "task": result.task.get_name().rsplit(" : ", 1)[-1]}
        line = {**result.result, **marks, **names}
        with Path(os.environ["AGENTBOX_TEST_RESULTS"]).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, default=str) + "\n")
