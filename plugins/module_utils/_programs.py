"""Programs of the host: the environment they run in, and short calls of them."""

from __future__ import annotations

import os
import subprocess

from ._errors import AgentboxError


def plain_environment() -> dict[str, str]:
    """This process's environment with English messages and the folders of system programs."""
    path = os.environ.get("PATH") or os.defpath
    return os.environ | {"LC_ALL": "C", "PATH": f"{path}:/usr/sbin:/usr/bin:/sbin:/bin"}


def call(*command: str) -> subprocess.CompletedProcess[str]:
    """What a program said and how it ended, whatever its status; ``AgentboxError`` if this host does not have it."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=plain_environment(),
        )
    except FileNotFoundError as error:
        raise AgentboxError(f"this host has no {command[0]}") from error
