"""Whose container of a box's name it is. What others made is never touched. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _drift, _naming
from ._box import Box
from ._errors import AgentboxError
from ._spec import SCHEMA


class ForeignBoxError(AgentboxError):
    """A container of the box's name belongs to somebody else."""


class NewerBoxError(AgentboxError):
    """A newer version of Agentbox made the box, in ways that this one does not know."""


def is_own(labels: Mapping[str, str], instance: str, state_dir: str) -> bool:
    """Whether a container with these labels was made for this instance from this state directory."""
    found = tuple(
        labels.get(label) for label in (_naming.LABEL_MANAGED, _naming.LABEL_INSTANCE, _naming.LABEL_STATE_DIR)
    )
    return found == ("true", instance, state_dir)


def check_owner(name_key: str, live: Mapping[str, Any] | None, instance: str, box: str, state_dir: str) -> None:
    """Raise ``ForeignBoxError`` if the container of that name is not this box of this state directory.

    ``name_key`` is the path of the declaration's name, for the message.
    """
    if live is None:
        return
    container = str(live["Name"]).lstrip("/")
    found = live["Config"].get("Labels") or {}
    if found.get(_naming.LABEL_MANAGED) != "true":
        raise ForeignBoxError(
            f"{name_key}: container {container} exists and was not made by Agentbox", "Choose another name or instance"
        )
    if (found.get(_naming.LABEL_INSTANCE), found.get(_naming.LABEL_BOX)) != (instance, box):
        raise ForeignBoxError(
            f"{name_key}: container {container} is box {found.get(_naming.LABEL_BOX)} of instance "
            f"{found.get(_naming.LABEL_INSTANCE)}",
            "Choose another name or instance",
        )
    if found.get(_naming.LABEL_STATE_DIR) != state_dir:
        raise ForeignBoxError(
            f"{name_key}: container {container} is another user's box: its state is kept in "
            f"{found.get(_naming.LABEL_STATE_DIR)}, this run's is {state_dir}",
            "Choose another name or instance, or run as that user",
        )


def check_workspace(box: Box, live: Mapping[str, Any] | None) -> None:
    """A box of that name for another workspace is most likely another box: never replaced unasked."""
    if live is None or box.spec.recreate != "never":
        return
    other = (live["Config"].get("Labels") or {}).get(_naming.LABEL_WORKSPACE)
    if other != box.workspace:
        raise ForeignBoxError(
            f"{box.spec.path}.workspace: the box named {box.spec.name} works in {other}, not in {box.workspace}",
            "Choose another name, or remove that box first",
        )


def check_schema(box: Box, live: Mapping[str, Any] | None) -> None:
    found = _drift.schema(live["Config"].get("Labels")) if live else 0
    if found > SCHEMA:
        raise NewerBoxError(
            f"box {box.spec.name} was made by a newer Agentbox (schema {found}, this one knows up to {SCHEMA})",
            "Use that version, or remove the box first; its volumes stay",
        )
