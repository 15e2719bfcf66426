"""The filters that part secrets from box declarations."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.agentbox.fleet.plugins.filter.boxes import (
    declaration_problems,
    only_secrets,
    that_exist,
    with_state,
    without_secrets,
)

VALUE = "value-that-must-not-be-shown"


@pytest.mark.parametrize("nothing", [None, "", [], ()])
def test_nothing_declared_is_an_empty_answer(nothing: Any) -> None:
    assert without_secrets(nothing) == []
    assert only_secrets(nothing) == {}


def test_secrets_are_parted_by_box_and_the_declaration_stays_whole() -> None:
    boxes = [
        {"name": "one", "memory": "4g", "secrets": {"TOKEN": VALUE}},
        {"name": "two", "secrets": None},
        {"name": "three", "secrets": {}},
    ]

    assert without_secrets(boxes) == [{"name": "one", "memory": "4g"}, {"name": "two"}, {"name": "three"}]
    assert only_secrets(boxes) == {"one": {"TOKEN": VALUE}, "three": {}}
    assert boxes[0]["secrets"] == {"TOKEN": VALUE}, "the input was changed"


def test_items_that_are_no_boxes_are_left_for_the_module_to_name() -> None:
    boxes = ["text", 3, None, {"name": "one"}]

    assert without_secrets(boxes) == boxes
    assert only_secrets(boxes) == {}


@pytest.mark.parametrize("mistake", [{"name": "one", "secrets": {"TOKEN": VALUE}}, VALUE, 3, True])
@pytest.mark.parametrize("part", [without_secrets, only_secrets])
def test_what_is_no_list_is_refused_by_kind(part: Any, mistake: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="boxes: a list of boxes expected") as raised:
        part(mistake)
    assert VALUE not in str(raised.value)


@pytest.mark.parametrize(
    ("boxes", "message"),
    [
        ([{"name": "one"}, {"secrets": {"TOKEN": VALUE}}], r"boxes\[1\]\.name: text expected, found nothing"),
        ([{"name": [VALUE], "secrets": {"TOKEN": VALUE}}], r"boxes\[0\]\.name: text expected, found a list"),
        ([{"name": "one", "secrets": f"TOKEN={VALUE}"}], r"boxes\[0\]\.secrets: .* expected, found text"),
        ([{"name": "one", "secrets": [{"TOKEN": VALUE}]}], r"boxes\[0\]\.secrets: .* expected, found a list"),
        ([{"name": "one", "secrets": 5}], r"boxes\[0\]\.secrets: .* found a value of type int"),
        (
            [{"name": "one", "secrets": {"A": VALUE}}, {"name": "one", "secrets": {"B": VALUE}}],
            r"boxes\[1\]\.name: 'one' is declared twice",
        ),
    ],
)
def test_wrong_secrets_are_refused_by_path_without_their_value(boxes: Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message) as raised:
        only_secrets(boxes)
    assert VALUE not in str(raised.value)


def test_another_state_keeps_the_rest_of_the_declaration() -> None:
    box = {"name": "one", "state": "started", "secrets": {"TOKEN": VALUE}}
    boxes = [box, {"name": "two"}, "text"]

    assert with_state(boxes, "absent") == [
        {"name": "one", "state": "absent", "secrets": {"TOKEN": VALUE}},
        {"name": "two", "state": "absent"},
        "text",
    ]
    assert with_state(None, "stopped") == []
    assert with_state([{"name": "one", "state": "absent"}], "started") == [{"name": "one", "state": "absent"}]
    assert box["state"] == "started", "the input was changed"


def test_an_adopted_box_is_neither_started_nor_stopped() -> None:
    adopted = {"name": "old", "state": "adopted", "container": "my-old-box"}
    assert with_state([adopted], "started") == with_state([adopted], "stopped") == [adopted]
    assert with_state([adopted], "absent") == [{**adopted, "state": "absent"}]


def test_boxes_that_are_not_there_are_left_out() -> None:
    found = [{"name": "one", "state": "running"}, {"name": "other"}]
    wrong: list[Any] = ["text", {"workspace": "/srv/code"}]
    assert that_exist([{"name": "one"}, {"name": "two"}, *wrong], found) == [{"name": "one"}, *wrong]
    assert that_exist("", found) == []


def test_problems_of_declarations_are_told_without_a_host_and_without_values() -> None:
    manifests = {"claude": {"launch": {"permission_modes": ["default"]}}}
    fine = [{"name": "one", "secrets": {"KEY": "s3cret"}}]
    assert declaration_problems(fine, "agentbox", manifests) == ""
    wrong = [*fine, {"name": "two", "memroy": "4g"}]
    problems = declaration_problems(wrong, "agentbox", manifests)
    assert problems == "boxes[1].memroy: unknown key, did you mean memory?"
