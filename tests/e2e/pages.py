"""Pages of the documentation as scripts: every command that a reader would type, in its order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.e2e.support import REPOSITORY

_BLOCK = re.compile(r"(?:In `(?P<path>[^`\n]+)`:\n\n)?```(?P<language>\w+)\n(?P<content>.*?)```", re.DOTALL)
_PROMPT = "# "
# The tests' machine has its clone already, and stands for the one that a file is taken to. There is nothing at the
# addresses that the pages name.
_BETWEEN_MACHINES = ("git clone ", "scp ")


def script(page: str) -> str:
    """A shell script of ``docs/<page>``: files are written where the text says, then commands run, until one fails."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    return "\n".join(["set -e", *steps(text)])


def steps(text: str) -> Iterator[str]:
    """Shell lines of the blocks that a reader copies: a file announced by its path, or commands behind a prompt."""
    for block in _BLOCK.finditer(text):
        if block["path"]:
            yield _written(block["path"], block["content"])
        elif block["language"] == "console":
            yield from _commands(block["content"])


def _written(path: str, content: str) -> str:
    directory = shlex.quote(str(PurePosixPath(path).parent))
    return f"mkdir -p {directory}; printf %s {shlex.quote(content)} > {shlex.quote(path)}"


def _commands(content: str) -> Iterator[str]:
    for line in content.splitlines():
        command = line.removeprefix(_PROMPT)
        if command != line and not command.startswith(_BETWEEN_MACHINES):
            yield f"echo {shlex.quote(line)}"
            yield command
