"""Remove what interrupted test runs left in the engine: by label and by the tests' own instance names, nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import docker.errors

from agentbox._shared import _engine, _naming

TEST_LABEL = "agentbox.test"
TEST_INSTANCE = re.compile(r"^abx[0-9a-f]{6,}$")


def is_leftover(labels: dict[str, str] | None) -> bool:
    """Whether labels say that a test made it."""
    labels = labels or {}
    return TEST_LABEL in labels or bool(TEST_INSTANCE.match(labels.get(_naming.LABEL_INSTANCE, "")))


def remove_network(client: Any, network: str) -> bool:
    """Whether the network is gone now.

    Docker 20.10 can keep the endpoint of a container that was renamed, cut off and removed. It is told of nowhere, so
    nothing but a start of the engine frees the network then.
    """
    try:
        client.remove_network(network)
    except docker.errors.NotFound:
        return True
    except docker.errors.APIError as error:
        if "has active endpoints" in str(error) and not client.inspect_network(network)["Containers"]:
            return False
        raise
    return True


def remove_leftovers() -> Iterator[str]:
    """Remove containers, then networks and volumes; yields a line for each."""
    engine = _engine.connect()
    client: Any = engine.client
    for container in client.containers(all=True):
        if is_leftover(container.get("Labels")):
            client.remove_container(container["Id"], force=True, v=True)
            yield f"removed container {container['Names'][0]}"
    for network in client.networks():
        if is_leftover(network.get("Labels")):
            yield f"{'removed' if remove_network(client, network['Id']) else 'left'} network {network['Name']}"
    for volume in client.volumes().get("Volumes") or []:
        if is_leftover(volume.get("Labels")):
            client.remove_volume(volume["Name"])
            yield f"removed volume {volume['Name']}"
    for image in client.images():
        if TEST_INSTANCE.match((image.get("Labels") or {}).get(_naming.LABEL_INSTANCE, "")):
            client.remove_image(image["Id"], force=True)
            yield f"removed image {(image.get('RepoTags') or [image['Id']])[0]}"
    engine.close()
