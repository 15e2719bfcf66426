"""What keeps anything from running in a box is named, with the way out."""

from __future__ import annotations

import pytest
from ansible_collections.agentbox.fleet.plugins.connection.box import obstacle

from tests.unit.module_utils.box_samples import box, inspected


def test_a_running_box_is_no_obstacle() -> None:
    assert obstacle("abx-web", inspected(box())) is None


@pytest.mark.parametrize(
    ("status", "told", "todo"),
    [
        ("paused", "is paused", "docker unpause abx-web"),
        ("exited", "is not running (exited)", "agentbox up"),
        ("created", "is not running (created)", "agentbox up"),
        ("restarting", "is not running (restarting)", "agentbox up"),
    ],
)
def test_a_box_that_does_not_run(status: str, told: str, todo: str) -> None:
    said = obstacle("abx-web", inspected(box(), status=status))
    assert said is not None
    assert said.startswith(f"box abx-web {told}")
    assert todo in said


def test_no_container_and_a_container_that_is_no_box() -> None:
    assert "there is no container abx-web" in str(obstacle("abx-web", None))
    foreign = inspected(box())
    foreign["Config"]["Labels"] = None
    assert "is no box" in str(obstacle("abx-web", foreign))


def test_an_adopted_container_is_entered_while_it_runs() -> None:
    foreign = {"Config": {"Labels": None}, "State": {"Status": "running"}}
    assert obstacle("my-old-box", foreign, adopted=True) is None
    said = str(obstacle("my-old-box", {**foreign, "State": {"Status": "exited"}}, adopted=True))
    assert "not running (exited)" in said
    assert "agentbox up" not in said, "that would not start it"
