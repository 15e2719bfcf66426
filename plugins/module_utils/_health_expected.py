"""What each box should be: from its declaration, else from what the engine and the state directory hold. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._health_facts import BoxState, Expected, Limits
from ._naming import DEFAULT_INSTANCE, LABEL_BOX, LABEL_INSTANCE, LABEL_WORKSPACE, container_name
from ._ports import published
from ._spec import BoxSpec, most_memory

Manifests = Mapping[str, Mapping[str, Any]]

# A container that ended with one of these was stopped on purpose: it ended by itself when asked, or was made to.
_STOPPED_CODES = (0, 137, 143)


@dataclass(frozen=True)
class Capacity:
    """What the host has; it caps the limits. 0 means unknown."""

    cpus: int = 0
    memory: int = 0  # bytes

    def cap(self, memory: int, cpus: float, pids: int) -> Limits:
        memory = min(memory, most_memory(self.memory)) if self.memory else memory
        cpus = min(cpus, self.cpus) if self.cpus else cpus
        return Limits(memory=memory, memory_swap=memory, pids=pids, cpus=cpus)


@dataclass(frozen=True)
class Origin:
    """What the state directory holds about a box: its record and its ``box.json``; empty when they can't be read."""

    record: Mapping[str, Any] = field(default_factory=dict)
    box_json: Mapping[str, Any] = field(default_factory=dict)


def expected_from_spec(spec: BoxSpec, instance: str, manifests: Manifests, capacity: Capacity) -> Expected:
    """A declared box."""
    if spec.state == "adopted":
        return expected_adopted(instance, spec.name, str(spec.container))
    return Expected(
        name=spec.name,
        container=container_name(instance, spec.name),
        state=_state(spec.state),
        image=spec.image,
        workspace=spec.workspace,
        lead=spec.lead,
        agents=spec.agents,
        publish=(spec.publish.address, spec.publish.port) if spec.publish else None,
        limits=capacity.cap(spec.memory, spec.cpus, spec.pids),
        gpus=spec.gpus != "none",
        credentials=spec.credentials,
        manifests={agent: manifests[agent] for agent in spec.agents if agent in manifests},
        instance=instance,
    )


def _state(state: str) -> BoxState:
    return "absent" if state == "absent" else "stopped" if state == "stopped" else "started"


def expected_adopted(instance: str, name: str, container: str) -> Expected:
    """A container that Agentbox did not make: nothing but that it is there is expected of it."""
    return Expected(name, container, "adopted", image="", instance=instance)


def expected_from_engine(
    inspect: Mapping[str, Any], origin: Origin, manifests: Manifests, capacity: Capacity
) -> Expected:
    """A box that nobody declares in this run, as it was made: ``inspect`` is of its container.

    ``manifests`` counts more than those the box was made with. The box is taken to be stopped on purpose when it
    ended as a stopped container ends.
    """
    config: Mapping[str, Any] = inspect.get("Config") or {}
    labels: Mapping[str, Any] = config.get("Labels") or {}
    lead = origin.box_json.get("lead")
    agents = tuple(str(agent) for agent in origin.box_json.get("agents") or ())
    known = {**(origin.box_json.get("manifests") or {}), **manifests}
    return Expected(
        name=str(labels.get(LABEL_BOX)),
        container=str(inspect.get("Name") or "").lstrip("/"),
        state="stopped" if was_stopped(inspect) else "started",
        image=str(config.get("Image") or ""),
        workspace=labels.get(LABEL_WORKSPACE),
        lead=str(lead) if lead else None,
        agents=agents,
        publish=published(inspect),
        limits=_recorded_limits(origin.record, capacity),
        gpus=bool((inspect.get("HostConfig") or {}).get("DeviceRequests")),
        credentials=str(origin.box_json.get("credentials") or "auto"),
        manifests={agent: known[agent] for agent in agents if agent in known},
        instance=str(labels.get(LABEL_INSTANCE) or DEFAULT_INSTANCE),
    )


def was_stopped(inspect: Mapping[str, Any]) -> bool:
    """Whether a container does not run because somebody wanted that, as far as the way it ended tells."""
    state: Mapping[str, Any] = inspect.get("State") or {}
    if state.get("Error"):  # the engine failed to start it
        return False
    ended_as_asked = state.get("ExitCode") in _STOPPED_CODES and not state.get("OOMKilled")
    return state.get("Status") == "created" or (state.get("Status") == "exited" and ended_as_asked)


def _recorded_limits(record: Mapping[str, Any], capacity: Capacity) -> Limits | None:
    """The limits that were declared when the box was made, which ``docker update`` does not change."""
    spec = record.get("spec") or {}
    try:
        return capacity.cap(int(spec["memory"]), float(spec["cpus"]), int(spec["pids"]))
    except (KeyError, TypeError, ValueError):
        return None


def agents_by_image(boxes: Iterable[Expected]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The images that boxes shall run, and of each the agents that those boxes need in it with their manifests."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for box in boxes:
        if box.state not in ("absent", "adopted"):
            found.setdefault(box.image, {}).update({agent: box.manifests.get(agent, {}) for agent in box.agents})
    return found
