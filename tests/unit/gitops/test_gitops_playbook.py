"""How ansible-pull is called, and what is told of its failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbox._shared._gitops import Places, Settings
from agentbox.gitops.playbook import Playbook, error_of

SETTINGS = Settings(
    repository="ssh://git@git.example/fleet",
    branch="main",
    inventory="inventories/fleet",
    playbook="site.yml",
    host="ada.example",
    mode="converge",
    verify_signatures=True,
    allow_rewritten=False,
    vault_password_file="/root/vault",  # noqa: S106 - a path
    environment={"https_proxy": "http://proxy.example", "ANSIBLE_TIMEOUT": "20"},
)


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    return Playbook(SETTINGS, Places(code=tmp_path / "opt", state=tmp_path / "var"), "0123abc")


def test_both_runs_take_the_commit_from_this_host_s_own_copy(playbook: Playbook, tmp_path: Path) -> None:
    check, converge = playbook.command(check=True), playbook.command(check=False)
    assert [word for word in check if word not in converge] == ["--check"]
    assert {f"--url=file://{tmp_path}/var/work/repository.git", "--checkout=0123abc", "--limit=ada.example"} <= set(
        check
    )
    assert not [word for word in check if "git.example" in word]


def test_nothing_of_the_caller_s_ansible_reaches_the_run(
    playbook: Playbook, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("ANSIBLE_CONFIG", "ANSIBLE_ROLES_PATH", "PYTHONPATH", "AGENTBOX_WORKSPACE"):
        monkeypatch.setenv(name, "/elsewhere")
    found = playbook.environment(tmp_path / "activity")
    assert "/elsewhere" not in found.values()
    assert (found["https_proxy"], found["ANSIBLE_TIMEOUT"]) == ("http://proxy.example", "20")
    # What the repository brings counts before what the role installed.
    assert found["ANSIBLE_COLLECTIONS_PATH"] == f"{tmp_path}/var/work/tree/collections:{tmp_path}/opt/collections"


def test_an_error_is_told_with_its_place_and_without_what_stands_there() -> None:
    lines = [
        "[WARNING]: something else\n",
        "[ERROR]: an error that was dealt with\n",
        "Origin: /tree/first.yml:1:1\n",
        "[ERROR]: YAML parsing failed: did not find expected key.\n",
        "Origin: /tree/site.yml:3:5\n",
        "\n",
        "3   password: hunter2\n",
        "Origin: /tree/other.yml:9:9\n",
    ]
    assert error_of(lines) == "YAML parsing failed: did not find expected key. (/tree/site.yml:3:5)"


@pytest.mark.parametrize(
    ("lines", "told"),
    [([], ""), (["fatal: hunter2\n"], ""), (["ERROR! the playbook: x\x1b[0m could not be found\n"], "x[0m could")],
)
def test_other_output_is_not_repeated(lines: list[str], told: str) -> None:
    found = error_of(lines)
    assert told in found
    assert bool(found) == bool(told)
    assert "\x1b" not in found
