"""Boxes that move: into a file, away, and back under another name and for another user, whatever happens on the way."""

from __future__ import annotations

import gzip
import json
import stat
import tarfile
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _backup, _backup_export, _backup_import, _backup_note, _backup_run, _engine, _host, _naming
from agentbox._shared._volumes import Volume, unprepared
from tests.integration import direct, engines, kills, runs, sites
from tests.integration.conftest import Instances
from tests.integration.sites import Site

SECRET = "value-of-the-secret"  # noqa: S105
LOGIN = "token-of-the-login"
FILL = """
set -e
cd ~
mkdir -p .claude/projects/-workspace 'odd name' .venv/bin
echo '{"type":"user"}' > .claude/projects/-workspace/1.jsonl
ln -s /home/agent/.claude/projects/-workspace/1.jsonl .claude/latest
ln -s ../.claude 'odd name/up'
ln -s /usr/bin/python3 .venv/bin/python3
printf 'x' > 'odd name/'$'\\xff\\n'
touch -d @1000000000 'odd name/old'
chmod 0750 'odd name/old'
ln 'odd name/old' 'odd name/same'
cp /bin/true setuid && chmod 6755 setuid
mkfifo pipe
(umask 077; echo "$1" > .claude/.credentials.json; mkdir -p .config/gh; echo "$1" > .netrc)
head -c 3000000 /dev/urandom > big
"""
LIST = """
cd ~ && find . -mindepth 1 ! -path './.npm*' ! -path './.cache*' ! -path './.cargo*' \\
  -printf '%P %y %m %n %l %TY\\n' | LC_ALL=C sort | cat -v
sha256sum big .claude/latest
"""


def request(site: Site, *, check: bool = False) -> _backup_run.Request:
    return _backup_run.Request(
        engine=_engine.connect(),
        instance=site.instance,
        state_dir=str(site.state),
        person=_host.person(str(site.directory)),
        manifests=sites.manifests(),
        report=lambda _: None,
        check=check,
    )


def export(site: Site, *wanted: _backup_export.Wanted, check: bool = False) -> dict[str, Any]:
    return _backup_run.outcome(_backup_export.export(request(site, check=check), wanted))


def bring(site: Site, *wanted: _backup_import.Wanted, check: bool = False) -> dict[str, Any]:
    return _backup_run.outcome(_backup_import.bring(request(site, check=check), wanted))


def fill(site: Site, box: str) -> None:
    site.run(box, f"set -- {LOGIN}\n{FILL}")


@pytest.fixture(scope="module")
def home(engine: docker.APIClient, new_instance: Instances, module_place: Path) -> Site:
    """A running box ``one`` with a secret and a HOME of all kinds of files."""
    site = Site(new_instance(), module_place / "home")
    site.directory.mkdir()
    made = direct.converge(site, [direct.box(site, "one", memory="600m")], secrets={"one": {"TOKEN": SECRET}})
    assert not made.failures
    fill(site, "one")
    return site


@pytest.fixture(scope="module")
def away(new_instance: Instances, module_place: Path) -> Site:
    """Another host, as far as names, state and users make one."""
    site = Site(new_instance(), module_place / "away")
    site.directory.mkdir()
    return site


@pytest.fixture(scope="module")
def backup(home: Site) -> Path:
    file = home.directory / "one.agentbox.tar.gz"
    wanted = _backup_export.Wanted("one", str(file))
    predicted = export(home, wanted, check=True)
    assert not file.exists()
    done = export(home, wanted)
    assert done["actions"] == predicted["actions"] == [{"box": "one", "action": "export", "detail": str(file)}]
    [box] = done["boxes"]
    assert box["size"] == file.stat().st_size
    assert box["left_out"] == {
        "logins": [".claude/.credentials.json", ".netrc"],
        "secrets": ["TOKEN"],
        "others": [".venv/bin/python3", "pipe"],
    }
    return file


def state(engine: docker.APIClient, site: Site, box: str) -> str:
    return str(engine.inspect_container(site.container(box))["State"]["Status"])


def test_a_backup_is_private_and_holds_no_secret(engine: docker.APIClient, home: Site, backup: Path) -> None:
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert [path.name for path in backup.parent.iterdir() if ".new" in path.name] == []
    content = gzip.decompress(backup.read_bytes())
    for value in (SECRET, LOGIN):
        assert value.encode() not in content
    assert state(engine, home, "one") == "running"
    again = export(home, _backup_export.Wanted("one", str(backup)))
    assert "exists already" in again["boxes"][0]["msg"]


def test_other_programs_read_a_backup(backup: Path) -> None:
    """Its format is no secret of ours: Python's own library and its checksums are enough."""
    with tarfile.open(backup) as archive:
        names = archive.getnames()
        sums = json.loads(archive.extractfile("checksums.json").read())  # type: ignore[union-attr]
        manifest = json.loads(archive.extractfile("manifest.json").read())  # type: ignore[union-attr]
        owners = {(info.uid, info.uname) for info in archive}
    assert (names[0], names[-1]) == ("manifest.json", "checksums.json")
    assert sums["home/big"]["size"] == 3000000
    assert owners == {(0, "")}
    assert manifest["declaration"]["memory"] == 600 << 20
    assert manifest["declaration"]["secrets"] == ["TOKEN"]


def test_a_box_arrives_under_another_name(engine: docker.APIClient, home: Site, away: Site, backup: Path) -> None:
    workspace = away.workspace("two", uid=23456)
    wanted = _backup_import.Wanted(str(backup), "two", str(workspace), image=engines.IMAGE)
    predicted = bring(away, wanted, check=True)
    assert engines.belongings(engine, away.instance) == {"containers": {}, "volumes": [], "networks": []}
    done = bring(away, wanted)
    assert done["changed"], done
    volume = _naming.home_volume(away.instance, "two")
    assert done["actions"] == predicted["actions"] == [{"box": "two", "action": "import", "detail": volume}]
    assert not bring(away, wanted)["changed"]
    contents = _backup.inspect(str(backup))
    declared = {**_backup.travelling(contents.manifest.declaration), "name": "two", "workspace": str(workspace)}
    made = direct.converge(away, [{**declared, "image": engines.IMAGE}])
    assert not made.failures
    assert not direct.converge(away, [{**declared, "image": engines.IMAGE}]).as_dict()["changed"]
    assert engine.inspect_container(away.container("two"))["HostConfig"]["Memory"] == 600 << 20

    left_out = ("pipe ", ".venv/bin/python3 ", ".claude/.credentials.json ", ".netrc ")
    before = home.run("one", LIST).replace("setuid f 6755", "setuid f 755").splitlines()
    after = away.run("two", LIST).splitlines()
    assert after == [line for line in before if not line.startswith(left_out)]
    assert away.run("two", "id -u; stat -c %u:%g ~ ~/.claude ~/big ~/.claude/latest").split() == [
        "23456",
        *["23456:0"] * 4,
    ]


def test_nothing_is_written_over(engine: docker.APIClient, home: Site, backup: Path) -> None:
    before = home.look(engine)
    [box] = bring(home, _backup_import.Wanted(str(backup), image=engines.IMAGE))["boxes"]
    assert f"there is a container {home.container('one')} already" in box["msg"]
    assert "--name" in box["msg"]
    engine.create_volume(_naming.home_volume(home.instance, "three"), labels={_naming.LABEL_INSTANCE: home.instance})
    [box] = bring(home, _backup_import.Wanted(str(backup), "three", image=engines.IMAGE))["boxes"]
    assert "there is a HOME of box three already" in box["msg"]
    engine.remove_volume(_naming.home_volume(home.instance, "three"))
    assert home.look(engine) == before


def test_a_damaged_backup_makes_nothing(engine: docker.APIClient, away: Site, backup: Path, place: Path) -> None:
    damaged = place / "damaged"
    damaged.write_bytes(backup.read_bytes()[:-9])
    before = away.look(engine)
    [box] = bring(away, _backup_import.Wanted(str(damaged), "four", image=engines.IMAGE))["boxes"]
    assert f"{damaged} is no sound backup" in box["msg"]
    [box] = bring(away, _backup_import.Wanted(str(backup), "four", "/nowhere", image=engines.IMAGE))["boxes"]
    assert "the workspace /nowhere does not exist" in box["msg"]
    assert away.look(engine) == before


def test_logins_and_secrets_travel_when_asked_for(home: Site, place: Path) -> None:
    file = place / "all"
    [box] = export(home, _backup_export.Wanted("one", str(file), logins=True, secrets=True))["boxes"]
    assert box["left_out"] == {"logins": [], "secrets": [], "others": [".venv/bin/python3", "pipe"]}
    contents = _backup.inspect(str(file))
    assert contents.secrets == {"TOKEN": SECRET}
    with tarfile.open(file) as archive:
        login = archive.extractfile("home/.claude/.credentials.json")
        assert login is not None
        assert login.read().decode().strip() == LOGIN
        assert archive.getmember("home/.claude/.credentials.json").mode == 0o600


def killed_export(home: Site, file: Path, at: str) -> None:
    kills.killed(lambda: export(home, _backup_export.Wanted("one", str(file))), home.directory, at)


def test_a_killed_export_leaves_a_box_that_goes_on(engine: docker.APIClient, home: Site, place: Path) -> None:
    """The next export lets the box go on; so does whatever converges it."""
    file = place / "killed"
    killed_export(home, file, "/unpause")
    assert state(engine, home, "one") == "paused"
    assert not file.exists()
    assert not export(home, _backup_export.Wanted("one", str(file)))["boxes"][0]["failed"]
    assert state(engine, home, "one") == "running"
    assert sorted(path.name for path in place.iterdir()) == ["killed"]
    assert list(engines.belongings(engine, home.instance)["containers"]) == [f"/{home.container('one')}"]


def test_a_box_that_was_paused_stays_so(engine: docker.APIClient, home: Site, place: Path) -> None:
    engines.pause(engine, home.container("one"))
    try:
        assert not export(home, _backup_export.Wanted("one", str(place / "paused")))["boxes"][0]["failed"]
        assert state(engine, home, "one") == "paused"
    finally:
        engine.unpause(home.container("one"))


def assert_whole(engine: docker.APIClient, site: Site, *boxes: str) -> None:
    """The HOMEs of ``boxes`` are there and may be used, and nothing else is left."""
    assert engines.belongings(engine, site.instance)["containers"] == {}
    volumes = {item["Name"]: Volume.from_api(item) for item in engine.volumes()["Volumes"] or []}
    for box in boxes:
        note = _backup_note.read(str(site.state), volumes[_naming.home_volume(site.instance, box)])
        assert note is not None
        assert note.complete
        assert unprepared(str(site.state), site.instance, [_naming.home_volume(site.instance, box)], volumes) == ()


def test_no_box_is_made_with_a_half_imported_home(
    engine: docker.APIClient, instance: str, place: Path, backup: Path
) -> None:
    site = Site(instance, place)
    wanted = _backup_import.Wanted(str(backup), "one", str(site.workspace("one")), image=engines.IMAGE)
    kills.killed(lambda: bring(site, wanted), site.directory, "PUT /containers", answered=False)
    [failure] = direct.converge(site, [direct.box(site, "one")]).failures
    assert "the import of box one was interrupted" in failure
    [box] = bring(site, wanted)["boxes"]
    assert not box["failed"], box
    assert_whole(engine, site, "one")


@pytest.mark.full
def test_an_import_that_was_killed_at_any_step_is_done_by_the_next(
    engine: docker.APIClient, instance: str, place: Path, backup: Path
) -> None:
    site = Site(instance, place)

    def wanted(name: str) -> _backup_import.Wanted:
        return _backup_import.Wanted(str(backup), name, str(site.workspace("all")), image=engines.IMAGE)

    bring(site, wanted("first"))  # makes what the next ones share
    steps, _ = kills.steps(lambda: bring(site, wanted("whole")), site.directory)
    assert len(steps) > 5, steps
    for at in range(len(steps)):
        name = f"killed{at}"
        kills.killed(lambda name=name: bring(site, wanted(name)), site.directory, at)  # type: ignore[misc]
        [box] = bring(site, wanted(name))["boxes"]
        assert not box["failed"], (steps[at], box)
        assert_whole(engine, site, name)


def test_check_mode_and_diff_of_the_module(home: Site, place: Path) -> None:
    """Once through real Ansible: the module's options, its prediction, and an error that names the box."""
    args = {
        "state": "exported",
        "instance": home.instance,
        "state_root": str(home.state_root),
        "manifests": sites.manifests(),
        "boxes": [{"name": "one", "file": str(place / "b")}, {"name": "none", "file": str(place / "n")}],
    }
    [result] = runs.play([runs.module_task("box_backup", args)], check=True, diff=True).results
    assert result["failed"]
    assert "box none: there is no box none" in result["msg"]
    assert [box["changed"] for box in result["boxes"]] == [True, False]
    assert list(place.iterdir()) == []
