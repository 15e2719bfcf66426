"""Runs of a host that converges itself, with real Git and ansible-pull, on directories of this machine.

What takes a server with systemd is in test_gitops.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared._gitops import BUSY, Places, Settings
from agentbox._shared._state import json_file, locked, write_file
from agentbox.gitops.run import run
from tests.integration import runs

NAME = "ada.example"
SITE = """
- name: Site
  hosts: {hosts}
  gather_facts: false
  tasks:
    - name: Refuse what is too long
      ansible.builtin.assert: {{that: "'{motto}' | length < 10", fail_msg: too long}}
    - name: Write the motto
      ansible.builtin.copy: {{content: "{motto}", dest: "{target}", mode: "0600"}}
    - name: Have Git
      agentbox.fleet.packages: {{names: [git]}}
"""


@dataclass(frozen=True)
class Host:
    """The service's directories, a repository beside them, and the file that its playbook writes."""

    directory: Path

    @property
    def places(self) -> Places:
        place = self.directory
        return Places(config=place / "etc", code=place / "opt", state=place / "var", units=place / "units")

    @property
    def target(self) -> Path:
        return self.directory / "motto"

    def configure(self, **changed: Any) -> None:
        settings = {
            "repository": f"file://{self.directory}/origin",
            "branch": "main",
            "inventory": "hosts.yml",
            "playbook": "site.yml",
            "host": NAME,
            "mode": "converge",
            "verify_signatures": False,
            "allow_rewritten": True,
        }
        write_file(json_file(str(self.places.settings), Settings(**{**settings, **changed}).to_json(), 0o600))

    def publish(self, motto: str, hosts: str = "all") -> None:
        site = SITE.format(motto=motto, target=self.target, hosts=hosts)
        (self.directory / "origin/site.yml").write_text(site, encoding="utf-8")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", motto)

    def git(self, *arguments: str) -> None:
        who = {f"GIT_{role}_{key}": "ada@git.example" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
        subprocess.run(["git", *arguments], cwd=self.directory / "origin", env={**os.environ, **who}, check=True)

    def run(self) -> tuple[int, dict[str, Any]]:
        code, line = run(self.places)
        status: dict[str, Any] = json.loads(self.places.status.read_text(encoding="utf-8"))
        assert line.startswith(f"{status['outcome']}: ")
        return code, status


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    found = Host(tmp_path_factory.mktemp("gitops"))
    for name in ("etc", "opt", "origin"):
        (found.directory / name).mkdir()
    found.places.collections.symlink_to(runs.REPOSITORY / "collections")
    inventory = {"all": {"hosts": {NAME: {"ansible_python_interpreter": sys.executable}}}}
    (found.directory / "origin/hosts.yml").write_text(json.dumps(inventory), encoding="utf-8")
    found.git("init", "--quiet", "--initial-branch=main")
    return found


def test_a_run_is_only_one_and_needs_its_settings(host: Host) -> None:
    code, line = run(host.places)
    assert (code, "Run role agentbox.fleet.gitops again" in line) == (1, True)
    with locked(str(host.places.state), "gitops run", 0):
        code, line = run(host.places)
    assert (code, line.startswith("not run: ")) == (BUSY, True)


def test_reports_converges_and_leaves_the_old_state_to_a_bad_commit(host: Host) -> None:
    host.configure(mode="report")
    host.publish("one")
    code, status = host.run()
    assert (code, status["outcome"], status["applied"], host.target.exists()) == (0, "drift", None, False)
    assert status["counts"] == {"hosts": 1, "changed": 1, "failed": 0, "drift": 0}
    table = (host.places.reports / "check.md").read_text(encoding="utf-8")
    assert f"| `{NAME}` |  | `Write the motto` | `changed` | `ansible.builtin.copy` |" in table

    host.configure()
    code, status = host.run()
    assert (code, status["outcome"], host.target.read_text()) == (0, "ok", "one")
    applied = status["applied"]
    assert applied == status["commit"]

    host.publish("much too long")
    code, status = host.run()
    assert (code, status["outcome"], status["applied"], host.target.read_text()) == (1, "failed", applied, "one")
    assert status["reason"] == (f"check: Refuse what is too long (ansible.builtin.assert) failed on {NAME}: too long")
    assert not (host.places.reports / "converge.md").exists(), "reports are those of one run"

    host.publish("two", hosts="eve.example")
    code, status = host.run()
    assert (code, host.target.read_text()) == (1, "one")
    assert status["reason"] == f"check: site.yml does nothing on host {NAME}"


def test_refuses_without_running_anything(host: Host) -> None:
    host.configure(verify_signatures=True)
    host.publish("three")
    code, status = host.run()
    assert (code, status["outcome"], host.target.read_text()) == (1, "refused", "one")
    assert "it has no signature" in status["reason"]
    assert not host.places.tree.exists()
