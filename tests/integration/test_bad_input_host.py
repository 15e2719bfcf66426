"""Declarations that this host can't fulfil: each names its key or path and changes nothing, the others converge."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _naming
from tests.integration import engines, runs
from tests.integration.sites import UID, Site


@dataclass(frozen=True)
class Refused:
    """One call with boxes that can't be, beside one that can."""

    site: Site
    result: runs.Result
    before: dict[str, Any]
    after: dict[str, Any]

    def message(self, box: str) -> str:
        found = next(entry for entry in self.result["boxes"] if entry["name"] == box)
        assert found["failed"] is True, box
        assert found["changed"] is False, box
        assert found["msg"] in self.result["msg"]
        return str(found["msg"])


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A port of 127.0.0.1 that another program, this one, listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def refused(
    engine: docker.APIClient, new_instance: Callable[[], str], module_place: Path, port: int
) -> Iterator[Refused]:
    site = Site(new_instance(), module_place)
    with ExitStack() as stack:
        no_lists = stack.enter_context(engines.mounted("ramfs", module_place / "ramfs"))
        (module_place / "file").write_text("", encoding="utf-8")
        (module_place / "link").symlink_to(module_place / "nowhere")
        foreign = engine.create_container(engines.IMAGE, ["true"], name=site.container("foreign"))
        stack.callback(engine.remove_container, foreign["Id"], force=True)
        stack.callback(_remove_containers, engine, site)

        first = site.converge(site.box("moved"), site.box("dirlock"), site.box("linked"))
        assert not first.get("failed"), first["msg"]
        _obstruct(site)
        (module_place / "private").mkdir()
        (module_place / "stranger").symlink_to("private")
        os.chown(module_place / "stranger", UID, UID, follow_symlinks=False)
        boxes = [
            site.box("good"),
            site.box("missing", workspace=str(module_place / "none")),
            site.box("file", workspace=str(module_place / "file")),
            site.box("dangling", workspace=str(module_place / "link")),
            site.box("system", workspace="/usr/local"),
            site.box("state", workspace=str(site.state_root)),
            site.box("itself", workspace=str(runs.REPOSITORY)),
            site.box("within", workspace=str(runs.REPOSITORY / "src")),
            site.box("port", publish=f"127.0.0.1:{port}"),
            site.box("lists", workspace=str(no_lists)),
            site.box("foreign"),
            site.box("moved", workspace=str(site.workspace("elsewhere"))),
            site.box("dirlock"),
            site.box("linked"),
            site.box("image", image=f"{site.instance}-none:latest"),
            site.box("runtime", runtime="runsc"),
            site.box("inner", workspace=str(site.workspace("good/inner"))),
            site.box("mounting", mounts=[f"{site.workspace('good')}/inner:/data"]),
            site.box("stranger", workspace=str(module_place / "stranger")),
        ]
        before = site.look(engine)
        result = site.converge(*boxes, protected=[str(runs.REPOSITORY)])
        assert "boxes" in result, result["msg"]
        after = site.look(engine)
        yield Refused(site, result, before, after)


def _obstruct(site: Site) -> None:
    """Put a directory and a symbolic link where files of two boxes have to be."""
    record = Path(site.paths("dirlock").record)
    record.unlink()
    record.mkdir()
    entry = Path(site.paths("linked").mount, "entry.sh")
    entry.unlink()
    entry.symlink_to("/etc/hostname")


def _remove_containers(engine: docker.APIClient, site: Site) -> None:
    """Before what they have mounted is unmounted."""
    engines.remove_instance(engine, site.instance)


MESSAGES = {
    "missing": ".workspace: {place}/none does not exist",
    "file": ".workspace: {place}/file is no directory",
    "dangling": ".workspace: {place}/link does not exist",
    "system": ".workspace: /usr/local is a system directory",
    "state": ".workspace: {place}/state holds or lies in {place}/state",
    "itself": ".workspace: {repository} holds or lies in {repository}",
    "within": ".workspace: {repository}/src holds or lies in {repository}",
    "port": ".publish: 127.0.0.1:{port} is taken by ",
    "lists": ".workspace: {place}/ramfs belongs to uid 0, the box runs as uid {uid}",
    "foreign": ".name: container {instance}-foreign ",
    "moved": ".workspace: ",
    "dirlock": "{state}/boxes/dirlock/record.json is a directory",
    "linked": "{state}/boxes/linked/mount/entry.sh is a symbolic link",
    "image": ".image: ",
    "runtime": ".runtime: the engine has no runtime runsc",
    "inner": ".workspace: {place}/work/good/inner lies in {place}/work/good",
    "mounting": ".mounts[0]: {place}/work/good/inner lies in {place}/work/good",
    "stranger": ".workspace: {place}/stranger is a link of a user who does not own what it leads to",
}


@pytest.mark.parametrize("box", MESSAGES)
def test_it_names_the_key_or_path(refused: Refused, box: str, port: int) -> None:
    wanted = MESSAGES[box].format(
        place=refused.site.directory,
        repository=runs.REPOSITORY,
        state=refused.site.state,
        instance=refused.site.instance,
        port=port,
        uid=int(os.environ.get("SUDO_UID", "0")) or 1000,
    )
    assert wanted in refused.message(box)


def test_another_workspace_of_a_name_proposes_another_name(refused: Refused) -> None:
    message = refused.message("moved")
    assert str(refused.site.workspace("moved")) in message
    assert "name" in message


def test_the_others_converge(refused: Refused) -> None:
    good = next(entry for entry in refused.result["boxes"] if entry["name"] == "good")
    assert (good["failed"], good["changed"], good["state"]) == (False, True, "started")


def test_nothing_of_the_refused_was_touched(refused: Refused) -> None:
    """Engine and files differ by what belongs to the good box, and nothing else."""
    own = {f"/{refused.site.container('good')}"}
    before, after = refused.before["engine"], refused.after["engine"]
    assert {name: found for name, found in after["containers"].items() if name not in own} == before["containers"]
    volume = _naming.home_volume(refused.site.instance, "good")
    assert set(after["volumes"]) - set(before["volumes"]) == {volume}
    assert after["networks"] == before["networks"]
    good = refused.site.paths("good")
    own_files = (good.directory, good.relay, f"{refused.site.state}/volumes/{volume}")
    files = refused.before["files"].items() ^ refused.after["files"].items()
    assert not {path for path, _ in files if not path.startswith(own_files)}
