#!/usr/bin/env python3
"""Make the project's virtual environment: ``tools/bootstrap.py user|dev``.

Runs with nothing but a Python 3.11 or newer of the system. Installs python3-venv where Debian left it out (as root
or through sudo), creates .venv, installs the packages pinned with hashes in requirements/, then the project itself,
editable. Does nothing when the environment is what the requirements say. Prints a line at least every few seconds.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
MINIMUM = (3, 11)
REQUIREMENTS = {"user": ["build.txt", "agentbox.txt"], "dev": ["build.txt", "dev.txt"]}
HEARTBEAT = 5.0  # seconds between two lines of progress


class BootstrapError(Exception):
    """Something the user has to change; the text says what."""


def main(argv: list[str]) -> int:
    if len(argv) != 1 or argv[0] not in REQUIREMENTS:
        say("usage: tools/bootstrap.py user|dev")
        return 2
    try:
        bootstrap(argv[0])
    except BootstrapError as error:
        say(f"error: {error}")
        return 1
    return 0


def bootstrap(kind: str) -> None:
    """Bring .venv to the state that ``kind`` needs. ``dev`` holds everything of ``user``."""
    if sys.version_info < MINIMUM:
        raise BootstrapError(
            f"{sys.executable} is Python {sys.version.split()[0]}; Agentbox needs 3.11 or newer. "
            "Install one and call: make PYTHON=python3.12 ..."
        )
    wanted = fingerprint(kind)
    if recorded("dev") == fingerprint("dev") or recorded(kind) == wanted:
        return
    ensure_venv_module()
    if not usable(VENV / "bin" / "python"):
        run("create the virtual environment", [sys.executable, "-m", "venv", "--clear", str(VENV)])
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    for name in REQUIREMENTS[kind]:
        run(
            f"install {name.removesuffix('.txt')} packages",
            [*pip, "--require-hashes", "-r", str(ROOT / "requirements" / name)],
        )
    run("install agentbox", [*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])
    stamp(kind).write_text(wanted)


def fingerprint(kind: str) -> str:
    """Digest of everything that decides what the environment holds."""
    digest = hashlib.sha256(f"{ROOT}\n{sys.version}\n".encode())
    for path in [ROOT / "pyproject.toml", *(ROOT / "requirements" / name for name in REQUIREMENTS[kind])]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stamp(kind: str) -> Path:
    return VENV / f"agentbox-{kind}.stamp"


def recorded(kind: str) -> str | None:
    try:
        return stamp(kind).read_text() if usable(VENV / "bin" / "python") else None
    except OSError:
        return None


def usable(program: Path) -> bool:
    """Whether the environment's interpreter starts; a moved clone or a removed Python leaves a broken one."""
    try:
        return subprocess.run([program, "-c", "pass"], capture_output=True, check=False, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def ensure_venv_module() -> None:
    """Debian splits venv and ensurepip off into python3-venv."""
    probe = [sys.executable, "-c", "import ensurepip, venv"]
    if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        return
    if not shutil.which("apt-get"):
        raise BootstrapError(f"{sys.executable} cannot make virtual environments; install its venv package")
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    prefix = root_prefix(f"install {package}")
    environment = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive"]
    apt = [*environment, "apt-get", "-o", "DPkg::Lock::Timeout=120", "-qq"]
    run("read the package lists", [*apt, "update"])
    run(f"install {package}", [*apt, "install", "--yes", "--no-install-recommends", package])


def root_prefix(what: str) -> list[str]:
    """How to become root for ``what``: not at all, or through sudo, which may ask only on a terminal."""
    if os.geteuid() == 0:
        return []
    if not shutil.which("sudo"):
        raise BootstrapError(f"cannot {what}: not root, and there is no sudo. Run `make` as root")
    if sys.stdin.isatty():
        return ["sudo"]
    if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode != 0:
        raise BootstrapError(
            f"cannot {what}: sudo asks for a password and there is no terminal. "
            "Run `make` as root or allow passwordless sudo"
        )
    return ["sudo", "-n"]


def run(what: str, command: list[str]) -> None:
    """Run one command quietly; show its last line as progress, and its last lines when it fails."""
    start = time.monotonic()
    say(what)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=None if sys.stdin.isatty() else subprocess.DEVNULL
        )
        try:
            while True:
                try:
                    code = process.wait(timeout=HEARTBEAT)
                    break
                except subprocess.TimeoutExpired:
                    say(f"{what} ({time.monotonic() - start:.0f} s): {tail(log, 1)}")
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise BootstrapError(f"interrupted: {what}. Run the same command again, it goes on from there") from None
        if code != 0:
            raise BootstrapError(f"{what} failed ({command[0]} exited {code}):\n{tail(log, 15)}")


def tail(log: TextIO, lines: int) -> str:
    """The last lines of what was printed, without pip's remarks on the machine's own configuration."""
    log.flush()
    log.seek(0)
    useful = [line.rstrip() for line in log if line.strip() and not line.startswith("WARNING: Location")]
    text = "\n".join(useful[-lines:])
    return re.sub(r"//[^/@\s]+@", "//***@", text)  # an index address may hold a password


def say(line: str) -> None:
    sys.stderr.write(f"agentbox set-up: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
