"""One run of ansible-pull on the commit that was fetched and accepted."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentbox._shared import _report
from agentbox._shared._gitops import Places, Settings
from agentbox._shared._health import plain
from agentbox._shared._programs import plain_environment

from .errors import RunError

_ERROR = re.compile(r"\[ERROR\]: (.*)|ERROR! (.*)")
_ORIGIN = re.compile(r"Origin: (\S+)")
# What the run must not inherit: the caller's Ansible settings and this program's own import path.
_FOREIGN = ("ANSIBLE_", "AGENTBOX_", "PYTHON")


class Playbook:
    """Runs of the playbook of one commit."""

    def __init__(self, settings: Settings, places: Places, commit: str) -> None:
        self._settings = settings
        self._places = places
        self._commit = commit

    def run(self, purpose: str, *, check: bool) -> dict[str, Any]:
        """The report of a run; its files among the reports are named after ``purpose``.

        Raises ``RunError`` when Ansible did not succeed, or succeeded without having done anything on this host.
        """
        activity, log = self._file(purpose, "jsonl"), self._file(purpose, "log")
        code = self._pull(activity, log, check=check)
        found = write_report(activity, self._file(purpose, "json"), self._file(purpose, "md"))
        if code != 0:
            why = _report.first_failure(found) or said(log) or f"ansible-pull ended with {code}"
            raise RunError(f"{purpose}: {why}")
        if self._settings.host not in found["hosts"]:
            raise RunError(f"{purpose}: {self._settings.playbook} does nothing on host {self._settings.host}")
        return found

    def _file(self, purpose: str, suffix: str) -> Path:
        return self._places.reports / f"{purpose}.{suffix}"

    def _pull(self, activity: Path, log: Path, *, check: bool) -> int:
        activity.write_bytes(b"")
        with log.open("wb") as output:
            return subprocess.run(
                self.command(check=check),
                env=self.environment(activity),
                # The inventory's path means nothing here, so that of the last commit is not read to check out this one.
                cwd=self._places.reports,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode

    def command(self, *, check: bool) -> list[str]:
        settings = self._settings
        vault = settings.vault_password_file
        return [
            str(Path(sys.executable).with_name("ansible-pull")),
            f"--url=file://{self._places.repository}",
            f"--checkout={self._commit}",
            "--full",
            "--clean",
            f"--directory={self._places.tree}",
            f"--inventory={settings.inventory}",
            f"--limit={settings.host}",
            *([f"--vault-password-file={vault}"] if vault else []),
            *(["--check"] if check else []),
            "--diff",
            settings.playbook,
        ]

    def environment(self, activity: Path) -> dict[str, str]:
        own = {name: value for name, value in plain_environment().items() if not name.startswith(_FOREIGN)}
        collections = (self._places.tree / "collections", self._places.collections.resolve())
        return {
            **own,
            **self._settings.environment,
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": ":".join(map(str, collections)),
            "ANSIBLE_CALLBACKS_ENABLED": "agentbox.fleet.activity",
            "ANSIBLE_NOCOLOR": "1",
            # The journal gets the run's summary; what the modules are called with stands in the log.
            "ANSIBLE_NO_TARGET_SYSLOG": "1",
            "AGENTBOX_ACTIVITY": str(activity),
        }


def write_report(activity: Path, as_json: Path | None, table: Path | None) -> dict[str, Any]:
    """The report of what the callback recorded in ``activity``, written where it is wanted."""
    with activity.open(encoding="utf-8", errors="replace") as lines:
        found = _report.report(_report.parse(lines))
    if as_json:
        as_json.write_text(_report.as_json(found), encoding="utf-8")
    if table:
        table.write_text(_report.table(found), encoding="utf-8")
    return found


def said(log: Path) -> str:
    """Ansible's own error, without the lines of the repository's files that it quotes."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        return error_of(lines)


def error_of(lines: Iterable[str]) -> str:
    """The last error that Ansible printed, and where it lies."""
    error, origin = "", ""
    for line in lines:
        if match := _ERROR.match(line):
            error, origin = match[1] or match[2], ""
        elif (match := _ORIGIN.match(line)) and error and not origin:
            origin = match[1]
    return plain(f"{error} ({origin})" if origin else error)
