"""How a playbook is called: environment, arguments, logs."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
import yaml

from agentbox.cli import collection, playbook
from agentbox.cli.playbook import Playbook, PlaybookFailedError


def test_the_caller_s_ansible_settings_have_no_effect(tmp_path: Path) -> None:
    theirs = {"ANSIBLE_CONFIG": "/etc/evil.cfg", "ANSIBLE_STDOUT_CALLBACK": "json", "ANSIBLE_VAULT_PASSWORD_FILE": "/x"}
    found = playbook.environment({**theirs, "HTTPS_PROXY": "http://proxy.example", "LC_ALL": "POSIX"}, tmp_path)
    assert found["ANSIBLE_CONFIG"] == str(tmp_path / "ansible.cfg")
    assert not found.keys() & {"ANSIBLE_STDOUT_CALLBACK", "ANSIBLE_VAULT_PASSWORD_FILE"}
    assert found["HTTPS_PROXY"] == "http://proxy.example"
    assert found["LC_ALL"] == "C.UTF-8"
    assert found["ANSIBLE_COLLECTIONS_PATH"] == str(collection.collections_path())


def test_the_argument_vector_holds_no_value(tmp_path: Path) -> None:
    command = playbook.command(Playbook("up", {"key": "s3cret"}, ("docker", "tmux")), tmp_path)
    assert command[-3:] == ["--skip-tags", "docker,tmux", "agentbox.fleet.up"]
    assert "s3cret" not in " ".join(command)


def test_a_prediction_is_a_run_in_check_mode(tmp_path: Path) -> None:
    command = playbook.command(Playbook("site", {}, check=True), tmp_path)
    assert command[-2:] == ["--check", "agentbox.fleet.site"]


def test_a_run_that_can_not_start_tells_why_and_where_the_log_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "state" / "logs"
    with pytest.raises(PlaybookFailedError) as failed:
        playbook.run(Playbook("no_such_playbook", {}), logs, sys.stderr)
    assert "no_such_playbook" in failed.value.message
    [log] = logs.glob("*.log")
    assert str(log) in failed.value.hint
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(logs.stat().st_mode) == 0o700


def test_old_logs_give_way(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(30):
        (logs / f"20260101T0000{number:02d}-up-x.log").touch()
    with pytest.raises(PlaybookFailedError):
        playbook.run(Playbook("no_such_playbook", {}), logs, sys.stderr)
    kept = sorted(path.name for path in logs.iterdir())
    assert len(kept) == playbook.KEPT_LOGS
    assert "no_such_playbook" in kept[-1]


def test_a_log_directory_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    with pytest.raises(Exception, match="cannot write a log into") as failed:
        playbook.run(Playbook("up", {}), tmp_path / "logs", sys.stderr)
    assert str(tmp_path / "logs") in str(failed.value)


def test_playbooks_take_their_hosts_from_a_variable() -> None:
    for path in (collection.root() / "playbooks").glob("*.yml"):
        for play in yaml.safe_load(path.read_text()):
            hosts = play.get("hosts")
            assert hosts in (None, "localhost", "{{ agentbox_hosts | default('all') }}"), path
