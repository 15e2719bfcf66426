"""A throwaway container that is a fresh machine: real systemd, no engine, room to install one."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cleanup import TEST_LABEL
from tests.e2e.support import REPOSITORY, docker, wait_for

IMAGE = "agentbox-test-workstation"
DOCKERFILE = Path(__file__).with_name("workstation.Dockerfile")
SYSTEM_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
CA_VARIABLES = (
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
)
# What systemd and an engine need in a container; --privileged would ask for more than some machines have.
MACHINE_OPTIONS = (
    *("--cgroupns=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup:rw", "--volume=/var/lib/docker"),
    *("--tmpfs=/run", "--tmpfs=/run/lock", "--tmpfs=/tmp:exec"),
    *("--cap-add=SYS_ADMIN", "--cap-add=NET_ADMIN", "--cap-add=SYS_PTRACE", "--cap-add=MKNOD"),
    *("--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"),
    "--device-cgroup-rule=a *:* rwm",
)
COMMAND_TIMEOUT = 280  # seconds


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
        docker("exec", self.container, "useradd", "--create-home", "--shell=/bin/bash", name)

    def allow_sudo(self, name: str) -> None:
        """Let ``name`` become root without a password."""
        self.run("root", f"echo '{name} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{name}")

    def clone_repository(self, user: str) -> None:
        """A clone of this repository's committed HEAD in the home of ``user``."""
        done = self.run(user, "git clone --quiet /srv/agentbox.git agentbox")
        assert done.returncode == 0, done.output


@contextmanager
def fresh_machine() -> Iterator[Workstation]:
    """A machine nobody touched yet, with this repository's HEAD to clone from; removed afterwards."""
    container = f"abx{secrets.token_hex(4)}-workstation"
    trusted = [f"--env={name}={SYSTEM_BUNDLE}" for name in CA_VARIABLES if name in os.environ]
    _build_image()
    docker("run", "--detach", f"--name={container}", f"--label={TEST_LABEL}=e2e", *MACHINE_OPTIONS, *trusted, IMAGE)
    try:
        _offer_repository(container)
        wait_for("systemd that runs", lambda: _is_up(container))
        yield Workstation(container)
    finally:
        docker("rm", "--force", "--volumes", container)


def _build_image() -> None:
    """Layers come from the engine's cache; the classic builder is in every client."""
    with TemporaryDirectory() as context:
        bundle = os.environ.get("SSL_CERT_FILE", SYSTEM_BUNDLE)
        shutil.copy(bundle, Path(context, "ca-certificates.crt"))
        docker("build", "--quiet", f"--tag={IMAGE}", f"--label={TEST_LABEL}=e2e", f"--file={DOCKERFILE}", context)


def _offer_repository(container: str) -> None:
    with TemporaryDirectory() as directory:
        bare = Path(directory, "agentbox.git")
        clone = ["git", "clone", "--quiet", "--bare", "--depth=1", f"file://{REPOSITORY}", str(bare)]
        subprocess.run(clone, check=True)
        docker("cp", str(bare), f"{container}:/srv/agentbox.git")


def _is_up(container: str) -> bool:
    return docker("exec", container, "systemctl", "is-system-running", check=False).strip() == "running"
