"""Boxes as the engine shows them; nothing here changes anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentbox._shared import _naming, _ports
from agentbox._shared._engine import Engine
from agentbox._shared._errors import AgentboxError

from .exits import UsageError


@dataclass(frozen=True)
class SeenBox:
    """One box. ``state`` is the engine's word (running, exited, created, ...), ``health`` '' when it does not run."""

    name: str
    container: str
    state: str
    health: str
    workspace: str
    state_dir: str
    page: str | None
    inspect: Mapping[str, Any]
    adopted: bool = False  # its container is not Agentbox's, and is never changed

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def state_told(self) -> str:
        """The state in the words of the commands: what ``stop`` stops is stopped, what failed has exited."""
        from agentbox._shared._health_expected import was_stopped

        stopped = self.state == "exited" and was_stopped(self.inspect)
        state = "stopped" if stopped else self.state
        return f"{state}, adopted" if self.adopted else state


def find(engine: Engine, instance: str, name: str, state_root: str) -> SeenBox | None:
    """The box ``name``, made or adopted, or None. Raises ``UsageError`` when a container of that name is none of ours.

    ``state_root`` is the caller's, in which stands what is adopted.
    """
    container = _naming.container_name(instance, name)
    inspect = engine.inspect_container(container)
    labels = _labels(inspect) if inspect else {}
    if inspect and (labels.get(_naming.LABEL_INSTANCE), labels.get(_naming.LABEL_BOX)) == (instance, name):
        return _seen(inspect)
    adopted = next((box for box in find_adopted(engine, instance, state_root) if box.name == name), None)
    if inspect and not adopted:
        raise UsageError(
            f"there is a container {container} that Agentbox did not make",
            "Choose another set of boxes with --instance, or remove that container",
        )
    return adopted


def find_all(engine: Engine, instance: str, state_root: str) -> list[SeenBox]:
    """All boxes of an instance, made or adopted, by name."""
    from agentbox._shared import _info

    rows = engine.containers(stopped=True, labels=[f"{_naming.LABEL_INSTANCE}={instance}"])
    answers = engine.inspect_containers([row["Id"] for row in rows if _info.is_box(row)])
    found = (answer.result() for answer in answers.values())
    made = [_seen(inspect) for inspect in found if inspect]
    names = {box.name for box in made}
    adopted = [box for box in find_adopted(engine, instance, state_root) if box.name not in names]
    return sorted([*made, *adopted], key=lambda box: box.name)


def find_adopted(engine: Engine, instance: str, state_root: str) -> list[SeenBox]:
    """The adopted boxes whose containers are there, by name. Nothing in their labels is about a box."""
    from agentbox._shared import _adopt  # with all that plans boxes, which who enters a box need not wait for

    return [
        replace(_seen(inspect), name=adoption.box, workspace="", state_dir=adoption.state_dir, page=None, adopted=True)
        for adoption, inspect in _adopt.found(engine, state_root, instance)
    ]


def is_up(engine: Engine, box: SeenBox) -> bool:
    """Whether the box runs and is healthy.

    The engine's first verdict takes half a minute from the start; until then the box itself is asked.
    """
    if not box.running or box.health != "starting":
        return box.running and box.health == "healthy"
    from .reports import is_ready

    return is_ready(engine, box)


def has_volume(engine: Engine, instance: str, name: str) -> bool:
    """Whether the volume ``name`` is there and the instance made it."""
    rows = engine.volumes(labels=[f"{_naming.LABEL_INSTANCE}={instance}"])
    return any(row["Name"] == name for row in rows)


def _labels(inspect: Mapping[str, Any]) -> Mapping[str, str]:
    return (inspect.get("Config") or {}).get("Labels") or {}


def _seen(inspect: Mapping[str, Any]) -> SeenBox:
    labels = _labels(inspect)
    state = inspect.get("State") or {}
    return SeenBox(
        name=labels.get(_naming.LABEL_BOX, ""),
        container=str(inspect.get("Name", "")).lstrip("/"),
        state=str(state.get("Status", "unknown")),
        # The engine keeps the last verdict on a box that has ended since.
        health=str((state.get("Health") or {}).get("Status", "")) if state.get("Running") else "",
        workspace=labels.get(_naming.LABEL_WORKSPACE, ""),
        state_dir=labels.get(_naming.LABEL_STATE_DIR, ""),
        page=_page(inspect),
        inspect=inspect,
    )


def _page(inspect: Mapping[str, Any]) -> str | None:
    """URL of the box's page; of a stopped box too, where it will be."""
    published = _ports.published(inspect)
    if not published:
        return None
    address, port = published
    host = "127.0.0.1" if address == "0.0.0.0" else address  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def secrets(paths: _naming.BoxPaths) -> dict[str, str]:
    """The values of a box's secrets by name."""
    try:
        return {path.name: path.read_text(encoding="utf-8") for path in Path(paths.secrets).iterdir()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise AgentboxError(f"cannot read the secrets of box {paths.box}: {error}") from error
