"""What the command line's environment, variables file and callback do to real Ansible."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbox.cli import playbook

HOSTILE = {
    "braces": "{{ lookup('pipe', 'id') }} {% raw %} é \U0001f600",
    "lines": "one\ntwo\\n\ttab",
    "typed": ["true", "1", "null", True, 1, None, 1.5],
    "nested": {"{{ key }}": "x: y # z"},
}


def run_ansible(scratch: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a playbook as the command line does: same environment, no terminal, closed input."""
    (scratch / "ansible.cfg").touch()
    (scratch / "play.yml").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", *arguments, str(scratch / "play.yml")],
        env=playbook.environment(os.environ, scratch),
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def events(scratch: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (scratch / "events").read_text().splitlines()]


def test_no_value_is_a_template_for_ansible(tmp_path: Path) -> None:
    variables = tmp_path / "variables.yml"
    variables.write_text(playbook.inert_yaml({"given": HOSTILE}))
    result = run_ansible(
        tmp_path,
        """
        - hosts: localhost
          gather_facts: false
          connection: local
          tasks:
            - ansible.builtin.copy:
                content: "{{ given | to_json }}"
                dest: "{{ playbook_dir }}/seen.json"
                mode: "0600"
        """,
        "-e",
        f"@{variables}",
        "-e",
        f"ansible_python_interpreter={sys.executable}",
    )
    assert result.returncode == 0, result.stdout
    assert json.loads((tmp_path / "seen.json").read_text()) == HOSTILE


def test_the_callback_tells_steps_results_and_failures_and_nothing_secret(tmp_path: Path) -> None:
    result = run_ansible(
        tmp_path,
        """
        - name: First play
          hosts: localhost
          gather_facts: false
          connection: local
          tasks:
            - name: Hide
              ansible.builtin.debug:
                msg: s3cret-one
              no_log: true
            - name: Ignore
              ansible.builtin.fail:
                msg: never mind
              ignore_errors: true
            - name: Skip
              ansible.builtin.debug:
              when: false
            - name: Change
              ansible.builtin.debug:
                msg: new
              changed_when: true
            - name: Fail without a trace
              ansible.builtin.command: "false s3cret-two"
              no_log: true
        """,
        "-e",
        f"ansible_python_interpreter={sys.executable}",
    )
    assert result.returncode == 2
    seen = events(tmp_path)
    assert "s3cret" not in (tmp_path / "events").read_text()
    assert stat.S_IMODE((tmp_path / "events").stat().st_mode) == 0o600
    assert [event["name"] for event in seen if event["event"] == "play"] == ["First play"]
    results = {event["name"]: event for event in seen if event["event"] == "result"}
    assert {name: event["status"] for name, event in results.items()} == {
        "Hide": "ok",
        "Ignore": "failed",
        "Skip": "skipped",
        "Change": "changed",
        "Fail without a trace": "failed",
    }
    assert results["Ignore"]["ignored"] is True
    assert results["Fail without a trace"]["msg"] == "hidden by no_log"
    assert seen[-1]["event"] == "stats"
    assert seen[-1]["hosts"]["localhost"]["changed"] == 1


def test_without_a_file_the_callback_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_ansible(tmp_path, "- hosts: localhost\n  gather_facts: false\n  tasks: []\n")
    assert result.returncode == 0
    assert (tmp_path / "events").exists()
    environment = playbook.environment(os.environ, tmp_path)
    del environment["AGENTBOX_ACTIVITY"]
    (tmp_path / "events").unlink()
    quiet = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", str(tmp_path / "play.yml")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert not (tmp_path / "events").exists()


@pytest.mark.parametrize("name", ["up", "rebuild", "down", "stop", "doctor", "site"])
def test_every_playbook_refuses_an_inventory_without_hosts(tmp_path: Path, name: str) -> None:
    (tmp_path / "ansible.cfg").touch()
    (tmp_path / "hosts.yml").write_text("all: {}\n")
    result = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", str(tmp_path / "hosts.yml"), f"agentbox.fleet.{name}"],
        env=playbook.environment(os.environ, tmp_path),
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert result.returncode != 0
    assert "No host of the inventory matches all" in result.stdout
