"""Which agents of a running box have no login, and how to log them in."""

from __future__ import annotations

from agentbox._shared import _health_gather
from agentbox._shared._engine import Engine
from agentbox._shared._health_facts import Hidden

from . import collection
from .progress import printable
from .seen import SeenBox


def missing(engine: Engine, box: SeenBox) -> list[str]:
    """The log-in commands of the agents that have none; empty where the box does not tell."""
    report = _health_gather.probe_box(engine, box.container)
    if isinstance(report, Hidden) or isinstance(report.credentials, Hidden):
        return []
    manifests = collection.manifests()
    without = [agent for agent, found in report.credentials.items() if not found.present]
    return [_command(manifests.get(agent), agent) for agent in without]


def _command(manifest: collection.Manifest | None, agent: str) -> str:
    """What the manifest says; an agent of the user's own manifests is named by its name alone."""
    known = ((manifest or {}).get("credentials") or {}).get("login")
    return str(known) if known else f"{printable(agent)}'s own log-in"
