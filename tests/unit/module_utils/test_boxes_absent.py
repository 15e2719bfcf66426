"""An instance that shall not be there, on a host without an engine: what lies on the disk goes, and no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared._boxes import Outcome, Request, converge
from agentbox._shared._errors import DeclarationError
from tests.unit.module_utils.box_samples import SETTING


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state directory of an instance with box ``web`` and a volume."""
    state = tmp_path / "abx"
    for directory in ("boxes/web/mount", "relay/web", "relay/half-gone", "volumes", "logs"):
        (state / directory).mkdir(parents=True)
    for file in ("lock", "digest.key", "volumes/abx-web-home", "boxes/web/record.json"):
        (state / file).touch()
    return state


def remove(state: Path, **options: Any) -> Outcome:
    setting = replace(SETTING, state_dir=str(state))
    given = {"boxes": [], "secrets": {}, "engine": None, "report": lambda line: None, "absent": True}
    return converge(Request(setting, **{**given, **options}))


def names(state: Path) -> list[str]:
    return sorted(path.name for path in state.iterdir())


def test_what_is_noted_of_volumes_stays_with_them(state: Path) -> None:
    before = names(state)
    predicted = remove(state, check=True)
    assert names(state) == before
    done = remove(state)
    assert done.as_dict()["actions"] == predicted.as_dict()["actions"]
    assert not done.failures
    assert names(state) == ["lock", "volumes"]
    assert remove(state).as_dict()["changed"] is False


def test_with_the_volumes_all_of_the_state_goes(state: Path) -> None:
    done = remove(state, remove_volumes=True)
    assert not state.exists()
    assert state.parent.is_dir()
    assert done.warnings == ["no engine is installed to remove the volumes abx-web-home"]
    again = remove(state, remove_volumes=True)
    assert (again.as_dict()["changed"], again.warnings) == (False, [])
    assert not state.exists()


def test_without_any_volume_nothing_has_to_stay(state: Path) -> None:
    (state / "volumes" / "abx-web-home").unlink()
    remove(state)
    assert not state.exists()


def test_a_box_of_it_cannot_be_declared(state: Path) -> None:
    with pytest.raises(DeclarationError, match="boxes: no box can be declared of an instance"):
        remove(state, boxes=[{"name": "web", "state": "absent"}])
    assert (state / "boxes" / "web").is_dir()
