from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from agentbox.cli import user
from agentbox.cli.exits import UsageError

NOBODY = pwd.getpwnam("nobody")


def test_an_ordinary_user_keeps_state_in_the_xdg_directory() -> None:
    found = user.current({"HOME": "/home/ada"}, 1000)
    assert found.home == Path("/home/ada")
    assert found.config_file == Path("/home/ada/.config/agentbox/config.yml")
    assert found.state_root == Path("/home/ada/.local/state/agentbox")
    assert not found.is_root


def test_xdg_directories_are_honoured_when_they_are_absolute() -> None:
    found = user.current({"HOME": "/home/ada", "XDG_CONFIG_HOME": "/conf", "XDG_STATE_HOME": "/st"}, 1000)
    assert found.config_file == Path("/conf/agentbox/config.yml")
    assert found.state_root == Path("/st/agentbox")
    assert user.current({"HOME": "/home/ada", "XDG_CONFIG_HOME": "conf"}, 1000).config_home == Path("/home/ada/.config")


def test_root_keeps_state_in_the_system() -> None:
    found = user.current({"HOME": "/root"}, 0)
    assert (found.home, found.state_root, found.is_root) == (Path("/root"), Path("/var/lib/agentbox"), True)


def test_under_sudo_the_caller_s_home_and_configuration_count_and_root_s_state() -> None:
    found = user.current({"HOME": "/root", "SUDO_UID": str(NOBODY.pw_uid)}, 0)
    assert found.home == Path(NOBODY.pw_dir)
    assert found.config_file == Path(NOBODY.pw_dir) / ".config/agentbox/config.yml"
    assert found.state_root == Path("/var/lib/agentbox")


@pytest.mark.parametrize("value", ["", "0", "-1", "root"])
def test_a_meaningless_sudo_uid_is_ignored(value: str) -> None:
    assert user.current({"HOME": "/root", "SUDO_UID": value}, 0).home == Path("/root")


def test_only_root_believes_the_sudo_uid() -> None:
    assert user.current({"HOME": "/home/ada", "SUDO_UID": str(NOBODY.pw_uid)}, 1000).home == Path("/home/ada")


def test_a_caller_without_an_entry_has_no_home() -> None:
    with pytest.raises(UsageError, match="4000000000"):
        user.current({"SUDO_UID": "4000000000"}, 0)


def test_without_home_the_user_database_says_it() -> None:
    assert user.current({}, 1000).home == Path(pwd.getpwuid(os.getuid()).pw_dir)


def test_paths_expand_to_the_user_s_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ada = user.current({"HOME": "/home/ada"}, 1000)
    assert ada.expand("~") == Path("/home/ada")
    assert ada.expand("~/x") == Path("/home/ada/x")
    assert ada.expand("x/y") == tmp_path / "x/y"
    assert ada.expand("/x") == Path("/x")
    assert ada.expand("~nobody/x") == Path(NOBODY.pw_dir) / "x"
    with pytest.raises(UsageError, match="no such user"):
        ada.expand("~no-such-user/x")
