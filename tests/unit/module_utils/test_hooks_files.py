"""One file in the HOME of a user: what may be read and replaced, and what is refused untouched."""

from __future__ import annotations

import dataclasses
import os
import pwd
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentbox._shared._accounts import Account, account
from agentbox._shared._errors import AgentboxError, SettingsError
from agentbox._shared._hook_files import Found, acting_as, place

PARTS = (".agent", "settings.json")
NOBODY = pwd.getpwnam("nobody")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root acts as others")


@pytest.fixture(autouse=True)
def _wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def user(tmp_path: Path) -> Account:
    """The user who runs the tests, with another HOME."""
    return Account("tester", os.geteuid(), os.getegid(), (), str(tmp_path), "/bin/sh")


@pytest.fixture
def nobody(open_place: Path) -> Account:
    home = open_place / "home"
    home.mkdir()
    os.chown(home, NOBODY.pw_uid, NOBODY.pw_gid)
    found = account("nobody")
    assert found
    return dataclasses.replace(found, home=str(home))


def settings(user: Account) -> Path:
    return Path(user.home, *PARTS)


def read(user: Account) -> Found | None:
    with place(user, PARTS) as here:
        return here.read()


def replace(user: Account, content: bytes) -> None:
    with place(user, PARTS) as here:
        here.write(content, here.read())


def refusal(user: Account) -> str:
    """Why neither reading nor replacing is possible."""
    with pytest.raises(SettingsError) as refused:
        replace(user, b"{}")
    return str(refused.value)


def test_a_new_file_and_its_directory_are_the_users_alone(user: Account) -> None:
    with place(user, PARTS) as here:
        assert here.path == str(settings(user))
        assert here.missing_directories == [str(settings(user).parent)]
        assert here.read() is None
    replace(user, b"{}")
    assert settings(user).read_bytes() == b"{}"
    assert stat.S_IMODE(settings(user).stat().st_mode) == 0o600
    assert stat.S_IMODE(settings(user).parent.stat().st_mode) == 0o700


def test_a_replaced_file_keeps_its_mode_and_leaves_nothing_beside_it(user: Account) -> None:
    settings(user).parent.mkdir()
    settings(user).write_bytes(b"old")
    settings(user).chmod(0o640)
    settings(user).with_name(".settings.json.agentbox-new").write_text("left by a killed run")
    replace(user, b"new")
    assert settings(user).read_bytes() == b"new"
    assert stat.S_IMODE(settings(user).stat().st_mode) == 0o640
    assert [path.name for path in settings(user).parent.iterdir()] == ["settings.json"]


def test_a_group_that_the_user_is_not_in_is_not_kept_and_the_other_gets_no_rights(nobody: Account) -> None:
    replace(nobody, b"one")
    os.chown(settings(nobody), nobody.uid, 0)
    settings(nobody).chmod(0o664)
    replace(nobody, b"two")
    found = settings(nobody).stat()
    assert (settings(nobody).read_bytes(), found.st_gid, found.st_mode & 0o777) == (b"two", nobody.gid, 0o604)


def test_a_link_at_the_end_is_not_followed(user: Account, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles"
    target.write_text("{}")
    settings(user).parent.mkdir()
    settings(user).symlink_to(target)
    assert refusal(user) == "is a symbolic link, which is not followed. Put the real one there"
    assert settings(user).is_symlink()
    assert target.read_text() == "{}"


def test_a_link_on_the_way_is_not_followed(user: Account, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    settings(user).parent.symlink_to(tmp_path / "dotfiles")
    assert refusal(user).startswith(f"can't be reached, {tmp_path}/.agent is a symbolic link")
    assert list((tmp_path / "dotfiles").iterdir()) == []


def test_home_itself_may_be_a_link(user: Account, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    replace(dataclasses.replace(user, home=str(tmp_path / "link")), b"{}")
    assert (tmp_path / "real" / ".agent" / "settings.json").read_text() == "{}"


def test_what_is_no_plain_file_is_refused_at_once(user: Account, tmp_path: Path) -> None:
    settings(user).parent.mkdir()
    settings(user).mkdir()
    assert refusal(user) == "is no file. Move it away"
    settings(user).rmdir()
    os.mkfifo(settings(user))
    assert refusal(user) == "is no file. Move it away"
    settings(user).unlink()
    with socket.socket(socket.AF_UNIX) as server, ExitStack() as stack:
        here = os.open(settings(user).parent, os.O_RDONLY)  # the whole path may be too long for a socket
        stack.callback(os.close, here)
        server.bind(f"/proc/self/fd/{here}/settings.json")
        assert refusal(user).startswith("can't be read")


def test_a_file_on_the_way_is_refused(user: Account, tmp_path: Path) -> None:
    settings(user).parent.write_text("")
    assert refusal(user) == f"can't be reached, {tmp_path}/.agent is no directory. Move it away"


def test_without_a_home_nothing_is_made(user: Account, tmp_path: Path) -> None:
    away = dataclasses.replace(user, home=str(tmp_path / "away"))
    assert refusal(away) == "can't be reached, HOME can't be opened (No such file or directory)"
    assert not (tmp_path / "away").exists()


def test_a_giant_is_refused(user: Account) -> None:
    settings(user).parent.mkdir()
    with settings(user).open("wb") as stream:
        stream.truncate(2 << 20)
    assert refusal(user) == "is larger than 1 MiB. Move it away"


def test_what_somebody_else_changed_meanwhile_is_not_replaced(user: Account) -> None:
    replace(user, b"one")
    with place(user, PARTS) as here:
        before = here.read()
        settings(user).write_bytes(b"another")
        with pytest.raises(SettingsError, match="was changed by somebody else"):
            here.write(b"ours", before)
        with pytest.raises(SettingsError, match="was changed by somebody else"):
            here.write(b"ours", None)
        assert before
        with pytest.raises(SettingsError, match="was changed by somebody else"):
            here.remove(before)
    assert settings(user).read_bytes() == b"another"
    assert [path.name for path in settings(user).parent.iterdir()] == ["settings.json"]


def test_directories_are_removed_as_far_as_they_are_ours_and_empty(user: Account, tmp_path: Path) -> None:
    parts = ("a", "b", "c", "settings.json")
    with place(user, parts) as here:
        here.write(b"{}", here.read())
    (tmp_path / "a" / "settings.json").touch()  # of somebody else, a level above
    own = [f"{tmp_path}/a", f"{tmp_path}/a/b", f"{tmp_path}/a/b/c"]
    with place(user, parts) as here:
        assert here.empty_without([]) == []
        assert here.empty_without(own[:2]) == []
        empty = here.empty_without(own)
        assert empty == [own[2], own[1]]
        found = here.read()
        assert found
        here.remove(found)
        here.remove_directories(empty)
    with place(user, parts) as here:
        assert here.read() is None
        assert here.empty_without(own) == []
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["settings.json"]


@ROOT_ONLY
def test_root_has_only_the_rights_of_the_user(nobody: Account, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of root")
    groups = os.getgroups()
    with acting_as(nobody):
        assert (os.geteuid(), os.getegid()) == (NOBODY.pw_uid, NOBODY.pw_gid)
        assert 0 not in os.getgroups()
        with pytest.raises(PermissionError):
            secret.read_text()
    assert (os.geteuid(), os.getegid(), os.getgroups()) == (0, 0, groups)


@ROOT_ONLY
def test_what_root_makes_belongs_to_the_user(nobody: Account) -> None:
    replace(nobody, b"{}")
    for path in (settings(nobody), settings(nobody).parent):
        assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY.pw_uid, NOBODY.pw_gid)


@ROOT_ONLY
def test_a_file_of_another_is_refused_even_for_root(nobody: Account) -> None:
    replace(nobody, b"{}")
    os.chown(settings(nobody), 0, 0)
    settings(nobody).chmod(0o644)
    assert refusal(nobody) == "belongs to uid 0. Give it to nobody, or move it away"
    settings(nobody).chmod(0o600)
    assert refusal(nobody) == "can't be read: Permission denied"
    os.chown(settings(nobody).parent, 0, 0)
    assert refusal(nobody) == f"can't be reached, {settings(nobody).parent} can't be opened: Permission denied"


@ROOT_ONLY
def test_nobody_acts_as_root(user: Account, nobody: Account) -> None:
    with acting_as(nobody), pytest.raises(AgentboxError, match="only root and tester may change"), acting_as(user):
        pass
