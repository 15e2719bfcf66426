"""What the command line declares: one box, and the variables the playbooks read. Pure."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from . import options
from .exits import UsageError
from .options import Setting, Settings
from .user import User

NO_AGENT = "none"


def box(settings: Settings, workspace: Path | None, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The declaration of one box. What nobody set and the box has a default of its own for is left out."""
    agent = settings[options.AGENT]
    declared = {
        "name": settings[options.NAME],
        "state": "started",
        "lead": agent,
        "agents": [] if agent == NO_AGENT else [agent],
        "memory": settings[options.MEMORY],
        "cpus": settings[options.CPUS],
        "gpus": settings[options.GPUS],
        "yolo": settings[options.YOLO],
        "workspace": str(workspace) if workspace else None,
        "publish": settings[options.PORT],
        "secrets": dict(secrets) or None,
    }
    return {key: value for key, value in declared.items() if value is not None}


def check_agent(agent: Setting, known: Collection[str]) -> None:
    """Raise ``UsageError`` for an agent that has no manifest; without an agent none is needed."""
    if agent.value != NO_AGENT and agent.value not in known:
        raise UsageError(
            f"{agent.source}: unknown agent {agent.value}, known: {', '.join(sorted(known))}",
            f"Choose a known one, or {NO_AGENT} for a box without an agent",
        )


def common(settings: Settings, user: User, engine_host: str | None) -> dict[str, Any]:
    """Variables of every playbook that runs on this machine for this user."""
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "agentbox_become": False,
        "agentbox_instance": settings[options.INSTANCE],
        "agentbox_state_root": str(user.state_root),
        "agentbox_identity_home": str(user.home),
    }
    return {**variables, "agentbox_docker_host": engine_host} if engine_host else variables


def image(settings: Settings, box_declaration: Mapping[str, Any]) -> dict[str, Any]:
    """Variables of the image's build."""
    variables = {
        "agentbox_agents": box_declaration["agents"],
        "agentbox_image_no_cache": settings[options.NO_CACHE],
        "agentbox_image_build_network": settings[options.BUILD_NETWORK],
    }
    return {key: value for key, value in variables.items() if value is not None}
