"""A copy of the example inventory whose hosts are throwaway servers, reached by SSH; the image comes as an archive."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from agentbox._shared import _naming
from tests import hosts
from tests.integration import engines, runs
from tests.integration.durable import MANIFEST

EXAMPLE = runs.REPOSITORY / "inventories" / "fleet-example"
PASSWORD = runs.REPOSITORY / "tests" / "doubles" / "fleet-vault-password"
IMAGE = "agentbox-test-fleet:debian-12"
DOCKERFILE = Path(__file__).with_name("fleet.Dockerfile")
TIMEOUT = 600  # seconds for a run over all hosts


@dataclass(frozen=True)
class Fleet:
    """Servers by the names that the inventory gives them."""

    directory: Path
    containers: Mapping[str, str]

    @property
    def inventory(self) -> Path:
        return self.directory / "inventory"

    def site(self, *arguments: str, verbosity: int = 0, check: bool = False, vault: bool = True) -> runs.Run:
        """`site.yml` over the inventory, with the password of its vault unless told otherwise."""
        secret = [f"--vault-id=fleet@{PASSWORD}"] if vault else []
        return runs.playbook(
            "site",
            {"agentbox_image_archive": str(self.directory / "image.tar.gz")},
            inventory=self.inventory,
            arguments=[*secret, *arguments],
            check=check,
            verbosity=verbosity,
            timeout=TIMEOUT,
        )

    def stop(self, host: str) -> runs.Run:
        """The playbook behind `agentbox stop`, for all boxes of a host."""
        arguments = [f"--vault-id=fleet@{PASSWORD}", f"--limit={host}"]
        return runs.playbook("stop", inventory=self.inventory, arguments=arguments, timeout=TIMEOUT)

    def run(self, host: str, *command: str) -> str:
        """Output of a command on a host, seen from outside; it must succeed."""
        return hosts.docker("exec", self.containers[host], *command)

    def in_box(self, host: str, box: str, script: str) -> str:
        """Output of a shell script in a box of a host; empty when it fails."""
        command = ["docker", "exec", box, "bash", "-c", script]
        return hosts.docker("exec", self.containers[host], *command, check=False)

    def boxes(self, host: str) -> dict[str, str]:
        """The containers of boxes on a host and their states."""
        label = f"label={_naming.LABEL_BOX}"
        found = self.run(host, "docker", "ps", "--all", f"--filter={label}", "--format={{.Names}} {{.State}}")
        return dict(line.split() for line in found.splitlines())


@contextmanager
def fleet(names: tuple[str, ...]) -> Iterator[Fleet]:
    """Servers with the given names of the example, removed afterwards."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="abx-fleet-")))
        image = _server_image()
        containers = {}
        for name in names:
            containers[name] = hosts.start("debian-12", image=image)
            stack.callback(hosts.remove, containers[name])
        _write_archive(directory / "image.tar.gz")
        made = Fleet(directory, containers)
        _write_inventory(made)
        for container in containers.values():
            hosts.wait_for_systemd(container)
        yield made


def _server_image() -> str:
    base = hosts.build_image("debian-12")
    with TemporaryDirectory() as empty:
        options = [f"--tag={IMAGE}", f"--build-arg=BASE={base}", f"--file={DOCKERFILE}"]
        hosts.docker("build", "--quiet", *options, empty)
    return IMAGE


def _write_archive(path: Path) -> None:
    """The stand-in's image as one host of the fleet would have built and saved it."""
    text = f"FROM {engines.IMAGE}\nLABEL {_naming.LABEL_INSTANCE}={_naming.DEFAULT_INSTANCE}\n"
    label = f"--label={hosts.LABEL}"
    built = subprocess.run(
        ["docker", "build", "--quiet", label, "-"], input=text, capture_output=True, text=True, check=True
    )
    with (
        subprocess.Popen(["docker", "save", built.stdout.strip()], stdout=subprocess.PIPE) as saved,
        gzip.open(path, "wb", compresslevel=1) as packed,
    ):
        assert saved.stdout is not None
        shutil.copyfileobj(saved.stdout, packed)
    hosts.docker("rmi", built.stdout.strip())
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n", encoding="ascii")


def _write_inventory(made: Fleet) -> None:
    """The example with these hosts, and the stand-in where the example has Claude."""
    shutil.copytree(EXAMPLE, made.inventory)
    inventory = yaml.safe_load((EXAMPLE / "hosts.yml").read_text(encoding="utf-8"))
    for group in inventory["all"]["children"].values():
        group["hosts"] = {name: _connection(made, name) for name in group["hosts"] if name in made.containers}
    (made.inventory / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    for path in [*made.inventory.glob("group_vars/**/*.yml"), *made.inventory.glob("host_vars/*.yml")]:
        text = path.read_text(encoding="utf-8")
        boxes = text.replace("    workspace: ", "    lead: standin\n    agents: [standin]\n    workspace: ")
        path.write_text(boxes.replace("agentbox_agents: [claude]", _settings()), encoding="utf-8")


def _connection(made: Fleet, name: str) -> dict[str, Any]:
    directory = made.directory / name
    directory.mkdir()
    return {**hosts.connection(made.containers[name], directory), "agentbox_become": False}


def _settings() -> str:
    # What the example's boxes ask for.
    standin = {**MANIFEST, "launch": {**MANIFEST["launch"], "permission_modes": ["default", "plan"]}}
    settings = {
        "agentbox_agents": ["standin"],
        "agentbox_image_distribution": "archive",
        "agentbox_manifests": {"standin": standin},
    }
    return "\n".join(f"{name}: {json.dumps(value)}" for name, value in settings.items())
