"""What boxes an instance has, read from the engine, and from records which containers are adopted. Changes nothing.

Labels and names come from the engine and are data: they are returned, never interpreted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _adopt, _naming
from ._adopt import Adoption
from ._engine import Engine
from ._errors import StateError
from ._helper import SUFFIX as PREPARE
from ._ports import Publish
from ._state import read_json
from ._swap import ASIDE, explain_exit


def boxes(
    engine: Engine | None, instance: str = "", names: list[str] | None = None, *, state_root: str
) -> list[dict[str, Any]]:
    """The boxes of ``instance``, or of all, and those of them in ``names``, by instance and name.

    Adopted ones are those that stand below ``state_root`` and in root's state. No engine has no boxes.
    """
    if engine is None:
        return []
    label = f"{_naming.LABEL_INSTANCE}={instance}" if instance else _naming.LABEL_BOX
    found = engine.containers(stopped=True, labels=[label])
    inspected = engine.inspect_containers([item["Id"] for item in found if is_box(item)])
    containers = (answer.result() for answer in inspected.values())
    result = [with_lead(describe(container)) for container in containers if container]
    result += _adopted(_adopt.found(engine, state_root, instance), result)
    wanted = (box for box in result if names is None or box["name"] in names)
    return sorted(wanted, key=lambda box: (str(box["instance"]), str(box["name"])))


def _adopted(
    found: Iterable[tuple[Adoption, Mapping[str, Any]]], made: Iterable[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The adopted boxes that are there; a box that Agentbox made keeps its name."""
    taken = {(box["instance"], box["name"]) for box in made}
    for adoption, container in found:
        if (adoption.instance, adoption.box) not in taken:
            yield describe_adopted(adoption, container)


def describe_adopted(adoption: Adoption, container: Mapping[str, Any]) -> dict[str, Any]:
    """An adopted box. Its labels are what others wrote, so none of them tells anything about it."""
    return {
        **describe(container),
        "name": adoption.box,
        "instance": adoption.instance,
        "adopted": True,
        "context": None,
        "workspace": None,
        "state_dir": adoption.state_dir,
        "yolo": False,
        "lead": None,
        "page": None,
        "attach": None,
    }


def is_box(item: Mapping[str, Any]) -> bool:
    """Whether a listed container is a box, and not one set aside or made to prepare volumes."""
    aside = all(name.endswith((ASIDE, PREPARE)) for name in item.get("Names") or [])
    return _naming.LABEL_BOX in (item.get("Labels") or {}) and not aside


def describe(container: Mapping[str, Any]) -> dict[str, Any]:
    """One box from the answer of ``inspect``."""
    labels = container["Config"].get("Labels") or {}
    state = container["State"]
    running = bool(state.get("Running"))
    name = str(container["Name"]).lstrip("/")
    return {
        "name": labels.get(_naming.LABEL_BOX),
        "instance": labels.get(_naming.LABEL_INSTANCE),
        "container": name,
        "adopted": False,
        "id": container["Id"],
        "state": state["Status"],
        "health": (state.get("Health") or {}).get("Status", "none") if running else "none",
        "exit": None if running or state["Status"] == "created" else explain_exit(container),
        "started": state.get("StartedAt") if running else None,
        "image": container["Config"].get("Image"),
        "context": labels.get(_naming.LABEL_CONTEXT),
        "workspace": labels.get(_naming.LABEL_WORKSPACE),
        "state_dir": labels.get(_naming.LABEL_STATE_DIR),
        "yolo": labels.get(_naming.LABEL_YOLO) == "true",
        "uid": _uid(container),
        "page": next(_pages(container), None) if running else None,
        "attach": _naming.attach_command(name),
        "labels": dict(labels),
    }


def with_lead(box: dict[str, Any]) -> dict[str, Any]:
    """``box`` with its lead, which stands in its state directory; None when it has none or that can't be read."""
    name, state_dir = str(box["name"]), str(box["state_dir"])
    found = None
    # Labels are anybody's word, so that a path is made of them with care, and nothing but a name comes back.
    if _naming.is_name(name) and state_dir.startswith("/"):
        with contextlib.suppress(StateError):
            found = read_json(f"{_naming.BoxPaths(state_dir, name).mount}/box.json")
    lead = (found or {}).get("lead")
    return {**box, "lead": lead if isinstance(lead, str) and _naming.is_name(lead) else None}


def _uid(container: Mapping[str, Any]) -> int | None:
    text = str(container["Config"].get("User") or "").partition(":")[0]
    return int(text) if text.isdigit() else None


def _pages(container: Mapping[str, Any]) -> Iterator[str]:
    bindings = container["HostConfig"].get("PortBindings") or {}
    for binding in bindings.get(f"{_naming.PAGE_PORT}/tcp") or []:
        yield f"http://{Publish(binding.get('HostIp') or '127.0.0.1', int(binding['HostPort']))}"
