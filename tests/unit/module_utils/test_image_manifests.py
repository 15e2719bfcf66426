"""Manifests: chosen, laid over each other, checked against their schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.agentbox.fleet.plugins.lookup.manifests import AGENTS, check, manifests
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import DeclarationError
from ansible_collections.agentbox.fleet.plugins.module_utils._manifests import merge, select
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[3]
STANDIN = yaml.safe_load((ROOT / "tests/doubles/manifests/standin.yml").read_text(encoding="utf-8"))


SCHEMA = json.loads((AGENTS / "schema.json").read_text(encoding="utf-8"))


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_collections_own_manifests_are_what_the_schema_says() -> None:
    found = manifests()
    assert "claude" in found
    for name, manifest in found.items():
        check(name, manifest, SCHEMA)


def test_own_manifests_join_those_of_the_collection() -> None:
    found = manifests({"standin": STANDIN})
    assert {"claude", "standin"} <= set(found)


def test_a_part_of_a_manifest_overrides_that_part() -> None:
    found = manifests({"claude": {"package": {"version": "2.1.300"}}})["claude"]
    original = manifests()["claude"]
    assert found["package"] == {**original["package"], "version": "2.1.300"}
    assert {key: found[key] for key in found if key != "package"} == {
        key: original[key] for key in original if key != "package"
    }


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"claude": {"pakage": {}}}, "manifests.claude: unknown key 'pakage', did you mean 'package'?"),
        ({"claude": {"launch": {"argw": []}}}, "manifests.claude.launch: unknown key 'argw', did you mean 'argv'?"),
        ({"claude": {"package": {"version": 2.1}}}, "manifests.claude.package.version: 2.1 is not of type 'string'"),
        ({"claude": {"package": {"name": "--prefix=/ x"}}}, "manifests.claude.package.name: '--prefix=/ x' does not"),
        ({"claude": {"binary": ".."}}, "manifests.claude.binary: '..' does not match"),
        ({"claude": {"binary": "claude\n"}}, "manifests.claude: holds a line break or another control character"),
        ({"claude": {"version": {"pattern": "("}}}, "manifests.claude.version.pattern: must be a regular expression"),
        (
            {"claude": {"version": {"pattern": r"\d+"}}},
            "manifests.claude.version.pattern: must be a regular expression",
        ),
        ({"claude": {"package": {"version": "2.x"}}}, "manifests.claude.package.version: '2.x' does not match"),
        ({"claude": {"launch": {"argv": ["claude", 1]}}}, "manifests.claude.launch.argv[1]: 1 is not of type"),
        ({"mine": {"name": "mine"}}, "manifests.mine: 'title' is a required property"),
        ({"mine": STANDIN}, "manifests.mine.name: is 'standin', has to be 'mine'"),
        ({"mount": {**STANDIN, "name": "mount"}}, "manifests.mount.name: 'mount' does not match"),
        ({"claude": {"hooks": {"file": "/x"}}}, "manifests.claude.hooks.file: '/x' does not match"),
        ({"claude": {"hooks": {"file": "a/../b"}}}, "manifests.claude.hooks.file: 'a/../b' does not match"),
        ({"claude": {"config": {"directory": ".."}}}, "manifests.claude.config.directory: '..' does not match"),
        ({"claude": {"config": {"directory": "a/"}}}, "manifests.claude.config.directory: 'a/' does not match"),
        ({"mine": None}, "manifests.mine: None is not of type 'object'"),
    ],
)
def test_a_wrong_manifest_is_named_with_the_path_of_the_key(own: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        manifests(own)
    assert caught.value.message.startswith(message)


def test_merging_replaces_lists_and_leaves_its_input_alone() -> None:
    own = {"a": {"b": [1, 2], "c": 3}}
    assert merge(own, {"a": {"b": [4]}, "d": 5}) == {"a": {"b": [4], "c": 3}, "d": 5}
    assert own == {"a": {"b": [1, 2], "c": 3}}


def test_agents_are_chosen_in_order() -> None:
    found = select(manifests({"standin": STANDIN}), ["standin", "claude"])
    assert [agent.name for agent in found] == ["standin", "claude"]
    assert found[1].build_argument == "VERSION_CLAUDE"
    assert found[1].read_version("2.1.332 (Claude Code)") == "2.1.332"
    assert found[1].read_version("native binary not installed") is None


def test_unknown_and_repeated_agents_are_refused() -> None:
    with pytest.raises(DeclarationError, match=r"agents\[1\]: there is no manifest named 'cloud' \(known: claude"):
        select(manifests(), ["claude", "cloud"])
    with pytest.raises(DeclarationError, match=r"agents\[1\]: 'claude' is named twice"):
        select(manifests(), ["claude", "claude"])
