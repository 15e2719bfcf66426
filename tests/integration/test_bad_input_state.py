"""State that is not what it has to be: obstacles, a full disk, a lock that is held. Named, and nothing is lost."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import docker

from agentbox._shared import _naming
from tests.integration import engines, runs
from tests.integration.sites import Site

FOREIGN = "of somebody else\n"
SECRETS = {"STANDIN_TOKEN": "value-of-a-secret"}
# Below the directory of a box's state; what has to be there in their place.
BOX_FILES = ("record.json", "swap.json", *(f"mount/{name}" for name in ("box.json", "passwd", "entry.sh", "tmux.conf")))
BOX_DIRECTORIES = ("", "mount", "mount/secrets")
# Below the directory of an instance's state.
INSTANCE_FILES = ("lock", "digest.key")
INSTANCE_DIRECTORIES = ("", "boxes", "relay", "volumes")


def obstruct(path: Path, kind: str, scratch: Path) -> None:
    """Put what must not be there at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "directory":
        path.mkdir()
        (path / "foreign").write_text(FOREIGN, encoding="utf-8")
    elif kind == "file":
        path.write_text(FOREIGN, encoding="utf-8")
    else:
        target = scratch / ("directory" if kind == "link to a directory" else "file")
        path.symlink_to(target)


def obstacles(files: tuple[str, ...], directories: tuple[str, ...]) -> list[tuple[str, str]]:
    """Each path with each kind of thing that must not be there."""
    found = [(path, kind) for path in files for kind in ("directory", "link to a file")]
    return found + [(path, kind) for path in directories for kind in ("file", "link to a directory")]


def scratch_of(place: Path) -> Path:
    scratch = place / "foreign"
    (scratch / "directory").mkdir(parents=True)
    (scratch / "file").write_text(FOREIGN, encoding="utf-8")
    return scratch


def test_obstacles_in_the_state_of_boxes(engine: docker.APIClient, instance: str, place: Path) -> None:
    """One box per obstacle, all in one run, beside a box without."""
    site, scratch = Site(instance, place), scratch_of(place)
    cases = {f"box{index}": case for index, case in enumerate(obstacles(BOX_FILES, BOX_DIRECTORIES))}
    paths = {}
    for directory in (site.state, site.state / "boxes"):
        directory.mkdir(mode=0o711, parents=True)
    for box, (below, kind) in cases.items():
        paths[box] = Path(site.paths(box).directory, below)
        obstruct(paths[box], kind, scratch)
    boxes = [site.box(box) for box in [*cases, "good"]]
    before = engines.files_below(place)

    result = site.converge(*boxes, secrets=dict.fromkeys(cases, SECRETS))

    good = result["boxes"].pop()
    assert (good["name"], good["failed"], good["changed"]) == ("good", False, True)
    for found in result["boxes"]:
        assert found["failed"] is True, (found["name"], cases[found["name"]])
        assert str(paths[found["name"]]) in found["msg"]
        assert engine.containers(all=True, filters={"name": f"^/{found['container']}$"}) == []
    after = engines.files_below(place)
    assert {path: after.get(path) for path in before} == before


def test_obstacles_in_the_state_of_an_instance(engine: docker.APIClient, place: Path) -> None:
    cases = obstacles(INSTANCE_FILES, INSTANCE_DIRECTORIES)
    sites = [Site(engines.new_instance_name(), place) for _ in cases]
    scratch = scratch_of(place)
    tasks = []
    for site, (below, kind) in zip(sites, cases, strict=True):
        if below:
            site.state.mkdir(mode=0o711, parents=True)
        obstruct(site.state / below, kind, scratch)
        tasks.append(site.task(site.box("one"), secrets={"one": SECRETS}))
    before = engines.files_below(place)
    try:
        results = runs.play(tasks).results
        left = [
            engine.containers(all=True, filters={"label": f"{_naming.LABEL_INSTANCE}={site.instance}"})
            for site in sites
        ]
    finally:
        for site in sites:
            engines.remove_instance(engine, site.instance)

    for site, (below, kind), result, containers in zip(sites, cases, results, left, strict=True):
        assert result["failed"] is True, (below, kind)
        assert str(site.state / below) in result["msg"], (below, kind)
        assert containers == [], (below, kind)
    after = engines.files_below(place)
    assert {path: after.get(path) for path in before} == before


def test_no_space_for_state(engine: docker.APIClient, instance: str, place: Path) -> None:
    """What exists stays whole; with space again the same call converges."""
    site = Site(instance, place)
    kept, new = site.box("kept"), site.box("new")
    with engines.mounted("tmpfs", site.state_root, options="size=1m,mode=0755"):
        first = site.converge(kept)
        assert not first.get("failed"), first
        filler = engines.fill(site.state_root)
        before = site.look(engine)
        result = site.converge(kept, new)
        assert result["failed"] is True
        assert str(site.state) in result["msg"]
        assert "No space left on device" in result["msg"]
        assert "Free some space" in result["msg"]
        assert [entry["failed"] for entry in result["boxes"]] == [False, True]
        after = site.look(engine)
        assert after["engine"]["containers"] == before["engine"]["containers"]
        assert {path: after["files"].get(path) for path in before["files"]} == before["files"]
        filler.unlink()
        again = site.converge(kept, new)
        assert not again.get("failed"), again
        engines.remove_instance(engine, instance)


def test_a_lock_that_is_held(engine: docker.APIClient, instance: str, place: Path) -> None:
    """The run waits for as long as it may, then names the lock; check mode needs none."""
    site = Site(instance, place)
    lock = Path(_naming.lock_path(str(site.state)))
    lock.parent.mkdir(parents=True)
    with lock.open("w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        refused, predicted = runs.play(
            [
                site.task(site.box("one"), lock_timeout=1),
                site.task(site.box("one"), lock_timeout=1, keywords={"check_mode": True}),
            ]
        ).results
    assert refused["failed"] is True
    assert f"{lock} is held by another process, waited 1 s for it" in refused["msg"]
    assert not predicted.get("failed"), predicted
    assert engines.belongings(engine, instance) == {"containers": {}, "volumes": [], "networks": []}


def test_a_damaged_record_is_no_reason_to_touch_a_box(engine: docker.APIClient, instance: str, place: Path) -> None:
    site = Site(instance, place)
    site.converge(site.box("one"))
    record = Path(site.paths("one").record)
    whole = record.read_bytes()
    before: dict[str, Any] = engines.belongings(engine, instance)
    record.write_bytes(whole[: len(whole) // 2])
    result = site.converge(site.box("one"))
    assert not result.get("failed"), result
    assert [action["detail"] for action in result["actions"]] == [str(record)]
    assert record.read_bytes() == whole
    assert engines.belongings(engine, instance) == before


def test_a_workspace_is_made_only_by_default(place: Path) -> None:
    """Without a declared workspace one is made in the person's home; a declared one never is."""
    site, home = Site(engines.new_instance_name(), place), place / "home"
    home.mkdir()
    own, declared = (
        site.task(site.box("one", workspace=workspace), identity_home=str(home), keywords={"check_mode": True})
        for workspace in (None, str(home / "given"))
    )
    predicted, refused = runs.play([own, declared]).results
    assert {"box": "one", "action": "make_workspace", "detail": f"{home}/agentbox-workspace"} in predicted["actions"]
    assert f"boxes[0].workspace: {home}/given does not exist" in refused["msg"]
    assert list(home.iterdir()) == []
