"""Many boxes on one engine: Agentbox against a loop of community.docker, and against nothing but docker SDK.

What runs in these boxes only waits: they have no lead, no box Observer, and so no health check that asks for its page.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import docker
import docker.errors

from agentbox._shared import _naming
from tests.integration import engines

from . import commands
from .commands import PLAYBOOKS, REPOSITORY, BenchError
from .report import Figure
from .timing import Pair, Side, alternate

_UID = 1000
_FILES = ("entry.sh", "attach.sh", "tmux.conf", "seccomp-strict.json")
# Keys of ``inspect`` that name one container or tell its past.
_OWN = ("AttachStderr", "AttachStdout", "ContainerIDFile", "Hostname", "Labels")


@dataclass(frozen=True)
class Fleet:
    """Boxes of one instance, and the same containers for a peer, under another name and from a copy of the files."""

    engine: Any  # docker.APIClient, partly untyped
    place: Path
    size: int
    instance: str
    peer: str
    image: str

    @property
    def names(self) -> list[str]:
        return [f"b{number:03d}" for number in range(1, self.size + 1)]

    @property
    def state(self) -> Path:
        return self.place / "state"

    @cached_property
    def variables(self) -> Path:
        """Variables of the playbook of Agentbox, in a file."""
        templates = REPOSITORY / "templates/box"
        for name in self.names:
            workspace = self.place / "workspaces" / name
            workspace.mkdir(parents=True)
            os.chown(workspace, _UID, _UID)
        return commands.write_variables(
            self.place / "agentbox.json",
            {
                "bench_instance": self.instance,
                "bench_boxes": [self._declaration(name) for name in self.names],
                "bench_files": {name: (templates / name).read_text(encoding="utf-8") for name in _FILES},
                "bench_state_root": str(self.state),
                "bench_image": self.image,
            },
        )

    def _declaration(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "workspace": str(self.place / "workspaces" / name),
            "image": self.image,
            "lead": "none",
            "agents": [],
            "memory": "512m",
            "cpus": 1,
            "pids": 128,
            "healthcheck": "none",
        }

    def converge(self) -> str:
        return commands.playbook(PLAYBOOKS / "agentbox.yml", self.variables)

    def converge_unchanged(self) -> None:
        commands.unchanged(self.converge())

    def inspect(self) -> dict[str, dict[str, Any]]:
        """Our containers by the names of their boxes."""
        return {name: self.engine.inspect_container(_naming.container_name(self.instance, name)) for name in self.names}

    @cached_property
    def module_arguments(self) -> Path:
        """The module's arguments, in a file."""
        given = json.loads(self.variables.read_text(encoding="utf-8"))
        names = ("instance", "boxes", "files", "state_root")
        options = {**{name: given[f"bench_{name}"] for name in names}, "git_identity": False, "gh_login": False}
        return commands.write_variables(self.place / "arguments.json", {"ANSIBLE_MODULE_ARGS": options})

    def run_module(self) -> float:
        """Converge by the module's process alone, without Ansible; the most memory that it took, in MiB."""
        return commands.module("box", self.module_arguments) / (1 << 20)

    # --- the peer -------------------------------------------------------------------------------------------------

    def peers_text(self, text: str) -> str:
        """``text`` about our containers as it is about the peer's, which have the same image."""
        named = text.replace(str(self.state), str(self.place / "peer")).replace(self.instance, self.peer)
        return named.replace(f"{self.peer}:latest", self.image)

    def copy_files(self) -> None:
        """Give the peer the files that its containers mount, at paths of its own."""
        target = self.place / "peer" / self.peer
        shutil.copytree(self.state / self.instance, target, ignore=shutil.ignore_patterns("lock"))

    @cached_property
    def peers_variables(self) -> Path:
        """Variables of the peer's playbook, in a file: what there is of ours, container by container."""
        inspected = self.inspect()
        image = self.engine.inspect_image(self.image)["Config"].get("Env") or []
        first = next(iter(inspected.values()))["Config"]
        variables = {
            "bench_peer": self.instance,
            "bench_image": self.image,
            "bench_uid": _UID,
            "bench_env": dict(item.split("=", 1) for item in first["Env"] if item not in image),
            "bench_containers": [self._peers_container(name, found) for name, found in inspected.items()],
        }
        return commands.write_variables(
            self.place / "community_docker.json", json.loads(self.peers_text(json.dumps(variables)))
        )

    def _peers_container(self, name: str, found: Mapping[str, Any]) -> dict[str, Any]:
        labels = {key.replace("agentbox.", "bench."): value for key, value in found["Config"]["Labels"].items()}
        return {
            "name": name,
            "container": found["Name"].lstrip("/"),
            "labels": labels,
            "mounts": [_peers_mount(mount) for mount in found["HostConfig"]["Mounts"]],
        }

    def peer_converge(self) -> str:
        return commands.playbook(PLAYBOOKS / "community_docker.yml", self.peers_variables)

    def peer_converge_unchanged(self) -> None:
        commands.unchanged(self.peer_converge())

    def check_same(self) -> None:
        """Raise ``BenchError`` unless the peer's containers are as ours, but for names and labels."""
        for name, found in self.inspect().items():
            theirs = self.engine.inspect_container(_naming.container_name(self.peer, name))
            ours, peers = json.loads(self.peers_text(json.dumps(_made_of(found)))), _made_of(theirs)
            differing = sorted(key for key in ours.keys() | peers.keys() if ours.get(key) != peers.get(key))
            if differing:
                shown = {key: (ours.get(key), peers.get(key)) for key in differing}
                raise BenchError(f"the peer's container of box {name} is another one: {shown}")

    def payloads(self) -> Path:
        """What makes the peer's containers with docker SDK, in a file: body of the request by name."""
        bodies = {
            found["Name"].lstrip("/"): {
                **{key: value for key, value in found["Config"].items() if key != "Labels"},
                "Labels": {
                    key.replace("agentbox.", "bench."): value for key, value in found["Config"]["Labels"].items()
                },
                "HostConfig": found["HostConfig"],
                "NetworkingConfig": {"EndpointsConfig": {self.instance: {}}},
            }
            for found in self.inspect().values()
        }
        path = self.place / "payloads.json"
        path.write_text(self.peers_text(json.dumps(bodies)), encoding="utf-8")
        return path

    # --- removing -------------------------------------------------------------------------------------------------

    def remove_ours(self) -> None:
        engines.remove_instance(self.engine, self.instance)
        shutil.rmtree(self.state / self.instance, ignore_errors=True)

    def remove_peers(self) -> None:
        for name in self.names:
            container = _naming.container_name(self.peer, name)
            with suppress(docker.errors.NotFound):
                self.engine.remove_container(container, force=True)
        with suppress(docker.errors.NotFound):
            self.engine.remove_network(self.peer)
        for volume in self.engine.volumes(filters={"name": self.peer})["Volumes"] or []:
            self.engine.remove_volume(volume["Name"], force=True)


def _peers_mount(mount: Mapping[str, Any]) -> dict[str, Any]:
    """A mount of the engine's API in the words of the peer."""
    common = {"type": mount["Type"], "source": mount["Source"], "target": mount["Target"]}
    read_only = bool(mount.get("ReadOnly"))
    if mount["Type"] == "bind":
        return {**common, "read_only": read_only, "propagation": mount["BindOptions"]["Propagation"]}
    options = mount["VolumeOptions"]
    labels = {key.replace("agentbox.", "bench."): value for key, value in options["Labels"].items()}
    return {**common, "read_only": read_only, "no_copy": True, "labels": labels}


def _made_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """What a container was made of, without what the engine spells in one of two ways."""
    parts = {**found["Config"], **found["HostConfig"]}
    mounts = sorted(
        (mount["Target"], mount["Type"], mount["Source"], bool(mount.get("ReadOnly"))) for mount in parts["Mounts"]
    )
    told = {key: value for key, value in parts.items() if key not in (*_OWN, "Mounts") and value}
    return {
        **told,
        "Env": sorted(parts["Env"]),
        "Tmpfs": {target: sorted(options.split(",")) for target, options in parts["Tmpfs"].items()},
        "Mounts": [list(mount) for mount in mounts],
    }


@contextmanager
def fleet(size: int) -> Iterator[Fleet]:
    """A fleet of ``size`` boxes and its peer's place; nothing of it stays."""
    engine, instance = engines.client(), engines.new_instance_name()
    with engines.short_directory() as place:
        made = Fleet(engine, place, size, instance, engines.new_instance_name(), f"{instance}:latest")
        try:
            commands.playbook(PLAYBOOKS / "image.yml", made.variables)
            yield made
        finally:
            made.remove_ours()
            made.remove_peers()
            for image in engine.images(filters={"label": f"{_naming.LABEL_INSTANCE}={instance}"}):
                engine.remove_image(image["Id"], force=True)
            engine.close()


@dataclass(frozen=True)
class Unchanged:
    """A fleet that is right, converged again by both sides; ``memory`` is the module's highest, in MiB."""

    pair: Pair
    memory: float


def unchanged(size: int, runs: int) -> Unchanged:
    with fleet(size) as boxes:
        boxes.converge()
        boxes.copy_files()
        boxes.peer_converge()
        boxes.check_same()
        pair = alternate(Side(boxes.converge_unchanged), Side(boxes.peer_converge_unchanged), runs)
        _check_update_is_found(boxes)
        return Unchanged(pair, boxes.run_module())


def _check_update_is_found(boxes: Fleet) -> None:
    """Raise ``BenchError`` unless the run that was measured takes back what ``docker update`` did to one box alone."""
    name = boxes.names[min(57, boxes.size) - 1]
    container = _naming.container_name(boxes.instance, name)
    before = boxes.engine.inspect_container(container)["HostConfig"]["Memory"]
    boxes.engine.update_container(container, mem_limit=2 * before, memswap_limit=2 * before)
    output = boxes.converge()
    after = boxes.engine.inspect_container(container)["HostConfig"]["Memory"]
    if after != before:
        raise BenchError(f"docker update on box {name} was not found: its limit is {after}, not {before}:\n{output}")
    boxes.converge_unchanged()


def unchanged_figures(runs: int) -> Iterator[Figure]:
    """The rows about boxes that are right."""
    few, many = unchanged(20, runs), unchanged(100, runs)
    yield Figure(
        "20 boxes unchanged, against a loop of `docker_container`", few.pair, few.pair.faster, "x faster", least=6
    )
    yield Figure(
        "100 boxes unchanged, a `docker update` on one of them found", many.pair, many.pair.faster, "x faster", least=25
    )
    cost = (many.pair.medians[0] - few.pair.medians[0]) / 80 * 1000
    yield Figure("marginal cost of a box, unchanged", None, cost, "ms", most=8)
    yield Figure("highest memory of the module at 100 boxes", None, many.memory, "MiB")


def create_figures(runs: int) -> Iterator[Figure]:
    """The row about boxes that are not there yet."""
    with fleet(20) as boxes:
        boxes.converge()
        boxes.copy_files()
        payloads = boxes.payloads()

        def remove() -> None:
            boxes.remove_ours()
            boxes.remove_peers()

        def peer() -> None:
            commands.run([sys.executable, str(Path(__file__).with_name("sdk_create.py")), str(payloads), boxes.peer])

        pair = alternate(Side(boxes.run_module, remove), Side(peer, remove), runs)
    yield Figure(
        "create and start 20 boxes (the module's process), against docker SDK with 8 threads",
        pair,
        pair.slower,
        "x the time",
        most=1.25,
    )
