"""Optional lists, however they were written."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.agentbox.fleet.plugins.filter.lists import as_list


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
