"""A throwaway container that is a fresh machine: real systemd, no engine, room to install one."""

from __future__ import annotations

import itertools
import os
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import hosts
from tests.e2e.support import REPOSITORY

IMAGE = "agentbox-test-workstation:debian-12"
DOCKERFILE = Path(__file__).with_name("workstation.Dockerfile")
SOURCE = "/srv/agentbox.git"
CA_VARIABLES = (
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
)
COMMAND_TIMEOUT = 900  # seconds; minutes on a machine that does nothing else


@dataclass(frozen=True)
class Transcript:
    """What a command printed and when."""

    returncode: int
    lines: list[tuple[float, str]]  # seconds since the start, the line
    seconds: float

    @property
    def output(self) -> str:
        """The lines as a user reads them, each with its time."""
        return "\n".join(f"{seconds:6.1f}  {line}" for seconds, line in self.lines)

    @property
    def longest_silence(self) -> float:
        """The longest time in seconds that a user saw nothing new."""
        moments = [0.0, *(seconds for seconds, _ in self.lines), self.seconds]
        return max(later - earlier for earlier, later in itertools.pairwise(moments))


@dataclass(frozen=True)
class Workstation:
    """The running machine."""

    container: str

    def run(self, user: str, command: str, environment: Mapping[str, str] | None = None) -> Transcript:
        """Run a shell command as ``user`` in their home, without a terminal and with closed stdin."""
        variables = [f"--env={name}={value}" for name, value in (environment or {}).items()]
        home = "/root" if user == "root" else f"/home/{user}"
        limited = ["timeout", str(COMMAND_TIMEOUT), "sh", "-c", command]
        start = time.monotonic()
        with subprocess.Popen(
            ["docker", "exec", f"--user={user}", f"--workdir={home}", *variables, self.container, *limited],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            lines = [(time.monotonic() - start, line.rstrip()) for line in process.stdout]
        return Transcript(process.returncode, lines, time.monotonic() - start)

    def make_user(self, name: str) -> None:
        """An ordinary user without any right to become root."""
        hosts.docker("exec", self.container, "useradd", "--create-home", "--shell=/bin/bash", name)

    def allow_sudo(self, name: str) -> None:
        """Let ``name`` become root without a password."""
        self.run("root", f"echo '{name} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{name}")

    def clone_repository(self, user: str) -> None:
        """A clone of this repository's committed HEAD in the home of ``user``."""
        done = self.run(user, f"git clone --quiet {SOURCE} agentbox")
        assert done.returncode == 0, done.output


@contextmanager
def fresh_machine() -> Iterator[Workstation]:
    """A machine nobody touched yet, with this repository's HEAD to clone from; removed afterwards."""
    name = f"abx{secrets.token_hex(4)}-workstation"
    trusted = [f"--env={variable}={hosts.SYSTEM_BUNDLE}" for variable in CA_VARIABLES if variable in os.environ]
    _build_image()
    hosts.docker("run", "--detach", f"--name={name}", f"--label={hosts.LABEL}", *hosts.MACHINE_OPTIONS, *trusted, IMAGE)
    try:
        _offer_repository(name)
        hosts.wait_for_systemd(name)
        yield Workstation(name)
    finally:
        hosts.remove(name)


def _build_image() -> None:
    base = hosts.build_image("debian-12")
    with TemporaryDirectory() as empty:
        options = [f"--tag={IMAGE}", f"--build-arg=BASE={base}", f"--file={DOCKERFILE}"]
        hosts.docker("build", "--quiet", *options, empty)


def _offer_repository(name: str) -> None:
    with TemporaryDirectory() as directory:
        bare = Path(directory, "agentbox.git")
        clone = ["git", "clone", "--quiet", "--bare", "--depth=1", f"file://{REPOSITORY}", str(bare)]
        subprocess.run(clone, check=True)
        hosts.docker("cp", str(bare), f"{name}:{SOURCE}")
    # Every user of the machine may clone what root put there.
    hosts.docker("exec", name, "git", "config", "--system", "safe.directory", SOURCE)
