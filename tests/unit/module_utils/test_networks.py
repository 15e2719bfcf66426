"""Which network a name means when an engine has several of it."""

from __future__ import annotations

from typing import Any

from agentbox._shared._networks import Network, Networks

OLDER = {"Name": "one", "Id": "a" * 64, "Created": "2026-01-01T00:00:00Z", "Labels": {"agentbox.instance": "one"}}
NEWER = {**OLDER, "Id": "b" * 64, "Created": "2026-01-02T00:00:00Z"}
FOREIGN = {**OLDER, "Id": "c" * 64, "Labels": None}


def networks(*found: dict[str, Any], joined: str = "") -> Networks:
    return Networks(tuple(map(Network.from_api, found)), frozenset({joined} - {""}))


def container(network: str, network_id: str) -> dict[str, Any]:
    return {"NetworkSettings": {"Networks": {network: {"NetworkID": network_id}}}}


def ids(found: list[Network]) -> list[str]:
    return [network.id[0] for network in found]


def test_of_two_nobody_is_in_the_oldest_counts() -> None:
    found = networks(NEWER, OLDER)
    assert found.ids == {"one": OLDER["Id"]}
    assert ids(found.spare("one", "one")) == ["b"]


def test_the_one_with_containers_counts() -> None:
    found = networks(NEWER, OLDER, joined=str(NEWER["Id"]))
    assert found.ids == {"one": NEWER["Id"]}
    assert ids(found.spare("one", "one")) == ["a"]


def test_another_persons_network_is_never_spare() -> None:
    assert ids(networks(OLDER, FOREIGN).spare("one", "one")) == []
    assert ids(networks(NEWER, OLDER).spare("one", "other")) == []
    assert ids(networks().spare("one", "one")) == []


def test_unused_are_those_that_no_container_is_in() -> None:
    found = networks(NEWER, OLDER, FOREIGN)
    assert ids(found.unused_by([], "one")) == ["a", "b"]
    assert ids(found.unused_by([container("one", str(OLDER["Id"]))], "one")) == ["b"]
    assert ids(found.unused_by([container("one", "")], "one")) == []  # never started: joined by name alone
