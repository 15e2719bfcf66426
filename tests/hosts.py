"""Throwaway hosts: containers with room for an engine of their own, reached by SSH like any server.

``python -m tests.hosts create|destroy`` makes and removes the one that Molecule's scenarios share, and writes its
inventory; ``load IMAGE`` and ``load-base`` give its engine an image of this machine's, because there is no registry.
AGENTBOX_TEST_PLATFORM chooses the distribution, ``debian-12`` without it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from agentbox._shared import _base, _engine, _sources

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "molecule" / "shared" / "host.Dockerfile"
STATE = ROOT / ".cache" / "molecule"
INVENTORY = STATE / "inventory.yml"
SYSTEM_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
LABEL = "agentbox.test=host"
SUITES = {"debian-12": "bookworm", "debian-13": "trixie"}
START_TIMEOUT = 60.0  # seconds
# What systemd and an engine need in a container; --privileged asks for more than some machines have.
MACHINE_OPTIONS = (
    *("--cgroupns=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup:rw", "--volume=/var/lib/docker"),
    *("--tmpfs=/run", "--tmpfs=/run/lock", "--tmpfs=/tmp:exec"),
    *("--cap-add=SYS_ADMIN", "--cap-add=NET_ADMIN", "--cap-add=SYS_PTRACE", "--cap-add=MKNOD"),
    *("--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"),
    "--device-cgroup-rule=a *:* rwm",
)


def create() -> None:
    """Make Molecule's host and write the inventory that leads to it."""
    platform = os.environ.get("AGENTBOX_TEST_PLATFORM", "debian-12")
    STATE.mkdir(parents=True, exist_ok=True)
    name = start(platform)
    known = {"test_host": name, "test_platform": platform}
    # Already now, so that destroy finds a host that never comes up.
    write_inventory(known)
    wait_for_systemd(name)
    write_inventory(known | connection(name, STATE))


def destroy() -> None:
    """Remove the host that the inventory names; no host, nothing to do."""
    if INVENTORY.exists():
        remove(shared_host())
        shutil.rmtree(STATE)


def load(image: str) -> None:
    """Copy an image of this machine's engine into that of Molecule's host; prints ``Loaded image: TAG``."""
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
        subprocess.run(
            ["docker", "exec", "-i", shared_host(), "docker", "load", "--quiet"], stdin=saved.stdout, check=True
        )
    if saved.returncode != 0:
        raise SystemExit(f"docker save {image} failed")


def load_base() -> None:
    """Copy a Debian into the engine of Molecule's host."""
    load(base_image("debian-12"))


def shared_host() -> str:
    """The container's name of Molecule's host."""
    inventory = yaml.safe_load(INVENTORY.read_text(encoding="utf-8"))
    name: str = inventory["all"]["hosts"]["instance"]["test_host"]
    return name


@contextmanager
def host_without_systemd(platform: str = "debian-12") -> Iterator[dict[str, Any]]:
    """A host whose first process only waits; yields the variables that let Ansible in."""
    name = start(platform, "--init", command=("sleep", "infinity"))
    try:
        docker("exec", name, "sh", "-c", "mkdir -p /run/sshd && /usr/sbin/sshd")
        with TemporaryDirectory(prefix="abx-key-") as directory:
            yield {"test_host": name, **connection(name, Path(directory))}
    finally:
        remove(name)


def start(platform: str, *options: str, command: tuple[str, ...] = (), image: str | None = None) -> str:
    """Start a host of ``platform``, or of an ``image`` made from one; returns its container's name, which is random."""
    name = f"abx{secrets.token_hex(4)}-host"
    machine = image or build_image(platform)
    docker("run", "--detach", f"--name={name}", f"--label={LABEL}", *MACHINE_OPTIONS, *options, machine, *command)
    return name


def remove(name: str) -> None:
    docker("rm", "--force", "--volumes", name)


def build_image(platform: str) -> str:
    """The host's image; the engine's layer cache makes this cheap the second time."""
    tag = f"agentbox-test-host:{platform}"
    base = f"--build-arg=BASE={base_image(platform)}"
    with TemporaryDirectory() as context:
        shutil.copy(os.environ.get("SSL_CERT_FILE", SYSTEM_BUNDLE), Path(context, "ca-certificates.crt"))
        docker("build", "--quiet", f"--tag={tag}", base, f"--file={DOCKERFILE}", context)
    return tag


def base_image(platform: str) -> str:
    """A Debian that the engine has, or that a registry or this machine's APT sources give it; returns its tag."""
    suite = SUITES[platform]
    wanted = f"debian:{suite}-slim"
    engine = _engine.connect()
    present = {tag for tag in (wanted, _base.debootstrapped(suite)) if engine.inspect_image(tag)}
    ways = sorted(_base.ways(wanted, "auto", None, present), key=lambda way: way.reference not in present)
    sources = _sources.read(suite, os.environ).debian
    base, _ = _base.obtain(engine, ways, sources, os.environ, lambda line: None)
    engine.close()
    return base.reference


def wait_for_systemd(name: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        state = docker("exec", name, "systemctl", "is-system-running", check=False).strip()
        if state == "running":
            return
        if time.monotonic() > deadline:
            failed = docker("exec", name, "systemctl", "--failed", "--no-legend", check=False)
            raise SystemExit(f"systemd of {name} is {state or 'not there'} after {START_TIMEOUT:.0f} s\n{failed}")
        time.sleep(0.2)


def connection(name: str, directory: Path) -> dict[str, Any]:
    """Let Ansible into a host with a new key pair in ``directory``; returns the variables for it."""
    key = directory / "key"
    key.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    public = key.with_suffix(".pub").read_text(encoding="ascii")
    install = "install -d -m 0700 /root/.ssh && cat > /root/.ssh/authorized_keys"
    subprocess.run(["docker", "exec", "-i", name, "sh", "-c", install], input=public, text=True, check=True)
    return {
        "ansible_connection": "ssh",
        "ansible_host": docker("inspect", "--format={{.NetworkSettings.IPAddress}}", name).strip(),
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_private_key_file": str(key),
        # Addresses are used again by the next host; a connection kept open for this one must not be.
        "ansible_control_path": f"%(directory)s/{name}",
        "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
    }


def write_inventory(variables: dict[str, Any]) -> None:
    INVENTORY.write_text(yaml.safe_dump({"all": {"hosts": {"instance": variables}}}), encoding="utf-8")


def docker(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise SystemExit(f"docker {arguments[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


COMMANDS = {"create": create, "destroy": destroy, "load": load, "load-base": load_base}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
