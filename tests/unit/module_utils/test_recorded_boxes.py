"""What engines tell of the boxes that were made is no drift, whichever version of the API they speak."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from agentbox._shared._drift import Drift, Live, Recorded, compare
from agentbox._shared._payload import create_payload
from tests.unit.module_utils import recorded_boxes
from tests.unit.module_utils.box_samples import CONTEXT

RECORDED = ("1.41", "1.45")


def drift(live: dict[str, Any], name: str, **changed: Any) -> list[Drift]:
    made, declared = recorded_boxes.declared(name), recorded_boxes.declared(name, **changed)
    record = Recorded(made.spec.canonical(), CONTEXT)
    payload = create_payload(declared, CONTEXT)
    return compare(payload, Live(live), declared.spec.canonical(), record)


def documented(live: dict[str, Any]) -> dict[str, Any]:
    """Of no engine: the 1.45 record as the API's documents (moby, api/docs/CHANGELOG.md) say that 1.52 tells it.

    1.46 to 1.52 change of ``GET /containers/{id}/json`` what is done here.
    """
    result = copy.deepcopy(live)
    result["ImageManifestDescriptor"] = {  # 1.48, with the containerd image store
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": "sha256:" + "e" * 64,
        "size": 424,
        "platform": {"architecture": "amd64", "os": "linux"},
    }
    for endpoint in result["NetworkSettings"]["Networks"].values():
        endpoint["GwPriority"] = 0  # 1.48
    result["HostConfig"].pop("KernelMemoryTCP", None)  # 1.52, as all below
    result["Config"].pop("OnBuild", None)
    kept = ("SandboxID", "SandboxKey", "Ports", "Networks")
    result["NetworkSettings"] = {key: value for key, value in result["NetworkSettings"].items() if key in kept}
    return result


def test_there_are_records_of_the_engines_that_distributions_have() -> None:
    assert tuple(recorded_boxes.versions()) == RECORDED


@pytest.mark.parametrize("name", recorded_boxes.DECLARED)
@pytest.mark.parametrize("version", RECORDED)
def test_a_recorded_box_is_as_declared(version: str, name: str) -> None:
    assert drift(recorded_boxes.container(version, name), name) == []


@pytest.mark.parametrize("name", recorded_boxes.DECLARED)
def test_a_box_as_documented_of_newer_engines_is_as_declared(name: str) -> None:
    assert drift(documented(recorded_boxes.container("1.45", name)), name) == []


@pytest.mark.parametrize(
    ("changed", "paths"),
    [
        ({"memory": "2g"}, ["hardening.memory_swap", "memory"]),
        ({"cpus": 2}, ["cpus"]),
        ({"pids": 100}, ["pids"]),
        ({"shm_size": "2g"}, ["shm_size"]),
        ({"tmp_size": "65m"}, ["tmp_size"]),
        ({"publish": "none"}, ["publish"]),
        ({"networks": []}, ["networks"]),
        ({"ports": ["8080:80"]}, ["ports"]),
        ({"healthcheck": None}, ["healthcheck"]),
        ({"env": {"EMPTY": ""}}, ["env.GREETING"]),
        ({"mounts": ["/srv/data:/data"]}, ["mounts"]),
        ({"volumes": []}, ["mounts"]),
        ({"gpus": "none"}, ["gpus"]),
        ({"read_only": False}, ["read_only", "tmp_size"]),
        ({"seccomp": "default"}, ["seccomp"]),
    ],
)
@pytest.mark.parametrize("version", [*RECORDED, "documented"])
def test_what_is_declared_otherwise_is_seen(version: str, changed: dict[str, Any], paths: list[str]) -> None:
    """And nothing else is."""
    live = recorded_boxes.container("1.45" if version == "documented" else version, "everything")
    found = drift(documented(live) if version == "documented" else live, "everything", **changed)
    assert [item.path for item in found] == paths
