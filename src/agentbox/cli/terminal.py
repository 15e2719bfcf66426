"""Hand the terminal over to a program in a box."""

from __future__ import annotations

import os
import re
import shutil
import sys
import termios
from collections.abc import Mapping
from typing import NoReturn

from agentbox._shared import _naming
from agentbox._shared._errors import AgentboxError

FALLBACK_TERM = "xterm-256color"
_TERM = re.compile(r"[A-Za-z0-9._+-]{1,64}")


def is_interactive() -> bool:
    """Whether somebody sits in front of this process who can see and type."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def forget_typed_keys() -> None:
    """Drop what was typed while nothing read it; an agent would take it as an answer to whatever it asks first."""
    termios.tcflush(sys.stdin, termios.TCIFLUSH)


def safe_term(term: str | None) -> str:
    """``term`` when it can be the name of a terminal, else one that every system knows."""
    return term if term and _TERM.fullmatch(term) else FALLBACK_TERM


def exec_command(environ: Mapping[str, str], columns: int, rows: int) -> list[str]:
    """``docker exec`` on this terminal, up to the container's name."""
    variables = {"TERM": safe_term(environ.get("TERM")), "COLUMNS": str(columns), "LINES": str(rows)}
    if environ.get("COLORTERM") in ("truecolor", "24bit"):
        variables["COLORTERM"] = environ["COLORTERM"]
    named = [part for name, value in variables.items() for part in ("--env", f"{name}={value}")]
    return ["docker", "exec", "--interactive", "--tty", *named]


def shell_hint(container: str) -> str:
    """What a person types for a shell in the box without Agentbox."""
    return f"docker exec -it {container} bash --login"


def plain_shell_hint(container: str) -> str:
    """What a person types for a shell in a container that may have no bash."""
    return f"docker exec -it {container} sh"


def attach(container: str, engine_host: str) -> NoReturn:
    """Become a viewer of the box's tmux session."""
    _hand_over([*_exec_here(), container, "bash", f"{_naming.BOX_MOUNT}/attach.sh"], engine_host)


def shell(container: str, engine_host: str) -> NoReturn:
    """Become a shell in the box's working directory, beside tmux."""
    _hand_over([*_exec_here(), container, "bash", "--login"], engine_host)


def plain_shell(container: str, engine_host: str) -> NoReturn:
    """Become a shell in any container."""
    _hand_over([*_exec_here(), container, "sh"], engine_host)


def logs(container: str, engine_host: str, follow: bool, tail: str) -> NoReturn:
    """Become the engine's client that prints the container's log."""
    _hand_over(["docker", "logs", *(["--follow"] if follow else []), "--tail", tail, container], engine_host)


def _exec_here() -> list[str]:
    size = shutil.get_terminal_size()
    return exec_command(os.environ, size.columns, size.lines)


def _hand_over(command: list[str], engine_host: str) -> NoReturn:
    program = shutil.which(command[0])
    if not program:
        raise AgentboxError(
            f"the engine's client {command[0]} is not installed", "Install the package docker-cli or docker.io"
        )
    sys.stdout.flush()
    sys.stderr.flush()
    # A context chosen in the client's own configuration could lead to another engine than the one we looked at.
    environment = {**os.environ, "DOCKER_HOST": engine_host}
    os.execve(program, command, environment)  # noqa: S606 - our own arguments, no shell wanted
