"""``agentbox drift``, and what the command line does with adopted boxes, on a real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import jsonschema
import pytest

from agentbox._shared import _naming
from tests.integration import engines, runs
from tests.integration.sites import Site
from tests.integration.test_cli import Desk, new_desk, terminal

SHAPE = json.loads((runs.REPOSITORY / "docs/drift.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def desk(module_place: Path) -> Iterator[Desk]:
    """A desk whose instance has box ``one`` and an adopted one, kept in root's own state."""
    engine = engines.client()
    with new_desk(engine, module_place) as desk:
        labels = {"agentbox.test": "drift"}
        other = engine.create_container(engines.IMAGE, ["sleep", "600"], name=container(desk), labels=labels)
        try:
            engine.start(other["Id"])
            made = converge(desk, *declared(desk))
            assert not made["failed"], made["msg"]
            yield desk
        finally:
            engine.remove_container(other["Id"], force=True)
    engine.close()


def container(desk: Desk) -> str:
    return f"{desk.instance}.of-others"


def declared(desk: Desk) -> list[dict[str, Any]]:
    site = Site(desk.instance, desk.directory)
    adopted = {"name": "old", "state": "adopted", "container": container(desk)}
    return [site.box("one", lead="none", agents=[]), adopted]


def converge(desk: Desk, *boxes: dict[str, Any]) -> runs.Result:
    return Site(desk.instance, desk.directory).converge_here(*boxes, state_root=str(desk.state.parent))


def drift(desk: Desk) -> tuple[int, dict[str, Any]]:
    """Exit code and document, which has the documented shape."""
    done = desk.run("drift", "--json")
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    jsonschema.validate(report, SHAPE)
    return done.returncode, report


def test_drift_is_told_and_nothing_is_changed(desk: Desk, engine: docker.APIClient) -> None:
    box = f"{desk.instance}-one"
    code, report = drift(desk)
    assert (code, report["outcome"]) == (0, "ok"), report
    assert [it["name"] for it in report["hosts"]["localhost"]["boxes"]] == ["old", "one"]
    engines.pause(engine, box)
    entry = Path(_naming.BoxPaths(str(desk.state), "one").mount, "entry.sh")
    entry.chmod(0o700)
    before = engines.look(engine, box)
    code, report = drift(desk)
    assert code == 4, report
    found = report["hosts"]["localhost"]["boxes"][1]
    assert found["actions"] == [
        {"action": "write_file", "detail": str(entry)},
        {"action": "unpause", "detail": box},
    ]
    assert drift(desk) == (code, report), "it is not the same twice"
    assert engines.look(engine, box) == before
    told = desk.run("drift")
    assert told.returncode == 4
    assert f"one  would  unpause {box}" in told.stdout
    assert not converge(desk, *declared(desk))["failed"]
    assert drift(desk)[0] == 0


@pytest.mark.full
def test_drift_that_cannot_be_found_out_is_an_error(desk: Desk) -> None:
    record = Path(_naming.BoxPaths(str(desk.state), "one").record)
    content = record.read_bytes()
    record.write_text("{", encoding="utf-8")
    done = desk.run("drift", "--json")
    record.write_bytes(content)
    assert done.returncode == 1
    assert "does not say what box one should be" in done.stderr


def test_an_adopted_box_is_listed_entered_and_otherwise_left_alone(desk: Desk, engine: docker.APIClient) -> None:
    before = engines.look(engine, container(desk))
    listed = json.loads(desk.run("ls", "--json").stdout)
    assert [(box["name"], box["adopted"], box["container"]) for box in listed] == [
        ("old", True, container(desk)),
        ("one", False, f"{desk.instance}-one"),
    ]
    for command in ("up", "rebuild", "stop", "attach", "export"):
        done = desk.run(command, "--name", "old")
        assert (done.returncode, "is adopted" in done.stderr) == (2, True), (command, done.stderr)
    with terminal(desk, "shell", "--name", "old") as shell:
        shell.type("echo in $(hostname)\nexit\n")
        shell.expect(f"in {before['Config']['Hostname']}")
        assert shell.wait() == 0
    checked = json.loads(desk.run("doctor", "--json").stdout)["checks"]
    assert [check["verdict"] for check in checks_of(checked, "old")] == ["ok"]
    forgotten = desk.run("down", "--name", "old")
    assert forgotten.stdout.strip() == f"box old is no longer adopted; container {container(desk)} stays as it is"
    assert engines.look(engine, container(desk)) == before
    assert [box["name"] for box in json.loads(desk.run("ls", "--json").stdout)] == ["one"]


def checks_of(checks: list[dict[str, Any]], subject: str) -> list[dict[str, Any]]:
    return [check for check in checks if check["subject"] == subject]
