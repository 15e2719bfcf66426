"""What happens to boxes behind Agentbox's back, each done for real to a living box.

A fault says whether the living container can be put right; otherwise only a new one helps.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import docker

from agentbox._shared import _engine, _naming
from tests.integration import direct, engines
from tests.integration.sites import Site

SECRET = "TOKEN"  # noqa: S105 - the name of one
FOREIGN = "foreign"  # suffix of a network that no box declares


@dataclass(frozen=True)
class Target:
    """One box as it was converged."""

    engine: docker.APIClient
    site: Site
    name: str

    @property
    def container(self) -> str:
        return self.site.container(self.name)

    @property
    def id(self) -> str:
        return str(self.engine.inspect_container(self.container)["Id"])

    @property
    def paths(self) -> _naming.BoxPaths:
        return self.site.paths(self.name)

    @property
    def image(self) -> str:
        """An image of the box's own, for a box that is to see it rebuilt."""
        return f"{self.site.instance}-{self.name}:latest"

    @property
    def entry(self) -> Path:
        return Path(self.paths.mount, "entry.sh")

    @property
    def hooks(self) -> Path:
        return Path(self.paths.agent_settings("standin"), str(direct.HOOKS["file"]))

    @property
    def secret(self) -> Path:
        return Path(self.paths.secrets, SECRET)

    def cgroup(self, controller: str, v1: str, v2: str) -> Path:
        """A file of the box's cgroup, by its name in either version."""
        pid = self.engine.inspect_container(self.container)["State"]["Pid"]
        lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines()]
        for _, controllers, path in lines:
            if controller in controllers.split(","):
                return Path(f"/sys/fs/cgroup/{controller}{path}", v1)
        return Path(f"/sys/fs/cgroup{lines[-1][2]}", v2)


@dataclass(frozen=True)
class Fault:
    """``touches`` names what it is done to; of two faults that touch the same only one makes sense.

    ``running`` ones need a box that runs, and ``of`` names an option without which there is nothing to break. ``anew``
    ones need a new container, those of running boxes only if the box goes on running. ``gone`` ones leave no container.
    Later ``stage`` ones leave nothing that earlier ones could be done to.
    """

    name: str
    touches: str
    do: Callable[[Target], object]
    running: bool = False
    anew: bool = False
    gone: bool = False
    of: str = ""
    stage: int = 1


def _update(**limits: object) -> Callable[[Target], object]:
    def do(target: Target) -> None:
        engine = _engine.connect()
        with contextlib.closing(engine):
            engine.update_container(target.container, limits)

    return do


def _rename(target: Target) -> None:
    target.engine.rename(target.container, f"{target.site.instance}.renamed.{target.name}")


def _disconnect(target: Target) -> None:
    target.engine.disconnect_container_from_network(target.container, target.site.instance, force=True)


def _join(target: Target) -> None:
    target.engine.connect_container_to_network(target.container, f"{target.site.instance}-{FOREIGN}")


def _replace(target: Target) -> None:
    """As an editor saves: a new file takes the old one's place."""
    new = Path(f"{target.paths.passwd}.edited")
    new.write_text("agent:x:0:0::/:/bin/sh\n", encoding="ascii")
    new.rename(target.paths.passwd)


def _edit(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")


def _relabel(target: Target) -> None:
    """The same container but for a label, which nobody can change on a living one."""
    live = target.engine.inspect_container(target.container)
    target.engine.remove_container(live["Id"], force=True)
    network = live["HostConfig"]["NetworkMode"]
    config = {
        **live["Config"],
        "Labels": {**live["Config"]["Labels"], _naming.LABEL_SPEC: "edited"},
        "HostConfig": live["HostConfig"],
        "NetworkingConfig": {"EndpointsConfig": {} if network == "none" else {network: {}}},
    }
    created = target.engine.create_container_from_config(config, target.container)
    if live["State"]["Running"]:
        target.engine.start(created)


def _rebuild(target: Target) -> None:
    """Another image takes the tag of the box's."""
    recipe = f"FROM {engines.IMAGE}\nLABEL {_naming.LABEL_CONTEXT}=rebuilt-for-{target.name}\n"
    built = target.engine.build(fileobj=io.BytesIO(recipe.encode()), tag=target.image, rm=True, decode=True)
    assert not [line["error"] for line in built if "error" in line]


def _remove(target: Target) -> None:
    target.engine.remove_container(target.container, force=True)


def _remove_with_home(target: Target) -> None:
    _remove(target)
    target.engine.remove_volume(_naming.home_volume(target.site.instance, target.name))


REBUILT = Fault("image rebuilt", "image", _rebuild, anew=True)
FAULTS = (
    REBUILT,
    Fault("label edited", "label", _relabel, anew=True, stage=0),
    Fault("disconnected", "network", _disconnect, of="bridge"),
    Fault("in a foreign network", "networks", _join, of="bridge"),
    Fault("memory raised", "memory", _update(Memory=777 << 20, MemorySwap=777 << 20)),
    Fault("swap allowed", "memory", _update(MemorySwap=-1)),
    Fault("cpus changed", "cpus", _update(NanoCpus=770_000_000)),
    Fault("pids unlimited", "pids", _update(PidsLimit=-1)),
    Fault("restart policy changed", "restart", _update(RestartPolicy={"Name": "no"})),
    Fault("shares given", "shares", _update(CpuShares=77), anew=True),
    Fault(
        "pids in the cgroup", "pids", lambda box: box.cgroup("pids", *["pids.max"] * 2).write_text("77"), running=True
    ),
    Fault(
        "quota in the cgroup",
        "cpus",
        lambda box: box.cgroup("cpu", "cpu.cfs_quota_us", "cpu.max").write_text("77000"),
        running=True,
    ),
    Fault("entry script deleted", "files", lambda box: box.entry.unlink()),
    Fault("entry script changed", "files", lambda box: _edit(box.entry)),
    Fault("entry script not executable", "files", lambda box: box.entry.chmod(0o644)),
    Fault("secret deleted", "files", lambda box: box.secret.unlink(), of="secrets"),
    Fault("secret changed", "files", lambda box: _edit(box.secret), of="secrets"),
    Fault("secret readable", "files", lambda box: box.secret.chmod(0o644), of="secrets"),
    Fault("user database deleted", "files", lambda box: Path(box.paths.passwd).unlink()),
    Fault("user database edited", "files", lambda box: _edit(Path(box.paths.passwd))),
    Fault("user database replaced", "files", _replace),
    Fault("user database unreadable", "files", lambda box: Path(box.paths.passwd).chmod(0o600)),
    Fault("files removed", "files", lambda box: shutil.rmtree(box.paths.mount), running=True, anew=True),
    Fault("relay removed", "relay", lambda box: shutil.rmtree(box.paths.relay), running=True, anew=True),
    Fault("hook file deleted", "hooks", lambda box: box.hooks.unlink(), of="agents"),
    Fault("hook file changed", "hooks", lambda box: _edit(box.hooks), of="agents"),
    Fault("hook file writable", "hooks", lambda box: box.hooks.chmod(0o666), of="agents"),
    Fault("record edited", "record", lambda box: _edit(Path(box.paths.record))),
    Fault("record readable", "record", lambda box: Path(box.paths.record).chmod(0o644)),
    Fault("stopped", "state", lambda box: box.engine.stop(box.container, timeout=5), running=True, stage=2),
    Fault("killed", "state", lambda box: box.engine.kill(box.container), running=True, stage=2),
    Fault("paused", "state", lambda box: engines.pause(box.engine, box.container), running=True, stage=2),
    Fault("removed", "state", _remove, gone=True, stage=3),
    Fault("removed with its home", "state", _remove_with_home, gone=True, stage=3),
    Fault("renamed", "name", _rename, stage=4),
)
