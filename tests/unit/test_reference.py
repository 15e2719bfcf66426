"""How documentation becomes pages: fragments, markup, and cells of tables."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

REFERENCE = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools" / "reference.py"))


@pytest.mark.parametrize(
    ("markup", "markdown"),
    [
        ("C(unix://) or V(true)", "`unix://` or `true`"),
        ("see M(agentbox.fleet.box) and P(agentbox.fleet.manifests#lookup)", "see `box` and `manifests`"),
        ("see M(ansible.builtin.apt)", "see `ansible.builtin.apt`"),
        ("key O(ignore:state), E(DOCKER_HOST), O(names=[])", "key `state`, `DOCKER_HOST`, `names=[]`"),
        ("one | two", "one \\| two"),
    ],
)
def test_markup_becomes_markdown(markup: str, markdown: str) -> None:
    assert REFERENCE["plain"](markup) == markdown


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ({}, "str"),
        ({"type": "list", "elements": "dict"}, "list of dict"),
        ({"type": "list"}, "list"),
        ({"type": "str", "choices": ["a", "b"]}, "`a` \\| `b`"),
        ({"type": "list", "elements": "str", "choices": ["a", "b"]}, "list of `a` \\| `b`"),
    ],
)
def test_types_are_shown_with_what_they_allow(option: dict[str, Any], shown: str) -> None:
    assert REFERENCE["type_of"](option) == shown


def test_own_words_win_over_those_of_fragments() -> None:
    own = {
        "extends_documentation_fragment": ["agentbox.fleet.engine", "agentbox.fleet.attributes", "constructed"],
        "options": {"docker_host": {"description": "Mine."}},
        "attributes": {"check_mode": {"support": "none"}},
    }
    merged = REFERENCE["with_fragments"](own)
    assert merged["options"]["docker_host"]["description"] == "Mine."
    assert merged["options"]["docker_host"]["type"] == "str"
    assert merged["options"]["engine_absent"]["choices"] == ["fail", "predict"]
    assert merged["attributes"]["check_mode"]["support"] == "none"
    assert "predict" in merged["attributes"]["check_mode"]["description"]
    assert REFERENCE["extended"](own, ours=False) == ["constructed"]


def test_only_an_unlimited_promise_comes_without_a_reason() -> None:
    attributes = {
        "check_mode": {"support": "full", "details": "Not shown."},
        "diff_mode": {"support": "N/A", "details": "This module changes nothing."},
    }
    [line] = REFERENCE["promises"]({"attributes": attributes})
    assert line == "Support: check mode full, diff mode N/A (This module changes nothing)."
