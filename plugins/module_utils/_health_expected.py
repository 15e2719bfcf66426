"""What each box should be: from its declaration, else from what the engine and the state directory hold. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._health_facts import BoxState, Expected, Limits
from ._naming import LABEL_BOX, LABEL_WORKSPACE, PAGE_PORT, container_name
from ._spec import BoxSpec

# A container that ended with one of these was stopped on purpose: it ended by itself when asked, or was made to.
_STOPPED_CODES = (0, 137, 143)


def expected_from_spec(spec: BoxSpec, instance: str, host_cpus: int, host_memory: int) -> Expected:
    """A declared box. Its limits are capped at the host's number of CPUs and bytes of memory, 0 meaning unknown."""
    memory = min(spec.memory, host_memory) if host_memory else spec.memory
    return Expected(
        name=spec.name,
        container=container_name(instance, spec.name),
        state=_state(spec.state),
        image=spec.image,
        declared=True,
        workspace=spec.workspace,
        lead=spec.lead,
        agents=spec.agents,
        publish=(spec.publish.address, spec.publish.port) if spec.publish else None,
        limits=Limits(
            memory=memory,
            memory_swap=memory,
            pids=spec.pids,
            cpus=min(spec.cpus, host_cpus) if host_cpus else spec.cpus,
        ),
        gpus=spec.gpus != "none",
        credentials=spec.credentials,
    )


def _state(state: str) -> BoxState:
    return "absent" if state == "absent" else "stopped" if state == "stopped" else "started"


def expected_from_engine(inspect: Mapping[str, Any], box_json: Mapping[str, Any]) -> Expected:
    """A box that nobody declares in this run: ``inspect`` of its container and the ``box.json`` it was given.

    It is taken to be stopped on purpose when it ended as a stopped container ends.
    """
    config: Mapping[str, Any] = inspect.get("Config") or {}
    labels: Mapping[str, Any] = config.get("Labels") or {}
    state: Mapping[str, Any] = inspect.get("State") or {}
    stopped = state.get("Status") == "exited" and state.get("ExitCode") in _STOPPED_CODES and not state.get("OOMKilled")
    lead = box_json.get("lead")
    return Expected(
        name=str(labels.get(LABEL_BOX)),
        container=str(inspect.get("Name") or "").lstrip("/"),
        state="stopped" if stopped else "started",
        image=str(config.get("Image") or ""),
        declared=False,
        workspace=labels.get(LABEL_WORKSPACE),
        lead=str(lead) if lead else None,
        agents=tuple(str(agent) for agent in box_json.get("agents") or ()),
        publish=published(inspect),
        gpus=bool((inspect.get("HostConfig") or {}).get("DeviceRequests")),
        credentials=str(box_json.get("credentials") or "auto"),
    )


def published(inspect: Mapping[str, Any]) -> tuple[str, int] | None:
    """Address and port of the host on which the container's page is published."""
    bindings = (inspect.get("HostConfig") or {}).get("PortBindings") or {}
    for binding in bindings.get(f"{PAGE_PORT}/tcp") or []:
        port = str(binding.get("HostPort") or "")
        if port.isdigit():
            return str(binding.get("HostIp") or "0.0.0.0"), int(port)  # noqa: S104 - what an empty address means
    return None
