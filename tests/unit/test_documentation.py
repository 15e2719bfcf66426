"""ansible-doc can show every module, plugin and role, and all of them tell the same of the engine's options."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared._engine import ENGINE_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = "agentbox.fleet"
KINDS = ("callback", "connection", "filter", "inventory", "lookup", "module", "role")
# What of an option a specification and a documentation both say; without it both mean the same.
FACETS = {"type": "str", "required": False, "default": None, "choices": None, "elements": None}


def names(kind: str) -> set[str]:
    """What of one kind the collection holds, by what stands in its folders."""
    if kind == "role":
        found = {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}
    elif kind == "filter":
        found = {name for stem in stems("filter") for name in filters(stem)}
    else:
        found = set(stems("modules" if kind == "module" else kind))
    return {f"{COLLECTION}.{name}" for name in found}


def stems(folder: str) -> list[str]:
    return [path.stem for path in sorted((ROOT / "plugins" / folder).glob("*.py"))]


def filters(stem: str) -> list[str]:
    loaded = importlib.import_module(f"ansible_collections.agentbox.fleet.plugins.filter.{stem}")
    return list(loaded.FilterModule().filters())


@functools.cache
def shown(kind: str) -> dict[str, Any]:
    """What ansible-doc says of everything of one kind, by full name."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-doc")), "--type", kind, "--json", *sorted(names(kind))],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_everything_can_be_looked_up(kind: str) -> None:
    assert shown(kind).keys() == names(kind)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "role"])
def test_everything_says_what_it_is_and_how_it_is_used(kind: str) -> None:
    for name, page in shown(kind).items():
        assert page["doc"]["short_description"], name
        assert page["doc"]["description"], name
        assert page["doc"]["version_added"], name
        assert page["doc"]["author"], name
        if kind != "callback":  # which is switched on and not called
            assert page["examples"], name
        if kind in ("module", "filter", "lookup"):
            assert page["return"], name


def test_one_table_stands_behind_the_engine_options_of_all_kinds() -> None:
    reaching = set()
    for kind in ("connection", "inventory", "module"):
        for name, page in shown(kind).items():
            options = page["doc"].get("options") or {}
            for option in ENGINE_OPTIONS.keys() & options.keys():
                specified = {**FACETS, **ENGINE_OPTIONS[option]}
                documented = {**FACETS, **options[option]}
                assert {key: documented[key] for key in FACETS} == {key: specified[key] for key in FACETS}, name
                reaching.add(f"{kind} {name}")
    assert {"connection agentbox.fleet.box", "inventory agentbox.fleet.boxes", "module agentbox.fleet.box"} <= reaching


@pytest.mark.parametrize(("kind", "name"), [("connection", "box"), ("inventory", "boxes")])
def test_plugins_take_the_engines_address_from_the_same_places(kind: str, name: str) -> None:
    """Unlike modules they don't read the environment by themselves, so that it is easily forgotten."""
    option = shown(kind)[f"{COLLECTION}.{name}"]["doc"]["options"]["docker_host"]
    assert [place["name"] for place in option["env"]] == ["DOCKER_HOST"]
    assert [place["name"] for place in option["vars"]] == ["agentbox_docker_host"]
    assert [(place["section"], place["key"]) for place in option["ini"]] == [("agentbox", "docker_host")]
