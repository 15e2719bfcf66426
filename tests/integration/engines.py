"""The engine of the machine, and throwaway ones that tests may stop, deny, stall and fill.

A second engine runs in a network and mount namespace of its own: beside a running one it would share, and damage,
its bridge.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import docker
import docker.errors

from agentbox._shared import _naming
from tests import cleanup

IMAGE = "agentbox-test-standin:latest"
IMAGE_CLAUDE = "agentbox-test-claude:latest"
START_TIMEOUT = 30.0  # seconds for a second engine to answer
STOP_TIMEOUT = 20.0
_DAEMON_PLACES = ("/usr/sbin", "/usr/bin", "/usr/local/bin", "/usr/local/sbin")


def client(host: str | None = None) -> docker.APIClient:
    """A low-level client for the engine at ``host``, by default the machine's."""
    return docker.APIClient(base_url=host or "unix:///var/run/docker.sock", version="auto", timeout=60)


def new_instance_name() -> str:
    """A name that no other run uses; short, because paths of Unix sockets contain it."""
    return f"abx{secrets.token_hex(4)}"


def remove_instance(engine: docker.APIClient, instance: str) -> None:
    """Remove every container, volume and network that carries the label of ``instance``."""
    wanted = {"label": f"{_naming.LABEL_INSTANCE}={instance}"}
    for container in engine.containers(all=True, filters=wanted):
        with _gone_is_fine():
            engine.remove_container(container["Id"], v=True, force=True)
    for volume in engine.volumes(filters=wanted)["Volumes"] or []:
        with _gone_is_fine():
            engine.remove_volume(volume["Name"], force=True)
    for network in engine.networks(filters=wanted):
        cleanup.remove_network(engine, network["Id"])


def remove_images(engine: docker.APIClient, instance: str) -> None:
    """Remove every image that carries the label of ``instance``, tagged or not."""
    for image in engine.images(filters={"label": f"{_naming.LABEL_INSTANCE}={instance}"}):
        with _gone_is_fine():  # went with another
            engine.remove_image(image["Id"], force=True)


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except docker.errors.NotFound:
        return


@contextmanager
def short_directory() -> Iterator[Path]:
    """A directory that everyone may enter, with a path short enough for Unix sockets below it; removed afterwards."""
    path = Path(mkdtemp(prefix="abx-", dir="/tmp"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@contextmanager
def mounted(kind: str, target: Path, *, options: str = "") -> Iterator[Path]:
    """``target`` as an own small file system of type ``kind``, e.g. tmpfs."""
    target.mkdir(exist_ok=True)
    extra = ["-o", options] if options else []
    subprocess.run(["mount", "-t", kind, *extra, "abx-test", str(target)], check=True)
    try:
        yield target
    finally:
        subprocess.run(["umount", "--lazy", str(target)], check=True)


def fill(directory: Path) -> Path:
    """Use up the space below ``directory``; returns the file that holds it."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return filler


def files_below(*roots: Path) -> dict[str, tuple[str, int, int, int, str]]:
    """What stands below ``roots``: path -> (kind, mode, uid, gid, content or link target)."""
    found = {}
    for root in roots:
        for path in sorted([root, *root.rglob("*")]):
            status = path.lstat()
            if path.is_symlink():
                content = str(path.readlink())
            elif path.is_file():
                content = path.read_text(encoding="utf-8", errors="surrogateescape")
            else:
                content = ""
            kind = oct(status.st_mode >> 12)
            found[str(path)] = (kind, status.st_mode & 0o7777, status.st_uid, status.st_gid, content)
    return found


def belongings(engine: docker.APIClient, instance: str) -> dict[str, Any]:
    """What ``instance`` has in the engine, in a form that differs whenever something was touched."""
    wanted = {"label": f"{_naming.LABEL_INSTANCE}={instance}"}
    containers = {}
    for found in engine.containers(all=True, filters=wanted):
        inspected = engine.inspect_container(found["Id"])
        keys = ("Id", "Name", "RestartCount")
        state = {key: inspected["State"][key] for key in ("Status", "StartedAt", "Pid")}
        containers[inspected["Name"]] = {**{key: inspected[key] for key in keys}, **state}
    return {
        "containers": containers,
        "volumes": sorted(volume["Name"] for volume in engine.volumes(filters=wanted)["Volumes"] or []),
        "networks": sorted(network["Id"] for network in engine.networks(filters=wanted)),
    }


def look(engine: docker.APIClient, container: str) -> dict[str, Any]:
    """All that ``inspect`` tells of a container; equal for two looks between which nobody touched it.

    Programs that were run in it and its health come and go by themselves, and its mounts are told in any order.
    """
    found = engine.inspect_container(container)
    state = {key: value for key, value in found["State"].items() if key != "Health"}
    mounts = sorted(found["Mounts"], key=lambda mount: str(mount["Destination"]))
    return {**found, "State": state, "Mounts": mounts, "ExecIDs": None}


class SecondEngine:
    """A real dockerd of the test's own, without any network, below ``directory``.

    ``runtimes`` are those it has besides runc: programs by name.
    """

    def __init__(self, directory: Path, runtimes: Mapping[str, Path] | None = None) -> None:
        self.directory = directory
        self._runtimes = [f"--add-runtime={name}={path}" for name, path in (runtimes or {}).items()]
        self.socket = directory / "docker.sock"
        self.host = f"unix://{self.socket}"
        self.data = directory / "data"
        self._runtime = directory / "exec"
        self._log = directory / "dockerd.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it answers."""
        self.data.mkdir(exist_ok=True)
        shutil.rmtree(self._runtime, ignore_errors=True)  # what a crashed one left makes containerd hang
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("unshare", "--net", "--mount", "--propagation", "private"),
                    "dockerd",
                    *("--data-root", str(self.data), "--exec-root", str(self._runtime)),
                    *("--host", self.host, "--pidfile", str(self.directory / "pid")),
                    *("--bridge=none", "--iptables=false", "--ip-forward=false"),
                    *self._runtimes,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the second engine did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it in order; it removes its socket."""
        self._end(signal.SIGTERM)

    def crash(self) -> None:
        """End it as a crash would; its socket stays behind and nothing listens on it."""
        self._end(signal.SIGKILL)

    def power_cut(self) -> None:
        """End it and all that runs in its containers at once, as a power cut does."""
        engine = self.client()
        first = [engine.inspect_container(found["Id"])["State"]["Pid"] for found in engine.containers()]
        shims = [_parent(pid) for pid in first]
        self.crash()
        for pid in (*shims, *first):  # the shims first, so that none of them tidies up
            os.kill(pid, signal.SIGKILL)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Inside, the engine accepts connections and answers none."""
        self._running().send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running().send_signal(signal.SIGCONT)

    def client(self) -> docker.APIClient:
        return client(self.host)

    def load(self, image: str) -> None:
        """Give it an image of the machine's engine."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
            subprocess.run(["docker", "--host", self.host, "load"], stdin=saved.stdout, check=True)

    def _answers(self) -> bool:
        if not self.socket.exists():
            return False
        try:
            engine = self.client()
            engine.close()
        except docker.errors.DockerException:
            return False
        return True

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise AssertionError("the second engine is not running")
        return self._process

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(how)
        self._process.wait(STOP_TIMEOUT)  # its containerd dies with it
        self._process = None


def _parent(pid: int) -> int:
    """The parent of a process of this host."""
    return int(Path("/proc", str(pid), "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


@contextmanager
def second_engine(directory: Path, runtimes: Mapping[str, Path] | None = None) -> Iterator[SecondEngine]:
    """A running second engine; ended afterwards."""
    engine = SecondEngine(directory, runtimes)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


def without_engine(scratch: Path) -> list[str]:
    """A command prefix that runs a program where no engine is installed: no dockerd, no socket.

    The program gets a mount namespace in which a whiteout hides every dockerd and ``/run`` is empty.
    """
    whiteout = scratch / "whiteout"
    whiteout.mkdir()
    os.mknod(whiteout / "dockerd", 0o600 | stat.S_IFCHR, os.makedev(0, 0))
    places = [place for place in _DAEMON_PLACES if Path(place, "dockerd").exists()]
    mounts = [f"mount -t overlay abx-test -o lowerdir={whiteout}:{place} {place}" for place in places]
    script = " && ".join([*mounts, "mount -t tmpfs abx-test /run", 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "bash", "-c", script, "bash"]


def pause(engine: docker.APIClient, container: str) -> None:
    """Pause a container. The kernel may fail to freeze processes that are being started, so it gets some attempts."""
    for _ in range(10):
        with contextlib.suppress(docker.errors.APIError):
            engine.pause(container)
            return
        time.sleep(1)
    engine.pause(container)
