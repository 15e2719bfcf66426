"""Converging boxes in this process: what module ``box`` does, without the second that an ansible-playbook takes.

The boxes are bench-like: no lead and no box Observer. Their entry script answers the health check and nothing else.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

from agentbox._shared import _boxes, _engine, _gather, _host
from agentbox._shared._box import Setting
from agentbox._shared._boxes import Outcome, Request
from tests.integration import engines, runs, sites
from tests.integration.sites import Site

ENTRY = """#!/bin/bash
mkdir -p /tmp/page && cd /tmp/page && echo ok > healthz && exec python3 -m http.server 4317
"""
HOOKS = {
    "mechanism": "claude-managed-settings",
    "mount": "/etc/standin",
    "file": "managed-settings.d/50-agentbox.json",
    "timeout": 3,
    "http": ["Stop"],
    "command": [],
}


@functools.cache
def files() -> dict[str, str]:
    strict = (runs.REPOSITORY / "templates/box/seccomp-strict.json").read_text(encoding="utf-8")
    return {**sites.files(), "entry.sh": ENTRY, "seccomp-strict.json": strict}


@functools.cache
def manifests() -> dict[str, Any]:
    """The stand-in, with hook settings as an agent has them."""
    return {"standin": {**sites.manifests()["standin"], "hooks": HOOKS}}


def box(site: Site, name: str, **declared: Any) -> dict[str, Any]:
    """A declaration that the stand-in's image fulfils; nothing but what a declaration needs is in it."""
    basis = {"workspace": str(site.workspace(name)), "image": engines.IMAGE, "lead": "none", "agents": ["standin"]}
    return {"name": name, **basis, **declared}


def converge(site: Site, boxes: Sequence[dict[str, Any]], *, check: bool = False, **options: Any) -> Outcome:
    """What a run did, or with ``check`` would do. ``options`` are more of ``Request``."""
    engine = _engine.connect()
    try:
        person = _host.person(str(site.directory))
        setting = Setting(
            instance=site.instance,
            state_dir=str(site.state),
            person=person,
            engine=_gather.engine_facts(engine),
            manifests=manifests(),
            files=files(),
            proxy={},
            identity=_host.identity(person.home, git=True, gh=True),
            timezone=_host.timezone(),
            protected=(os.path.realpath(site.state_root),),
        )
        given = {"secrets": {}, **options}
        return _boxes.converge(
            Request(setting=setting, boxes=list(boxes), engine=engine, report=lambda _: None, check=check, **given)
        )
    finally:
        engine.close()
