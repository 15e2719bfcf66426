"""One host builds and saves, the others load what is carried to them: the right file, proven, without a trace of it."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from ansible_collections.agentbox.fleet.plugins.module_utils import _archive, _engine

from tests.hosts import base_image
from tests.integration import engines, runs, sites
from tests.integration.conftest import Instances
from tests.integration.workshops import MANIFEST, SMALL, Workshop, with_version

# Packing and unpacking images takes minutes; the other way to hosts, a registry, is tried in every run.
pytestmark = pytest.mark.full

UNKNOWN = f"sha256:{'0' * 64}"


@pytest.fixture(scope="module")
def builder(engine: docker.APIClient, new_instance: Instances, module_place: Path) -> Iterator[Workshop]:
    options = {"dockerfile": SMALL, "base": base_image("debian-12"), "save": True}
    made = Workshop(engine, new_instance(), module_place, options)
    yield made
    made.remove()


@pytest.fixture(scope="module")
def saved(builder: Workshop) -> dict[str, Any]:
    """What the module says about the image that the builder has saved."""
    predicted = builder.build(check=True)
    result = builder.build()
    assert actions(predicted) == ["build", "tag", "save"]
    assert actions(result) == ["build", "verify", "tag", "save"]
    image: dict[str, Any] = result["image"]
    return image


@pytest.fixture
def loader(
    builder: Workshop, second_engine: engines.SecondEngine, place: Path, saved: dict[str, Any]
) -> Iterator[Workshop]:
    """A host with an engine of its own that gets the builder's archive."""
    options: dict[str, Any] = {
        "docker_host": second_engine.host,
        "source": "archive",
        "archive": saved["archive"]["path"],
        "checksum": saved["archive"]["checksum"],
    }
    client = second_engine.client()
    made = Workshop(client, builder.instance, place, options)
    yield made
    made.remove()
    client.close()


def actions(result: runs.Result) -> list[str]:
    return [action["action"] for action in result["actions"]]


def test_what_the_builder_saved_another_host_loads(saved: dict[str, Any], loader: Workshop) -> None:
    predicted = loader.build(check=True, archive=None)
    assert actions(predicted) == ["load", "tag"]
    assert loader.images() == []

    loaded = loader.build()
    assert actions(loaded) == ["load", "verify", "tag"]
    assert (loaded["image"]["context"], loaded["image"]["agents"]) == (saved["context"], {"tool": "1.2.3"})
    assert loader.image is not None
    assert loader.image["RepoTags"] == [loader.tag]
    for check in (False, True):
        assert not loader.build(check=check, archive=None)["changed"]


def test_an_archive_is_saved_once_and_for_its_reader_only(builder: Workshop, saved: dict[str, Any]) -> None:
    path = Path(saved["archive"]["path"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size == saved["archive"]["size"] < saved["size"]
    digest = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout.split()[0]
    assert saved["archive"]["checksum"] == f"sha256:{digest}"
    again = builder.build()
    assert not again["changed"]
    assert again["image"] == saved
    assert [entry.name for entry in path.parent.iterdir() if ".new" in entry.name] == []


def test_an_archive_that_cannot_be_finished_leaves_nothing(
    builder: Workshop, saved: dict[str, Any], place: Path
) -> None:
    connected = _engine.connect()
    with engines.mounted("tmpfs", place / "small", options="size=4m,mode=0755") as small:
        with pytest.raises(_archive.ArchiveError, match="No space left on device"):
            _archive.save(connected, saved["id"], str(small / "image.tar.gz"), os.geteuid(), lambda _: None)
        assert list(small.iterdir()) == []
    connected.close()


def damaged(path: Path, place: Path) -> str:
    copy = place / "damaged.tar.gz"
    copy.write_bytes(path.read_bytes()[:-100])
    return str(copy)


def test_the_wrong_file_is_not_loaded(saved: dict[str, Any], loader: Workshop, place: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"archive": damaged(Path(saved["archive"]["path"]), place)}, "is not the archive that was asked for"),
        ({"checksum": UNKNOWN}, "is not the archive that was asked for"),
        ({"archive": "/etc/hostname"}, "is not the archive that was asked for"),
        ({"archive": "/nonexistent"}, "cannot read /nonexistent: No such file or directory"),
        ({"archive": None}, "archive: is needed, the image is not there yet"),
        ({"checksum": None}, "run the builder first"),
        ({"min_free": "900t"}, "a load needs 921600.0 GiB (min_free)"),
        ({"manifests": with_version("1.2.4")}, "it holds tool 1.2.3 instead of 1.2.4"),
    ]
    for options, message in cases:
        assert message in loader.build(**options)["msg"]
    assert loader.images() == []
    assert loader.image is None


def named_archive(path: Path, *names: str) -> str:
    """An archive whose lists give names to an image; its checksum."""
    manifest = json.dumps([{"Config": "0.json", "RepoTags": list(names), "Layers": []}]).encode()
    with gzip.open(path, "wb") as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(manifest)
        tar.addfile(entry, io.BytesIO(manifest))
    digest = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout.split()[0]
    return f"sha256:{digest}"


def test_an_archive_cannot_take_a_name_away(loader: Workshop, place: Path) -> None:
    path = place / "named.tar.gz"
    failed = loader.build(archive=str(path), checksum=named_archive(path, "debian:bookworm-slim"))
    assert "would give the name debian:bookworm-slim to its image" in failed["msg"]


@pytest.fixture
def inventory(builder: Workshop, second_engine: engines.SecondEngine, place: Path) -> Path:
    """Two hosts: this machine as the builder, and its second engine."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    state_roots = {"builder": builder.directory / "state", "other": place / "state"}
    hosts = {name: {**local, "agentbox_state_root": str(root)} for name, root in state_roots.items()}
    hosts["other"]["agentbox_docker_host"] = second_engine.host
    path = place / "hosts.json"
    path.write_text(json.dumps({"all": {"hosts": hosts}}), encoding="utf-8")
    return path


def role(inventory: Path, instance: str, *, hosts: str = "all", check: bool = False, **more: Any) -> runs.Run:
    """Role image on hosts of the inventory, the builder being one of them."""
    variables = {
        "agentbox_instance": instance,
        "agentbox_image_distribution": "archive",
        "agentbox_image_builder": "builder",
        "agentbox_image_archive": str(inventory.parent / "kept" / "image.tar.gz"),
        "agentbox_image_min_free": "1m",
        **more,
    }
    tasks = [runs.role_task("image", {})]
    return runs.play(tasks, inventory=inventory, hosts=hosts, variables=variables, check=check)


TOOL: dict[str, Any] = {"agentbox_manifests": {"tool": MANIFEST}, "agentbox_agents": ["tool"]}


def test_the_role_carries_the_archive_that_the_controller_has(
    saved: dict[str, Any], loader: Workshop, inventory: Path, place: Path
) -> None:
    kept = place / "kept" / "image.tar.gz"
    kept.parent.mkdir()
    kept.symlink_to(saved["archive"]["path"])
    checksum = saved["archive"]["checksum"].removeprefix("sha256:")
    kept.with_name("image.tar.gz.sha256").write_text(f"{checksum}  image.tar.gz\n", encoding="utf-8")
    first, second = (role(inventory, loader.instance, hosts="other", **TOOL) for _ in range(2))
    assert actions(first.result("Carry | Load the image")) == ["load", "verify", "tag"]
    assert loader.image is not None
    assert second.changed == []
    assert list(Path("/var/tmp").glob("agentbox-*/image.tar.gz")) == []  # noqa: S108


def test_a_run_with_the_builder_is_predicted(loader: Workshop, inventory: Path, place: Path) -> None:
    predicted = role(inventory, f"{loader.instance}-new", check=True, **TOOL)
    built, loaded = (
        predicted.result(task) for task in ("Build | Build the image", "Load | Ask whether the image is missing")
    )
    assert actions(built) == ["build", "tag", "save"]
    assert loaded["actions"][0] == {"action": "load", "detail": "what the builder is yet to make"}
    assert built["changed"]
    assert loaded["changed"]
    assert not (place / "kept").exists()


@pytest.mark.full
def test_the_role_brings_the_builders_image_to_another_host(
    engine: docker.APIClient, instance: str, second_engine: engines.SecondEngine, inventory: Path, place: Path
) -> None:
    variables: dict[str, Any] = {"agentbox_manifests": sites.manifests(), "agentbox_agents": ["standin"]}
    first, second = (role(inventory, instance, **variables) for _ in range(2))
    assert first.failed == []
    assert actions(first.result("Build | Build the image")) == ["build", "verify", "tag", "save"]
    assert actions(first.result("Carry | Load the image")) == ["load", "verify", "tag"]
    assert second.changed == []
    other = Workshop(second_engine.client(), instance, place)
    builder = Workshop(engine, instance, place)
    assert other.image is not None
    assert builder.image is not None
    assert other.image["Config"]["Labels"] == builder.image["Config"]["Labels"]
    for host in (other, builder):
        host.remove()
