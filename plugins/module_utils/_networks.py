"""The engine's networks: which one a name means, and the spare ones that killed runs leave.

A request that was sent outlives the run that sent it, and an engine before API 1.44 takes the next run's request for
the same name too when both come at a time. Of two networks of a name it then refuses to use either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from . import _naming
from ._engine import Engine

BETWEEN_CONTAINERS = "com.docker.network.bridge.enable_icc"


@dataclass(frozen=True)
class Network:
    """A network as the engine lists it. ``instance`` is empty for one that others made."""

    name: str
    id: str
    created: str
    instance: str
    parts_boxes: bool  # containers in it can't reach each other

    @classmethod
    def from_api(cls, raw: Mapping[str, Any]) -> Network:
        return cls(
            name=str(raw["Name"]),
            id=str(raw["Id"]),
            created=str(raw.get("Created", "")),
            instance=str((raw.get("Labels") or {}).get(_naming.LABEL_INSTANCE, "")),
            parts_boxes=(raw.get("Options") or {}).get(BETWEEN_CONTAINERS) == "false",
        )


@dataclass(frozen=True)
class Networks:
    """All networks of an engine, and which of them containers are in: their ids, or names where there is no id yet."""

    found: tuple[Network, ...]
    joined: frozenset[str] = frozenset()

    @classmethod
    def of(cls, engine: Engine | None, containers: Iterable[Mapping[str, Any]] = ()) -> Networks:
        """Ask the engine; ``containers`` are as it lists them."""
        found = engine.networks() if engine else ()
        return cls(tuple(map(Network.from_api, found)), _joined(containers))

    @cached_property
    def _by_name(self) -> dict[str, Network]:
        """Of several with one name the one that counts: one that containers are in, then the oldest."""
        order = sorted(self.found, key=lambda it: (it.id not in self.joined, it.created, it.id), reverse=True)
        return {network.name: network for network in order}

    @cached_property
    def ids(self) -> dict[str, str]:
        """Name to id."""
        return {name: network.id for name, network in self._by_name.items()}

    def get(self, name: str) -> Network | None:
        return self._by_name.get(name)

    def spare(self, name: str, instance: str) -> list[Network]:
        """What an instance made besides the network that counts, and no container is in."""
        kept = {self.ids.get(name), *self.joined}
        return [it for it in self.found if (it.name, it.instance) == (name, instance) and it.id not in kept]

    def unused_by(self, containers: Iterable[Mapping[str, Any]], instance: str) -> list[Network]:
        """The networks of an instance that none of ``containers`` is in, sorted by name."""
        used = _joined(containers)
        free = [it for it in self.found if it.instance == instance and not used & {it.id, it.name}]
        return sorted(free, key=lambda it: (it.name, it.created, it.id))


def _joined(containers: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    endpoints = [
        item for found in containers for item in ((found.get("NetworkSettings") or {}).get("Networks") or {}).items()
    ]
    return frozenset(str(endpoint.get("NetworkID") or name) for name, endpoint in endpoints)
