"""docs/events.md says what the model and the manifest say, and its example is an event."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from agentbox.protocol import Event
from tests.unit.box.boxes import ROOT

DOCUMENT = (ROOT / "docs" / "events.md").read_text()
HOOKS = yaml.safe_load((ROOT / "agents" / "claude.yml").read_text())["hooks"]


def rows(heading: str) -> list[list[str]]:
    """Cells of the table below ``heading``, without its head."""
    section = DOCUMENT.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_fields_are_those_of_the_model() -> None:
    properties = Event.model_json_schema(by_alias=True, mode="serialization")["properties"]
    model = [[f"`{name}`", json_type(field), field["description"]] for name, field in properties.items()]
    assert rows("Shape") == model


def json_type(field: dict[str, Any]) -> str:
    return " or ".join(choice["type"] for choice in field.get("anyOf", [field]))


def test_event_types_and_their_delivery_are_those_of_the_manifest() -> None:
    delivery = {"http": "http", "command": "command", "replacing": "not subscribed"}
    manifest = {(f"`{name}`", told) for key, told in delivery.items() for name in HOOKS[key]}
    assert {(row[0], row[1]) for row in rows("Events of Claude Code")} == manifest


def test_version_is_that_of_the_manifest() -> None:
    manifest = yaml.safe_load((ROOT / "agents" / "claude.yml").read_text())
    assert f"\n## Events of Claude Code {manifest['package']['version']}\n" in DOCUMENT


def test_example_is_an_event_and_is_written_as_the_page_writes_it() -> None:
    found = re.search(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found
    example = json.loads(found.group(1))
    assert Event.model_validate(example).model_dump(mode="json", by_alias=True) == example
