"""What installing the service would do, on a host of directories."""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path

import pytest

from agentbox._shared import _gitops_install as install
from agentbox._shared._errors import DeclarationError, LockedError
from agentbox._shared._gitops import SERVICE, TIMER, Places, Settings
from agentbox._shared._progress import silent
from agentbox._shared._state import json_file, locked, write_file


def packed(**files: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, text in {"requirements/agentbox.txt": "", **files}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(config=tmp_path / "etc", code=tmp_path / "opt", state=tmp_path / "var", units=tmp_path / "units")
    for path in (found.config, found.code, found.state, found.units):
        path.mkdir()
    return found


SETTINGS = Settings(
    repository="https://git.example/fleet",
    branch="main",
    inventory="hosts.yml",
    playbook="site.yml",
    host="ada.example",
    mode="converge",
    verify_signatures=False,
    allow_rewritten=True,
    environment={"HTTPS_PROXY": "http://ada:hunter2@proxy.example"},
)


def wanted(archive: bytes) -> install.Wanted:
    return install.Wanted(SETTINGS, archive, {}, {SERVICE: "service\n", TIMER: "timer\n"})


@pytest.mark.parametrize("text", ["", "no archive", "!", base64.b64encode(b"no archive").decode()])
def test_an_option_that_is_no_packed_collection_is_told(text: str) -> None:
    with pytest.raises(DeclarationError, match="not the packed collection"):
        install.unpacked(text)


def test_a_collection_half_unpacked_by_a_killed_run_is_unpacked_anew(places: Places) -> None:
    want = wanted(packed(**{"site.yml": "new"}))

    def unpack() -> None:
        for action in install.plan(want, places, silent):
            if action.action in ("unpack_collection", "link"):
                action.apply()

    unpack()
    [stamp] = places.collections.glob(".complete")
    stamp.unlink()
    site = places.collections / "ansible_collections/agentbox/fleet/site.yml"
    site.write_text("half", encoding="utf-8")
    unpack()
    assert site.read_text(encoding="utf-8") == "new"
    assert not [action for action in install.plan(want, places, silent) if action.action == "unpack_collection"]


def test_other_contents_move_the_link_and_leave_what_is_in_use(places: Places) -> None:
    for text in ("one", "two"):
        for action in install.plan(wanted(packed(x=text)), places, silent):
            if action.action in ("unpack_collection", "link"):
                action.apply()
    found = {
        path.name: (path / "ansible_collections/agentbox/fleet/x").read_text() for path in places.code.glob("c*-*")
    }
    assert sorted(found.values()) == ["one", "two"]
    assert found[places.collections.readlink().name] == "two"


def test_a_diff_shows_no_password_of_a_proxy(places: Places) -> None:
    write_file(json_file(str(places.settings), SETTINGS.to_json(), 0o600))
    before, after = install.shown(wanted(packed()), places)
    assert "hunter2" not in str((before, after))
    assert before["settings"] == after["settings"]
    assert after["units"] == {SERVICE: "service\n", TIMER: "timer\n"}


def test_absence_waits_for_a_run_and_then_says_whose_it_is(places: Places) -> None:
    actions = install.plan_absence(places, remove_data=True)
    assert [action.action for action in actions] == ["remove_path"] * 3
    with locked(str(places.state), "gitops run", 0), pytest.raises(LockedError, match=r"gitops run"):
        install.apply(actions, places, silent, 0)
    assert places.config.exists()
    install.apply(actions, places, silent, 0)
    assert install.plan_absence(places, remove_data=True) == []
