"""Become root through sudo when this user can't use the engine; never for a user who can."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from agentbox._shared._errors import AgentboxError

from . import options

# What a proxy or a private certificate authority is known by; without them a build behind one fails as root.
CARRIED = (
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("GIT_SSL_CAINFO", "DOCKER_HOST", "XDG_CONFIG_HOME", "TERM", "COLORTERM", "COLUMNS", "LINES"),
)

_REASON = "this needs root, because this user may not use the engine"


def carried(environ: Mapping[str, str], secrets: Iterable[str]) -> list[str]:
    """Names of the variables that root needs: the options', the network's, and those that hold declared secrets."""
    wanted = {*CARRIED, *secrets, *(variable for option in options.TABLE for variable in option.variables)}
    return sorted(wanted & environ.keys())


def become_root(argv: Sequence[str], secrets: Iterable[str], terminal: bool) -> NoReturn:
    """Run the same command again through sudo. Raises ``AgentboxError`` when sudo would ask and nobody can answer."""
    sudo = shutil.which("sudo")
    if not sudo:
        raise AgentboxError(f"{_REASON}, and there is no sudo", "Run as root")
    quiet = subprocess.run([sudo, "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if quiet.returncode != 0 and not terminal:
        raise AgentboxError(
            f"{_REASON}, and sudo asks for a password without a terminal",
            "Run it on a terminal, run it as root, or allow this user to use the engine",
        )
    # Names only: values in an argument vector can be read by every user of the machine.
    kept = f"--preserve-env={','.join(carried(os.environ, secrets))}"
    without_question = ["-n"] if quiet.returncode == 0 else []
    command = [sudo, *without_question, kept, "--", sys.executable, "-m", "agentbox.cli", *argv]
    os.execv(sudo, command)  # noqa: S606 - our own arguments, no shell wanted
