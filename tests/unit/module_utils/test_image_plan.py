"""When an image has to be built, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentbox._shared._base import Base
from agentbox._shared._errors import EngineUnsupportedError
from agentbox._shared._image_plan import (
    Inputs,
    Live,
    Record,
    machine,
    objections,
    previous_name,
    reasons,
)
from agentbox._shared._manifests import LATEST, Agent, agents_label, parse_agents

INPUTS = Inputs("FROM x\n", {"a": "1", "b": "2"}, {"WORD": "x"}, "sha256:1", "amd64")
RECORD = Record("x:latest", INPUTS.digest(), None, "sha256:1", {}, INPUTS.fingerprints())


def live(context: str) -> Live:
    return Live("sha256:9", context, "agentbox", "sha256:1", {})


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"dockerfile": "FROM y\n"}, "Dockerfile changed"),
    ({"files": {"a": "2", "b": "2"}}, "a changed"),
    ({"files": {"a": "1"}}, "b is gone"),
    ({"files": {"a": "1", "b": "2", "c": ""}}, "c is new"),
    ({"arguments": {"WORD": "y"}}, "argument WORD changed"),
    ({"base_id": "sha256:2"}, "base changed"),
    ({"architecture": "arm64"}, "architecture changed"),
]


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_every_input_counts_and_is_named(change: dict[str, Any], reason: str) -> None:
    changed = replace(INPUTS, **change)
    assert changed.digest() != INPUTS.digest()
    assert reasons(live(INPUTS.digest()), changed, RECORD, no_cache=False) == [reason]


def test_order_does_not_count() -> None:
    assert replace(INPUTS, files={"b": "2", "a": "1"}).digest() == INPUTS.digest()


def test_nothing_to_do() -> None:
    assert reasons(live(INPUTS.digest()), INPUTS, RECORD, no_cache=False) == []
    assert reasons(live(INPUTS.digest()), INPUTS, Record(), no_cache=False) == []


def test_reasons_without_a_comparison() -> None:
    assert reasons(None, INPUTS, RECORD, no_cache=False) == ["there is no image of that name"]
    assert reasons(live(INPUTS.digest()), INPUTS, RECORD, no_cache=True) == ["asked for"]
    assert reasons(live("other"), INPUTS, Record(), no_cache=False) == ["its recorded content is another one"]
    assert reasons(live("other"), None, RECORD, no_cache=False) == ["there is no base image"]


def test_many_reasons_are_counted() -> None:
    files = dict.fromkeys("cdefghij", "new")
    found = reasons(live(INPUTS.digest()), replace(INPUTS, files=files), RECORD, no_cache=False)
    assert len(found) == 6
    assert found[-1] == "5 more"


def test_a_record_survives_its_file() -> None:
    base = Base("debian:bookworm-slim", "debootstrap", "agentbox-base:bookworm")
    record = replace(RECORD, base=base, image_id="sha256:9", origin="registry.example/x@sha256:7", stages=("sha256:8",))
    assert Record.from_json(record.as_json()) == record
    assert Record.from_json(None) == Record()
    assert Record.from_json({**record.as_json(), "schema": 0}) == Record()


def test_an_image_of_other_makers_has_no_labels() -> None:
    found = Live.from_inspect({"Id": "sha256:9", "Config": {"Labels": None}})
    assert found == Live("sha256:9", "", "", "", {})
    assert Live.from_inspect(None) is None


@pytest.mark.parametrize(
    ("name", "previous"),
    [
        ("agentbox:latest", "agentbox:previous"),
        ("registry.example:5000/team/agentbox:latest", "registry.example:5000/team/agentbox:previous"),
        ("agentbox:stable", "agentbox:stable-previous"),
    ],
)
def test_the_image_before_has_a_tag_beside(name: str, previous: str) -> None:
    assert previous_name(name) == previous


MADE_ELSEWHERE = Live("sha256:9", "sha256:1", "agentbox", "sha256:2", {"claude": "2.1.332"}, architecture="amd64")


@pytest.mark.parametrize(
    ("change", "objection"),
    [
        ({"instance": ""}, "it was made for no instance of Agentbox"),
        ({"instance": "other"}, "it was made for instance other"),
        ({"context": ""}, "it does not say what it was made of (label agentbox.context)"),
        ({"architecture": "arm64"}, "it is for arm64, this engine is amd64"),
        ({"agents": {}}, "it holds no claude"),
        ({"agents": {"claude": "2.1.300"}}, "it holds claude 2.1.300 instead of 2.1.332"),
    ],
)
def test_what_speaks_against_an_image_that_was_made_elsewhere(change: dict[str, Any], objection: str) -> None:
    agent = Agent("claude", "claude-code", "2.1.332", ("claude", "--version"), "(.*)")
    assert objections(MADE_ELSEWHERE, "agentbox", [agent], "amd64") == []
    assert objections(replace(MADE_ELSEWHERE, **change), "agentbox", [agent], "amd64") == [objection]


def test_any_version_is_the_latest_of_an_image_that_was_made_elsewhere() -> None:
    agent = Agent("claude", "claude-code", LATEST, ("claude", "--version"), "(.*)")
    assert objections(MADE_ELSEWHERE, "agentbox", [agent], "amd64") == []


def test_the_agents_label() -> None:
    versions = {"codex": "0.171.0", "claude": "2.1.332"}
    assert agents_label(versions) == "claude=2.1.332 codex=0.171.0"
    assert parse_agents(agents_label(versions)) == versions
    assert parse_agents("") == {}


def test_machines() -> None:
    assert {machine("x86_64"), machine("amd64")} == {"amd64"}
    assert {machine("aarch64"), machine("arm64")} == {"arm64"}
    for name in ("riscv64", "armv7l", ""):
        with pytest.raises(EngineUnsupportedError, match="x86_64 and aarch64"):
            machine(name)
