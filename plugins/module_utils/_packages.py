"""Debian packages: which are installed, install and remove them with progress.

Plan (``missing``, ``present``) apart from apply (``install``, ``remove``). Nothing here prompts, and every wait for
another package manager ends.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

from ._errors import AgentboxError
from ._programs import plain_environment
from ._progress import Report

INSTALLED = "installed"
CONFIG_FILES = "config-files"
ERROR_LINES = 15
_REPORT_EVERY = 1.0  # seconds between two lines of progress
_RETRY_EVERY = 3.0  # seconds between two attempts to lock the package lists
_LISTS_LOCKED = "Could not get lock"
_STATUS_FIELDS = 4  # kind:what:percent:text


class PackageError(AgentboxError):
    """The package manager failed; the message ends with its last lines."""


def states(names: Sequence[str]) -> dict[str, str]:
    """dpkg's status of each known package of ``names``, e.g. ``installed`` or ``config-files``."""
    if not names:
        return {}
    command = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", "--", *names]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    except FileNotFoundError as error:
        raise PackageError("this host has no dpkg", "Agentbox installs packages on Debian only") from error
    return parse_states(answer.stdout)


def parse_states(listing: str) -> dict[str, str]:
    """``name status`` lines; of a package with several architectures the installed one counts."""
    found: dict[str, str] = {}
    for line in listing.splitlines():
        name, _, status = line.partition(" ")
        if found.get(name) != INSTALLED:
            found[name] = status
    return found


def missing(names: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """What has to be installed, in the given order."""
    return [name for name in names if known.get(name) != INSTALLED]


def present(names: Iterable[str], known: Mapping[str, str], purge: bool) -> list[str]:
    """What has to be removed; ``purge`` also means packages of which only configuration is left."""
    unwanted = {INSTALLED, CONFIG_FILES} if purge else {INSTALLED}
    return [name for name in names if known.get(name) in unwanted]


def install(names: Sequence[str], lock_timeout: int, report: Report) -> None:
    """Read the package lists anew and install ``names`` without recommended packages."""
    report("read the package lists")
    _update(lock_timeout)
    report(f"install {' '.join(names)}")
    _apt_get(["install", "--yes", "--no-install-recommends", "--", *names], lock_timeout, report)


def remove(names: Sequence[str], purge: bool, lock_timeout: int, report: Report) -> None:
    """Remove ``names``; ``purge`` also removes their configuration and what their maintainers call data."""
    report(f"remove {' '.join(names)}")
    _apt_get(["purge" if purge else "remove", "--yes", "--", *names], lock_timeout, report)


def _update(lock_timeout: int) -> None:
    """``apt-get update``; apt itself does not wait for the lock of the package lists, so this does."""
    command = ["apt-get", "--quiet", "update"]
    deadline = time.monotonic() + lock_timeout
    while True:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=_environment(),
        )
        if answer.returncode == 0:
            return
        if _LISTS_LOCKED not in answer.stderr or time.monotonic() > deadline:
            raise PackageError(f"apt-get update failed:\n{last_lines(answer.stdout + answer.stderr)}")
        time.sleep(_RETRY_EVERY)


def _apt_get(arguments: Sequence[str], lock_timeout: int, report: Report) -> None:
    status_read, status_write = os.pipe()
    command = [
        "apt-get",
        "--quiet",
        f"--option=DPkg::Lock::Timeout={lock_timeout}",
        "--option=Dpkg::Options::=--force-confdef",
        "--option=Dpkg::Options::=--force-confold",
        f"--option=APT::Status-Fd={status_write}",
        *arguments,
    ]
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[status_write],
            env=_environment(),
        ) as process:
            os.close(status_write)
            with os.fdopen(status_read, encoding="utf-8", errors="replace") as status:
                _follow(status, report)
        if process.returncode != 0:
            output.seek(0)
            text = output.read().decode(errors="replace")
            raise PackageError(f"apt-get {' '.join(arguments)} failed:\n{last_lines(text)}")


def _follow(status: IO[str], report: Report) -> None:
    """Report apt's status lines, not more often than anyone reads."""
    reported = 0.0
    for line in status:
        text = progress_text(line)
        if text and time.monotonic() - reported >= _REPORT_EVERY:
            report(text)
            reported = time.monotonic()


def progress_text(line: str) -> str | None:
    """Text for a line of apt's status descriptor, e.g. ``pmstatus:tmux:40.0:Unpacking tmux (amd64)``."""
    fields = line.rstrip("\n").split(":", _STATUS_FIELDS - 1)
    if len(fields) != _STATUS_FIELDS or fields[0] not in ("dlstatus", "pmstatus"):
        return None
    try:
        percent = float(fields[2])
    except ValueError:
        return None
    return f"{fields[3]} ({percent:.0f} %)"


def last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-ERROR_LINES:])


def _environment() -> dict[str, str]:
    """The environment in which no maintainer script asks anything and messages are English."""
    return plain_environment() | {
        "DEBIAN_FRONTEND": "noninteractive",
        "DEBIAN_PRIORITY": "critical",
        "APT_LISTCHANGES_FRONTEND": "none",
        "NEEDRESTART_MODE": "l",
    }
