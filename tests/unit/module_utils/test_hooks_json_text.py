"""JSON text that is changed in place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbox._shared._json_text import EMPTY, parsed, put, removed

OWN = {"hooks": [{"type": "http", "url": "x"}]}
# Strings that look like the ends of what they stand in.
TEXTS = st.text(max_size=4) | st.sampled_from(['"', "\\", "]", "},", ":", '{"a":', "\u2028"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS


def containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=4) | st.dictionaries(TEXTS, values, max_size=4)


OBJECTS = st.dictionaries(TEXTS, st.recursive(SCALARS, containers, max_leaves=12), max_size=4)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[str | int], Any]:
    """Text in some layout, a path to something in it or to something new, and the container that the path ends in."""
    document: dict[str, Any] = draw(OBJECTS)
    layout = {"indent": draw(st.sampled_from([None, 0, 1, 2, 4, "\t"])), "ensure_ascii": draw(st.booleans())}
    text = json.dumps(document, **layout)
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    path: list[str | int] = []
    container: Any = document
    while True:
        places = list(range(len(container))) if isinstance(container, list) else list(container)
        key = draw(st.sampled_from([*places, len(container) if isinstance(container, list) else "new"]))
        path.append(key)
        if key not in places or not isinstance(container[key], dict | list) or draw(st.booleans()):
            return text, path, container
        container = container[key]


def lookup(text: str, path: list[str | int]) -> Any:
    found = parsed(text)
    for key in path:
        found = found[key]
    return found


def is_new(path: list[str | int], container: Any) -> bool:
    key = path[-1]
    return key == len(container) if isinstance(container, list) else key not in container


@given(cases())
def test_a_value_is_put_in_its_place_and_nothing_else_changes(case: tuple[str, list[str | int], Any]) -> None:
    text, path, container = case
    document = json.loads(text)
    result = put(text, path, OWN)
    assert lookup(result, path) == OWN
    if is_new(path, container):
        assert parsed(removed(result, path[:-1], path[-1:])) == document
    else:
        assert parsed(put(result, path, container[path[-1]])) == document


@given(cases())
def test_what_was_added_to_others_can_be_taken_away_to_the_byte(case: tuple[str, list[str | int], Any]) -> None:
    text, path, container = case
    new = [*path[:-1], len(container) if isinstance(container, list) else "really new"]
    assert removed(put(text, new, OWN), new[:-1], new[-1:]) == text


@given(cases())
def test_removing_takes_nothing_else_along(case: tuple[str, list[str | int], Any]) -> None:
    text, path, container = case
    if is_new(path, container):
        text = put(text, path, OWN)
    document = json.loads(text)
    place = document
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    assert parsed(removed(text, path[:-1], path[-1:])) == document


def test_removing_keeps_the_others() -> None:
    text = '{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}\n'
    assert removed(text, [], ["a"]) == '{\n  "b": 2,\n  "c": 3\n}\n'
    assert removed(text, [], ["b"]) == '{\n  "a": 1,\n  "c": 3\n}\n'
    assert removed(text, [], ["c"]) == '{\n  "a": 1,\n  "b": 2\n}\n'
    assert removed('{"a": [1]}', ["a"], [0]) == '{"a": []}'


@pytest.mark.parametrize("gone", [{0, 1}, {0, 2, 3}, {1, 2}, {3, 4}, {0, 1, 2, 3, 4}], ids=str)
def test_several_are_removed_at_once_wherever_they_stand(gone: set[int]) -> None:
    assert parsed(removed("[0, 1, 2, 3, 4]", [], gone)) == [index for index in range(5) if index not in gone]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        (EMPTY, '{\n  "hooks": {\n    "x": [\n      1\n    ]\n  }\n}\n'),
        ('{\n\t"a": 1\n}', '{\n\t"a": 1,\n\t"hooks": {\n\t\t"x": [\n\t\t\t1\n\t\t]\n\t}\n}'),
        ('{\r\n    "a": 1\r\n}', None),
        ('{"a": 1}', '{"a": 1, "hooks": {"x": [1]}}'),
    ],
    ids=["new", "tabs", "windows", "one line"],
)
def test_new_text_is_indented_as_found(text: str, result: str | None) -> None:
    changed = put(text, ["hooks"], {"x": [1]})
    if result is None:
        result = (json.dumps({"a": 1, "hooks": {"x": [1]}}, indent=4)).replace("\n", "\r\n")
    assert changed == result


def test_an_entry_on_one_line_stays_on_it_in_a_document_of_many() -> None:
    text = '{\n  "hooks": {"Stop": [{"a": 1}]}\n}\n'
    assert put(text, ["hooks", "Stop", 1], {"b": [1]}) == '{\n  "hooks": {"Stop": [{"a": 1}, {"b": [1]}]}\n}\n'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ufeff{}",
        '{"a": 1,}',
        '{"a": 1} // comment',
        "{'a': 1}",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"secret": 1, "secret": 2}',
        '{"a": "line\nbreak"}',
        "[" * 100_000,
        '{"a": ' + "[" * 100 + "]" * 100 + "}",
        '{"a": ' + "1" * 5000 + "}",
    ],
)
def test_what_is_no_strict_json_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 -- the words are Python's
        parsed(text)
    assert "secret" not in str(refusal.value)
