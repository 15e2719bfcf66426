"""Writes what a playbook does as JSON lines, for the Agentbox CLI or any other program that follows a run."""

from __future__ import annotations

DOCUMENTATION = r"""
name: activity
type: notification
short_description: Writes what a playbook does as JSON lines
version_added: 0.1.0
description:
  - Appends one JSON object per line to a file while a playbook runs, so that a program can show progress and read
    results without scraping output meant for people.
  - Every object has C(event) and C(time) (seconds since the epoch). C(play) has C(name); C(task) has C(name), C(role)
    and C(action); C(result) has these and C(host), C(status) (V(ok), V(changed), V(failed), V(unreachable),
    V(skipped)), C(msg), C(hint), C(ignored), and, for the modules of this collection, their whole C(result); C(stats)
    has the counts of every host.
  - Nothing of a task or result that Ansible is told not to log is written but its status.
requirements:
  - To be enabled, C(callbacks_enabled = agentbox.fleet.activity).
options:
  path:
    description:
      - The file to append to; made with mode 0600. Without it the callback does nothing.
    type: path
    env:
      - name: AGENTBOX_ACTIVITY
    ini:
      - section: agentbox
        key: activity
author:
  - The Agentbox developers
"""

import json
import os
import time
from typing import Any

from ansible.plugins.callback import CallbackBase

COLLECTION = "agentbox.fleet."
# Not the module's answer but how Ansible came by it; ``invocation`` repeats every option.
_MACHINERY = ("invocation", "exception", "deprecations")
CENSORED = "hidden by no_log"


def described(task: Any) -> dict[str, Any]:
    """What stands for a task in an event."""
    role = getattr(task, "_role", None)
    return {
        "name": (task.name or task.action).strip(),
        "role": role.get_name() if role else None,
        "action": task.action,
    }


def reported(task: Any, result: dict[str, Any]) -> dict[str, Any]:
    """What may be told of a result: nothing when it is not to be logged, everything of this collection's modules."""
    if task.no_log or result.get("_ansible_no_log"):
        return {"msg": CENSORED}
    report = {key: str(result[key]) for key in ("msg", "hint") if result.get(key)}
    if task.action.startswith(COLLECTION):
        answer = {
            key: value for key, value in result.items() if key not in _MACHINERY and not key.startswith("_ansible_")
        }
        return {**report, "result": answer}
    return report


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Ansible's entry point."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "agentbox.fleet.activity"
    CALLBACK_NEEDS_ENABLED = True

    def set_options(self, task_keys: Any = None, var_options: Any = None, direct: Any = None) -> None:
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        self._path: str | None = self.get_option("path")
        self.disabled = not self._path

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._write("play", name=play.get_name().strip())

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self._write("task", **described(task))

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._write("task", **described(task))

    def v2_runner_on_ok(self, result: Any) -> None:
        self._result(result, "changed" if result.result.get("changed") else "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._result(result, "failed", ignored=ignore_errors)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._result(result, "unreachable")

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._result(result, "skipped")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._write("stats", hosts={host: stats.summarize(host) for host in sorted(stats.processed)})

    def _result(self, result: Any, status: str, ignored: bool = False) -> None:
        self._write(
            "result",
            host=result.host.get_name(),
            status=status,
            ignored=ignored,
            **described(result.task),
            **reported(result.task, result.result),
        )

    def _write(self, event: str, **fields: Any) -> None:
        """Append one line. A run must not fail because nobody can follow it."""
        line = json.dumps({"event": event, "time": round(time.time(), 3), **fields}, default=str) + "\n"
        try:
            descriptor = os.open(str(self._path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "a", encoding="utf-8") as stream:
                stream.write(line)
        except OSError as error:
            self._display.warning(f"cannot write the activity to {self._path}: {error}")
            self.disabled = True
