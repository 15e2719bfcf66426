from __future__ import annotations

import pwd
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentbox.cli import collection, commands, options, workspace
from agentbox.cli.exits import UsageError
from agentbox.cli.options import Settings, Sources
from agentbox.cli.user import User


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "home", tmp_path / "home/.config", tmp_path / "state", is_root=False)


def asked(path: str | None) -> Settings:
    return options.resolve([options.WORKSPACE], Sources({"workspace": path}, {}, {}, Path("/none")))


def test_the_current_directory_by_default(user: User, tmp_path: Path) -> None:
    project = tmp_path / "My Repo_Ünï"
    project.mkdir()
    assert workspace.choose(asked(None), user, project) == project


@pytest.mark.parametrize("below", ["", "src", "docs"])
def test_in_the_clone_the_directory_made_for_the_purpose(user: User, below: str) -> None:
    assert workspace.choose(asked(None), user, collection.root() / below) is None


def test_what_was_asked_for_wins_with_links_resolved(user: User, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "link").symlink_to(project)
    assert workspace.choose(asked(str(tmp_path / "link")), user, collection.root()) == project


def test_a_missing_directory_is_refused_and_not_made(user: User, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(UsageError, match="does not exist"):
        workspace.choose(asked(str(missing)), user, tmp_path)
    assert not missing.exists()


def test_a_file_is_refused(user: User, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is not a directory"):
        workspace.choose(asked(str(tmp_path / "file")), user, tmp_path)


@pytest.mark.parametrize("path", ["/", "/etc", "/usr/local", "/proc/1"])
def test_system_directories_are_refused(user: User, tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match="system directory"):
        workspace.choose(asked(path), user, tmp_path)


def test_everything_around_and_in_agentbox_itself_is_refused(user: User, tmp_path: Path) -> None:
    own = [collection.root(), user.config_file.parent, user.state_root, Path(sys.prefix)]
    for place in own:
        for path in (place, place.parent, place / "below"):
            with pytest.raises(UsageError, match="this cannot be a workspace"):
                workspace.choose(asked(str(path)), user, tmp_path)


def test_a_link_to_agentbox_itself_is_refused(user: User, tmp_path: Path) -> None:
    (tmp_path / "innocent").symlink_to(collection.root())
    with pytest.raises(UsageError, match="this cannot be a workspace"):
        workspace.choose(asked(str(tmp_path / "innocent")), user, tmp_path)


@pytest.mark.parametrize(
    ("directory", "taken", "proposed"),
    [
        ("/srv/web", "default", r"web"),
        ("/srv/My Repo_Ünï", "default", r"my-repo-uni-[0-9a-f]{8}"),
        ("/other/web", "web", r"other-web-[0-9a-f]{8}"),
        ("/srv/" + "x" * 140, "default", r"x{32}-[0-9a-f]{8}"),
        ("/", "default", r"box-[0-9a-f]{8}"),
    ],
)
def test_a_directory_gets_a_valid_name_that_is_not_taken(directory: str, taken: str, proposed: str) -> None:
    assert re.fullmatch(proposed, workspace.proposed_name(Path(directory), taken))


def test_an_existing_box_is_meant_inside_its_workspace_and_where_no_workspace_can_be(
    user: User, tmp_path: Path
) -> None:
    existing = tmp_path / "project"
    (existing / "src").mkdir(parents=True)
    user.home.mkdir()
    (tmp_path / "link").symlink_to(existing)
    for cwd in (existing, existing / "src", tmp_path / "link", Path("/etc"), user.home, collection.root() / "docs"):
        assert workspace.is_meant(existing, asked(None), user, cwd), cwd


def test_a_directory_of_its_own_or_a_workspace_asked_for_means_another_box(user: User, tmp_path: Path) -> None:
    existing, other = tmp_path / "project", tmp_path / "project2"
    for directory in (existing, other):
        directory.mkdir()
    assert not workspace.is_meant(existing, asked(None), user, other)
    assert not workspace.is_meant(existing, asked(str(other)), user, existing)


def test_an_existing_workspace_is_declared_as_it_was_chosen(user: User, tmp_path: Path) -> None:
    assert workspace.declared(tmp_path / "project", user) == tmp_path / "project"
    assert workspace.declared(user.own_workspace, user) is None


@pytest.mark.parametrize(
    ("flags", "cwd", "words"),
    [
        ({}, "/srv/project2", ["--name", "project2"]),
        ({}, "/srv/project", ["--name", "project2", "--workspace", "/srv/project2"]),
        (
            {"name": "project2", "instance": "lab"},
            "/",
            ["--name", "srv-project2-.*", "--workspace", "/srv/project2", "--instance", "lab"],
        ),
    ],
)
def test_the_proposed_command_is_complete(flags: dict[str, str], cwd: str, words: list[str]) -> None:
    settings = options.resolve(options.TABLE, Sources(flags, {}, {}, Path("/none")))
    proposed = commands.proposal(settings, Path("/srv/project2"), Path(cwd))
    assert re.fullmatch(rf"\S*agentbox up {' '.join(words)}", proposed)


def test_the_proposed_command_survives_a_shell() -> None:
    settings = options.resolve(options.TABLE, Sources({}, {}, {}, Path("/none")))
    proposed = commands.proposal(settings, Path("/srv/My 'Repo'"), Path("/"))
    assert shlex.split(proposed)[-2:] == ["--workspace", "/srv/My 'Repo'"]


def test_a_box_in_another_person_s_home_is_meant_only_by_who_stands_in_it_or_logs_in_as_root(user: User) -> None:
    existing = Path(pwd.getpwuid(0).pw_dir, "agentbox-workspace")
    assert not workspace.is_meant(existing, asked(None), user, collection.root())
    assert workspace.is_meant(existing, asked(None), user, existing / "src")
    root = replace(user, home=Path(pwd.getpwuid(0).pw_dir))
    assert workspace.is_meant(existing, asked(None), root, collection.root())
