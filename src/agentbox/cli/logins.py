"""Which agents of a running box have no login, and how to log them in."""

from __future__ import annotations

from agentbox._shared._engine import Engine
from agentbox._shared._health_ask import box_credentials
from agentbox._shared._health_facts import Hidden

from . import collection
from .progress import printable
from .seen import SeenBox


def missing(engine: Engine, box: SeenBox) -> list[str]:
    """The log-in commands of the agents that have none; empty where the box does not tell."""
    logins = box_credentials(engine, box.container)
    without = [] if isinstance(logins, Hidden) else [agent for agent, found in logins.items() if not found.present]
    manifests = collection.manifests() if without else {}
    return [_command(manifests.get(agent), agent) for agent in without]


def _command(manifest: collection.Manifest | None, agent: str) -> str:
    """What the manifest says; an agent of the user's own manifests is named by its name alone."""
    known = ((manifest or {}).get("credentials") or {}).get("login")
    return str(known) if known else f"{printable(agent)}'s own log-in"
