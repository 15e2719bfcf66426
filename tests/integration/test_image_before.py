"""The images that were in use before: a way back, and removed when they are superseded."""

from __future__ import annotations

import pytest

from agentbox._shared import _naming
from tests.integration.workshops import Workshop


@pytest.fixture
def rebuilt(built: Workshop) -> tuple[Workshop, str]:
    """A workshop whose image has another word than the one before, and the ID of that one."""
    before = built.image_id
    assert built.build(build_args={"WORD": "other"})["superseded"] == before
    return built, before


def test_the_image_before_is_in_use_again_when_asked_for(rebuilt: tuple[Workshop, str]) -> None:
    workshop, before = rebuilt
    predicted = workshop.build(check=True, state="previous")
    assert [action["action"] for action in predicted["actions"]] == ["tag"]
    assert workshop.image_id != before

    restored = workshop.build(state="previous")
    assert restored["actions"] == predicted["actions"]
    assert restored["image"]["id"] == workshop.image_id == before
    assert not workshop.build(state="previous")["changed"]
    # Also what it was made of is known again, so the declaration of then finds nothing to do.
    assert not workshop.build()["changed"]
    assert workshop.images() == [before]


def test_no_way_back_is_told(built: Workshop) -> None:
    for check in (True, False):
        failed = built.build(check=check, state="previous")
        assert f"there is no image before {built.tag}" in failed["msg"]
    built.build(build_args={"WORD": "other"}, keep=0)
    assert built.images() == [built.image_id]
    assert built.build(state="previous")["failed"]


def test_superseded_images_are_removed_unless_a_container_uses_them(rebuilt: tuple[Workshop, str]) -> None:
    workshop, used = rebuilt
    container = workshop.engine.create_container(used, labels={_naming.LABEL_INSTANCE: workshop.instance})["Id"]
    unused = workshop.image_id
    for word in ("third", "fourth"):
        workshop.build(build_args={"WORD": word})
    assert unused not in workshop.images()
    assert used in workshop.images()
    assert len(workshop.images()) == 3
    workshop.engine.remove_container(container)
    pruned = workshop.build(build_args={"WORD": "fifth"})
    assert pruned["actions"][-1] == {"action": "prune", "detail": "2 superseded images"}
    assert len(workshop.images()) == 2
