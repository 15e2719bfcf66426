"""Adopted boxes: containers that Agentbox did not make and never changes. All that it keeps of one is a record.

The record gives a container the name of a box, by which it is listed, examined and entered. Nothing here, and nothing
that reads it, starts, stops, renames or removes a container.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from . import _naming
from ._actions import ADOPT, FORGET, Action
from ._engine import Engine
from ._errors import DeclarationError, StateError
from ._plan import BoxPlan
from ._spec import BoxSpec
from ._state import (
    Directory,
    File,
    directory_differs,
    ensure_directory,
    entries,
    file_differs,
    json_file,
    read_json,
    write_file,
)
from ._values import is_engine_name

SCHEMA = 1
_SUFFIX = ".json"


@dataclass(frozen=True)
class Adoption:
    """One adopted box. ``container`` is the exact name of a container; ``state_dir`` that of whose record says so."""

    instance: str
    box: str
    container: str
    state_dir: str

    @property
    def path(self) -> str:
        """Of the record: JSON without secrets, readable by everybody."""
        return f"{_directory(self.state_dir).path}/{self.box}{_SUFFIX}"

    def file(self) -> File:
        content = {key: value for key, value in asdict(self).items() if key != "state_dir"}
        return json_file(self.path, {"schema": SCHEMA, **content}, 0o644)


def _directory(state_dir: str) -> Directory:
    """Who may use the engine without being root sees what root adopted."""
    return Directory(f"{state_dir}/adopted", 0o755)


def of_instance(state_dir: str, instance: str) -> dict[str, Adoption]:
    """The adopted boxes of one state directory by name. What is no record is left out."""
    found = (_read(path, state_dir, instance) for path in entries(_directory(state_dir).path))
    return {adoption.box: adoption for adoption in found if adoption}


def known(state_root: str, instance: str = "") -> list[Adoption]:
    """The adopted boxes of ``instance``, or of all, that a caller knows: those below ``state_root`` and root's.

    Of two records of one box the caller's own counts.
    """
    found: dict[tuple[str, str], Adoption] = {}
    for root in dict.fromkeys((state_root, _naming.default_state_root(0, {}))):
        with contextlib.suppress(StateError):  # somebody else's, who lets nobody look
            for state_dir in [_naming.state_dir(root, instance)] if instance else entries(root):
                for adoption in of_instance(state_dir, Path(state_dir).name).values():
                    found.setdefault((adoption.instance, adoption.box), adoption)
    return [found[key] for key in sorted(found)]


def _read(path: str, state_dir: str, instance: str) -> Adoption | None:
    name = Path(path).name.removesuffix(_SUFFIX)
    if not path.endswith(_SUFFIX) or not _naming.is_name(name):
        return None
    container = (read_json(path) or {}).get("container")
    if not isinstance(container, str) or not is_engine_name(container):
        return None
    return Adoption(instance, name, container, state_dir)


def inspect(engine: Engine, adoption: Adoption) -> dict[str, Any] | None:
    """Answer of ``inspect``; None where there is no container of exactly that name, or Agentbox made it."""
    found = engine.inspect_container(adoption.container)
    if found is None or found["Name"] != f"/{adoption.container}":  # the engine takes the start of an id for a name too
        return None
    return None if is_ours(found["Config"].get("Labels") or {}) else found


def found(engine: Engine, state_root: str, instance: str = "") -> Iterator[tuple[Adoption, dict[str, Any]]]:
    """Those of ``known`` whose containers are there, with the answers of ``inspect``."""
    for adoption in known(state_root, instance):
        container = inspect(engine, adoption)
        if container:
            yield adoption, container


def is_ours(labels: Mapping[str, str]) -> bool:
    """Whether Agentbox made the container with these labels, for whatever instance.

    One that somebody runs from an image of Agentbox has the image's labels, which name no state directory.
    """
    return labels.get(_naming.LABEL_MANAGED) == "true" and _naming.LABEL_STATE_DIR in labels


def plan(spec: BoxSpec, state_dir: str, instance: str, container: Mapping[str, Any] | None, *, taken: bool) -> BoxPlan:
    """Plan for a box that is declared adopted.

    ``container`` is what the engine lists under the declared name; ``taken`` says that Agentbox has a box of its own
    of that name. Raises ``DeclarationError`` for what can't be adopted.
    """
    wanted = Adoption(instance, spec.name, str(spec.container), state_dir)
    if container is None:
        raise DeclarationError(
            f"{spec.path}.container: there is no container {wanted.container}",
            "Name an existing one, or declare the box absent",
        )
    if is_ours(container.get("Labels") or {}):
        raise DeclarationError(
            f"{spec.path}.container: {wanted.container} was made by Agentbox", "Only others' containers can be adopted"
        )
    if taken:
        raise DeclarationError(
            f"{spec.path}.name: Agentbox made a box {spec.name} itself", "Choose another name, or remove that box first"
        )
    before = of_instance(state_dir, instance).get(spec.name)
    if before == wanted and not directory_differs(_directory(state_dir)) and not file_differs(wanted.file()):
        return BoxPlan(spec.name, wanted.container, ())
    return BoxPlan(
        spec.name,
        wanted.container,
        (Action(ADOPT, wanted.container, wanted),),
        before={"adopted": before.container if before else None},
        after={"adopted": wanted.container},
    )


def forgotten(plan_: BoxPlan, adoption: Adoption | None) -> BoxPlan:
    """A box's plan, with the record gone in the end: it is no longer adopted. The container stays."""
    if adoption is None:
        return plan_
    return replace(
        plan_,
        actions=(*plan_.actions, Action(FORGET, adoption.container, adoption.path)),
        before={**plan_.before, "adopted": adoption.container},
        after={**plan_.after, "adopted": None},
    )


def write(adoption: Adoption) -> None:
    """Put the record in place."""
    ensure_directory(_directory(adoption.state_dir))
    write_file(adoption.file())
