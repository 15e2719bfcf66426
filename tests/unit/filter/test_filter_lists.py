"""Optional lists, however they were written."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.agentbox.fleet.plugins.filter.lists import as_lines, as_list

KEYS = ["git.example,192.0.2.1 ssh-ed25519 AAAA", "other.example ssh-ed25519 BBBB"]


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (None, []),
        ("", []),
        (" , ", []),
        ([], []),
        (["ops", "dev", "ops", " "], ["dev", "ops"]),
        ("ops, dev", ["dev", "ops"]),
        (["a,b"], ["a,b"]),
    ],
)
def test_texts_are_sorted_and_unique(value: Any, texts: list[str]) -> None:
    assert as_list(value) == texts


@pytest.mark.parametrize("value", [7, {"dev": 1}, ["dev", None], [["dev"]], True])
def test_anything_else_is_an_error(value: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="as_list takes"):
        as_list(value)


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (None, []),
        ("", []),
        (["b", "a,c", " "], ["b", "a,c"]),
        ("\n".join([*KEYS[:1], "", *KEYS[1:], ""]), KEYS),
    ],
)
def test_lines_keep_their_order_and_commas(value: Any, lines: list[str]) -> None:
    assert as_lines(value) == lines


@pytest.mark.parametrize("value", [7, {"dev": 1}, ["dev", None]])
def test_what_holds_no_lines_is_an_error(value: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="as_lines takes"):
        as_lines(value)
