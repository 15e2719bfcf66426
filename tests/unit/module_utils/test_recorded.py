"""A declaration regained from a record says the same as the one that was recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentbox._shared._errors import StateError
from agentbox._shared._options import OPTIONS
from agentbox._shared._recorded import declaration
from agentbox._shared._spec import BoxSpec, parse_boxes
from tests.unit.module_utils.box_samples import MANIFESTS, WORKSPACE

# A value other than the default of every key that a record keeps.
OTHER: dict[str, Any] = {
    "workspace": "/srv/code/other",
    "workspace_target": "mirror",
    "lead": "none",
    "agents": ["claude", "plain"],
    "permission_mode": "plan",
    "yolo": True,
    "uid": 4321,
    "memory": "3g",
    "cpus": 1.5,
    "pids": 100,
    "shm_size": "64m",
    "tmp_size": "2g",
    "publish": "[::1]:4400",
    "network": "none",
    "networks": ["tools"],
    "ports": ["8080:80", "[::1]:53:53/udp"],
    "healthcheck": {"command": ["true"], "interval": "2m"},
    "env": {"A": "b"},
    "timezone": "Europe/Berlin",
    "locale": "de_DE.UTF-8",
    "secrets": ["TOKEN"],
    "mounts": ["/srv/a:/a:ro", {"source": "/srv/b", "target": "/b"}],
    "volumes": ["data:/data", {"name": "more", "target": "/more", "read_only": True}],
    "gpus": 2,
    "runtime": "runsc",
    "read_only": True,
    "seccomp": "strict",
    "credentials": "none",
    "sealed": True,
    "image": "other:1",
}
NOT_RECORDED = {"name", "state", "container", "recreate", "workspace_access", "size"}
VALUES = {"TOKEN": "value"}


def parsed(declared: dict[str, Any]) -> BoxSpec:
    """A declaration whose secrets are a mapping, as an inventory has them."""
    values = declared.get("secrets") or {}
    raw = {**declared, "secrets": sorted(values)}
    secrets = {declared["name"]: values} if values else {}
    [spec] = parse_boxes([raw], instance="abx", manifests=MANIFESTS, secrets=secrets)
    return spec


def test_every_recorded_key_is_tried() -> None:
    assert {option.name for option in OPTIONS} == OTHER.keys() | NOT_RECORDED


@pytest.mark.parametrize("key", [None, *sorted(OTHER), "healthcheck: none", "publish: none"])
@pytest.mark.parametrize("name", ["web", "default"])
def test_a_declaration_survives_being_recorded(name: str, key: str | None) -> None:
    word, _, value = (key or "").partition(": ")
    other = {word: value or OTHER[word]} if word else {}
    if "secrets" in other:
        other["secrets"] = VALUES
    declared = {"name": name, "workspace": WORKSPACE, **other}
    spec = parsed(declared)
    record = json.loads(json.dumps(spec.canonical()))
    again = parsed(declaration(name, "stopped", record, VALUES))
    assert again.canonical() == spec.canonical()
    assert (again.state, again.recreate) == ("stopped", "never")


def test_a_secret_that_is_gone_counts_as_empty() -> None:
    record = parsed({"name": "web", "workspace": WORKSPACE, "secrets": VALUES}).canonical()
    assert declaration("web", "started", record, {})["secrets"] == {"TOKEN": ""}


@pytest.mark.parametrize("damaged", [{}, {"secrets": None}, {"secrets": [], "ports": [{"x": 1}]}])
def test_a_damaged_record_is_named(damaged: dict[str, Any]) -> None:
    with pytest.raises(StateError, match="record of box web"):
        declaration("web", "started", damaged, {})
