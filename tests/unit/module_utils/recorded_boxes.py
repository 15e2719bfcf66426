"""Containers of boxes as real engines tell of them, beside the declarations they were created from.

``recorded/api-<version>.json`` holds whole answers of ``GET /containers/<id>/json``, written by
``tests/record_inspect.py``; a creation payload that changes is recorded anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentbox._shared._box import Box
from agentbox._shared._naming import LABEL_SPEC
from agentbox._shared._spec import digest
from tests.unit.module_utils.box_samples import CONTEXT, box

DIRECTORY = Path(__file__).with_name("recorded")
# Declarations by the names that their containers have in the records. An engine grants no CPUs that it has not got.
DECLARED: Mapping[str, Mapping[str, Any]] = {
    "plain": {"cpus": 1},
    "everything": {
        "workspace_target": "mirror",
        "size": "large",
        "cpus": 1.5,
        "tmp_size": "64m",
        "publish": "[::1]:4400",
        "networks": ["lan"],
        "ports": ["8080:80", "0.0.0.0:53:53/udp"],
        "healthcheck": {"command": "true", "interval": "1m30s", "start_period": 0},
        "env": {"GREETING": "two words, ünïcode", "EMPTY": ""},
        "mounts": ["/srv/data:/data:ro"],
        "volumes": ["shared:/shared"],
        "gpus": "all",
        "read_only": True,
        "seccomp": "strict",
    },
    "sealed": {"cpus": 1, "sealed": True, "healthcheck": "none"},
}


def declared(name: str, **changed: Any) -> Box:
    """The box of a record, or one that differs from it in ``changed``."""
    return box(**{**DECLARED[name], **changed})


def versions() -> list[str]:
    """Versions of the API that there are records of."""
    return sorted(path.stem.removeprefix("api-") for path in DIRECTORY.glob("api-*.json"))


def container(version: str, name: str) -> dict[str, Any]:
    """The answer of ``inspect`` of an engine that speaks ``version``."""
    text = (DIRECTORY / f"api-{version}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)["containers"][name]
    # Options that came since then, at their defaults, are part of today's digest.
    found["Config"]["Labels"][LABEL_SPEC] = digest(declared(name).spec.canonical(), CONTEXT)
    return found
