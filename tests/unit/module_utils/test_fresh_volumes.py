"""Whether new volumes can be prepared on the host's disk, and that nothing outside of them is touched then."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared import _fresh_volumes
from agentbox._shared._engine import maps_users
from agentbox._shared._payload import create_payload
from tests.unit.module_utils.box_samples import CONTEXT, SETTING, box

HOME = "abx-web-home"


@pytest.mark.parametrize(
    ("declared", "fresh", "expected"),
    [
        ({}, (HOME,), True),
        ({"volumes": ["tools:/tools"]}, (HOME, "tools"), True),
        ({"volumes": ["tools:/tools:ro"]}, (HOME, "tools"), False),  # the box itself could not take the content along
        ({"volumes": ["tools:/home/agent/a/tools"]}, (HOME, "tools"), True),
        ({"volumes": ["tools:/home/agent/a/tools"]}, ("tools",), False),  # what leads there is an agent's
        ({"credentials": "mount"}, (HOME,), False),
    ],
)
def test_volumes_of_an_ordinary_engine(declared: dict[str, Any], fresh: tuple[str, ...], expected: bool) -> None:
    made = box(**declared)
    assert _fresh_volumes.can_be_prepared_here(made, create_payload(made, CONTEXT), fresh) is expected


@pytest.mark.parametrize("engine", [{"podman": True}, {"maps_users": True}])
def test_volumes_whose_owners_are_others_on_the_host(engine: dict[str, bool]) -> None:
    made = box(setting=replace(SETTING, engine=replace(SETTING.engine, **engine)))
    assert not _fresh_volumes.can_be_prepared_here(made, create_payload(made, CONTEXT), (HOME,))


def test_volumes_that_only_root_reaches() -> None:
    made = box(setting=replace(SETTING, person=replace(SETTING.person, euid=1000)))
    assert not _fresh_volumes.can_be_prepared_here(made, create_payload(made, CONTEXT), (HOME,))


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"SecurityOptions": ["name=seccomp,profile=default"]}, False),
        ({"SecurityOptions": ["name=seccomp,profile=default", "name=userns"]}, True),
        ({"SecurityOptions": ["name=rootless"]}, True),
        ({"SecurityOptions": None}, False),
    ],
)
def test_an_engine_says_whether_users_are_others_on_the_host(info: dict[str, Any], expected: bool) -> None:
    assert maps_users(info) is expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_directories_are_made_and_given_away(tmp_path: Path) -> None:
    _fresh_volumes._own(str(tmp_path), "/.config/tool", 0o700, 12345)
    found = (tmp_path / ".config/tool").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (12345, 0, 0o700)
    assert (tmp_path / ".config").stat().st_uid == 0


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_no_directory_is_left_alone(tmp_path: Path, kind: str) -> None:
    outside, volume = tmp_path / "outside", tmp_path / "volume"
    outside.mkdir(mode=0o755)
    volume.mkdir()
    if kind == "link":
        (volume / ".config").symlink_to(outside)
    else:
        (volume / ".config").touch()
    before = outside.stat().st_mode, outside.stat().st_uid
    with pytest.raises(OSError, match=r"\.config"):
        _fresh_volumes._own(str(volume), "/.config/tool", 0o700, 12345)
    assert (outside.stat().st_mode, outside.stat().st_uid) == before
    assert list(outside.iterdir()) == []
