"""Filters over lists of box declarations: parting secrets from the rest, choosing, wanting another state.

A declaration is one document for its author; the module gets the secrets in an option of their own, which
Ansible hides from every output. No message of these filters holds a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.agentbox.fleet.plugins.module_utils import _spec
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import DeclarationError

KEY = "secrets"


def without_secrets(boxes: Any) -> list[Any]:
    """The declarations without their ``secrets``.

    Whatever else is wrong with an item is left for the module to name, with its path.
    """
    return [_without_secrets(box) for box in _listed(boxes)]


def only_secrets(boxes: Any) -> dict[str, dict[str, Any]]:
    """``{box name: {variable: value}}`` of the boxes that declare secrets."""
    found: dict[str, dict[str, Any]] = {}
    for index, box in enumerate(_listed(boxes)):
        if not isinstance(box, Mapping) or box.get(KEY) is None:
            continue
        path = f"boxes[{index}]"
        name = box.get("name")
        if not isinstance(name, str):
            raise AnsibleFilterError(f"{path}.name: text expected, found {_kind(name)}")
        if name in found:
            raise AnsibleFilterError(f"{path}.name: {name!r} is declared twice")
        if not isinstance(box[KEY], Mapping):
            raise AnsibleFilterError(
                f"{path}.{KEY}: a mapping of variable names to values expected, found {_kind(box[KEY])}"
            )
        found[name] = dict(box[KEY])
    return found


def with_state(boxes: Any, state: str) -> list[Any]:
    """The declarations with another ``state``, but for those that are declared absent.

    An adopted box can be nothing else but absent. What is no declaration stays for the module to name.
    """
    kept = ("absent",) if state == "absent" else ("absent", "adopted")
    return [
        {**box, "state": state} if isinstance(box, Mapping) and box.get("state") not in kept else box
        for box in _listed(boxes)
    ]


def that_exist(boxes: Any, found: Any) -> list[Any]:
    """The declarations of boxes that ``found``, as module box_info returns them, has.

    What is no declaration, or has no name, stays for the module to name.
    """
    names = {box["name"] for box in found}
    return [
        box
        for box in _listed(boxes)
        if not isinstance(box, Mapping) or not isinstance(box.get("name"), str) or box["name"] in names
    ]


def declaration_problems(boxes: Any, instance: str, manifests: Mapping[str, Any]) -> str:
    """What module ``box`` would refuse about the declarations alone, or an empty string; needs no host."""
    try:
        _spec.parse_boxes(without_secrets(boxes), instance=instance, manifests=manifests, secrets=only_secrets(boxes))
    except DeclarationError as error:
        return str(error)
    return ""


def _without_secrets(box: Any) -> Any:
    if not isinstance(box, Mapping):
        return box
    return {key: value for key, value in box.items() if key != KEY}


def _listed(boxes: Any) -> list[Any]:
    """``boxes`` as a list; nothing declared (None, an empty string) is an empty one."""
    if boxes is None or boxes == "":
        return []
    if not isinstance(boxes, list | tuple):
        raise AnsibleFilterError(f"boxes: a list of boxes expected, found {_kind(boxes)}")
    return list(boxes)


def _kind(value: Any) -> str:
    """What ``value`` is, in the words of YAML; never the value itself, which may hold a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return "text"
    return f"a value of type {type(value).__name__}"


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "declaration_problems": declaration_problems,
            "only_secrets": only_secrets,
            "that_exist": that_exist,
            "with_state": with_state,
            "without_secrets": without_secrets,
        }
