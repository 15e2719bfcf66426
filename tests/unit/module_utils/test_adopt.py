"""Containers of others that have the name of a box: what can be declared of them, and which records are believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared import _adopt, _naming
from agentbox._shared._adopt import Adoption
from agentbox._shared._errors import DeclarationError
from agentbox._shared._health_box import box_checks
from agentbox._shared._health_expected import Capacity, expected_from_spec
from agentbox._shared._health_facts import BoxFacts, EngineFailure, HostFacts
from agentbox._shared._info import describe_adopted
from agentbox._shared._spec import parse_boxes
from tests.unit.module_utils.box_samples import MANIFESTS, box, inspected

CONTAINER = "my_Old.box-1"
OURS = {"agentbox.managed": "true", "agentbox.state_dir": "/state/abx"}
DECLARED = {"name": "old", "state": "adopted", "container": CONTAINER}


def problems(*declared: dict[str, Any], secrets: dict[str, Any] | None = None) -> str:
    with pytest.raises(DeclarationError) as raised:
        parse_boxes(list(declared), instance="abx", manifests=MANIFESTS, secrets=secrets)
    return str(raised.value)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"container": None}, "boxes[0].container: is missing"),
        ({"container": "no name"}, "boxes[0].container: must be the name of a container, not 'no name'"),
        ({"recreate": "always"}, "boxes[0].recreate: an adopted box is left as it is"),
        ({"workspace": "/srv/code"}, "boxes[0].workspace: an adopted box is left as it is"),
        ({"state": "started"}, "boxes[0].container: goes with state adopted only"),
    ],
)
def test_only_the_name_of_its_container_can_be_declared(declared: dict[str, Any], message: str) -> None:
    assert message in problems({**DECLARED, **declared})


def test_it_gets_no_secret_and_shares_its_container_with_no_other_box() -> None:
    assert "boxes[0].secrets.KEY: an adopted box gets none" in problems(DECLARED, secrets={"old": ["KEY"]})
    web = {"name": "web", "workspace": "/srv/code"}
    shared = problems({**DECLARED, "container": "abx-web"}, web)
    assert "boxes[1].name: the container's name 'abx-web' is that of boxes[0] too" in shared


def adoption(root: Path, name: str = "old", instance: str = "abx", container: str = CONTAINER) -> Adoption:
    made = Adoption(instance, name, container, _naming.state_dir(str(root), instance))
    _adopt.write(made)
    return made


def test_records_are_found_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    made = adoption(tmp_path)
    other = adoption(tmp_path, "one", "other")
    assert Path(made.path).stat().st_mode & 0o777 == 0o644
    directory = Path(made.path).parent
    for name, content in {
        "broken.json": "{",
        "Wrong.json": json.dumps({"container": "x"}),
        "none.json": json.dumps({"container": 5}),
        "path.json": json.dumps({"container": "../x"}),
        "notes.txt": "x",
    }.items():
        (directory / name).write_text(content, encoding="utf-8")
    assert _adopt.of_instance(made.state_dir, "abx") == {"old": made}
    own = [found for found in _adopt.known(str(tmp_path)) if found.state_dir.startswith(str(tmp_path))]
    assert own == [made, other]
    assert _adopt.known(str(tmp_path), "other") == [other]
    assert _adopt.known(str(tmp_path / "none"), "abx-none") == []


def test_a_plan_writes_the_record_once(tmp_path: Path) -> None:
    state_dir = _naming.state_dir(str(tmp_path), "abx")
    container = {"Labels": {"agentbox.box": "looks-like-one"}}
    [declared] = parse_boxes([DECLARED], instance="abx", manifests={})
    first = _adopt.plan(declared, state_dir, "abx", container, taken=False)
    assert [action.as_dict() for action in first.actions] == [{"action": "adopt", "detail": CONTAINER}]
    assert (first.before, first.after) == ({"adopted": None}, {"adopted": CONTAINER})
    _adopt.write(first.actions[0].subject)
    assert not _adopt.plan(declared, state_dir, "abx", container, taken=False).actions
    Path(first.actions[0].subject.path).chmod(0o600)
    assert _adopt.plan(declared, state_dir, "abx", container, taken=False).actions, "others could not read it any more"


@pytest.mark.parametrize(
    ("container", "taken", "message"),
    [
        (None, False, "boxes[0].container: there is no container"),
        (
            {"Labels": {"agentbox.managed": "true", "agentbox.state_dir": "/s"}},
            False,
            f"boxes[0].container: {CONTAINER} was made by Agentbox",
        ),
        ({"Labels": None}, True, "boxes[0].name: Agentbox made a box old itself"),
    ],
)
def test_what_cannot_be_adopted(tmp_path: Path, container: dict[str, Any] | None, taken: bool, message: str) -> None:
    [declared] = parse_boxes([DECLARED], instance="abx", manifests={})
    with pytest.raises(DeclarationError) as raised:
        _adopt.plan(declared, str(tmp_path), "abx", container, taken=taken)
    assert message in str(raised.value)


def test_nothing_is_believed_of_its_labels() -> None:
    live = {**inspected(box(yolo=True, publish=4400)), "Name": f"/{CONTAINER}"}
    told = describe_adopted(Adoption("abx", "old", CONTAINER, "/state/abx"), live)
    assert (told["name"], told["container"], told["adopted"], told["state"]) == ("old", CONTAINER, True, "running")
    assert [told[key] for key in ("workspace", "page", "attach", "context", "lead")] == [None] * 5
    assert told["yolo"] is False


@pytest.mark.parametrize(
    ("inspect", "verdict", "seen"),
    [
        ({"State": {"Status": "exited", "ExitCode": 3}}, "ok", f"adopted container {CONTAINER} is exited"),
        (None, "fail", f"its adopted container {CONTAINER} is gone"),
    ],
)
def test_the_doctor_says_whether_it_is_there_and_judges_nothing_else(
    inspect: dict[str, Any] | None, verdict: str, seen: str
) -> None:
    [declared] = parse_boxes([DECLARED], instance="abx", manifests={})
    expected = expected_from_spec(declared, "abx", {}, Capacity())
    [check] = box_checks(BoxFacts(expected, inspect), HostFacts(EngineFailure("x", "", ""), 0), "", predicting=False)
    assert (check.id, check.subject, check.verdict) == ("state", "old", verdict)
    assert seen in check.seen
