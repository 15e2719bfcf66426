"""The manifests of all agents, checked."""

from __future__ import annotations

DOCUMENTATION = r"""
name: manifests
short_description: The manifests of all agents, checked
version_added: 0.1.0
description:
  - Reads, on the controller, the agent manifests that come with the collection, lays the given ones over them and
    checks the outcome against the schema of manifests. An error names the agent and the path of the wrong key.
options:
  _terms:
    description:
      - Mappings of an agent's name to its manifest, or to the part of it that differs from the collection's.
    type: list
    elements: dict
requirements:
  - Python's C(jsonschema) and C(PyYAML) on the controller
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Show the pinned version of an agent
  ansible.builtin.debug:
    msg: "{{ lookup('agentbox.fleet.manifests').claude.package.version }}"

- name: Show another one
  ansible.builtin.debug:
    msg: "{{ lookup('agentbox.fleet.manifests', {'claude': {'package': {'version': '2.1.300'}}}).claude }}"
"""

RETURN = r"""
_raw:
  description: One mapping of agent names to manifests.
  type: list
  elements: dict
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.module_utils.common.yaml import yaml_load
from ansible.plugins.lookup import LookupBase
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import DeclarationError
from ansible_collections.agentbox.fleet.plugins.module_utils._manifests import merge

AGENTS = Path(__file__).resolve().parents[2] / "agents"


def manifests(*own: Mapping[str, Any], folder: Path = AGENTS) -> dict[str, dict[str, Any]]:
    """Agent name to manifest: those of ``folder`` with ``own`` laid over them.

    Raises ``DeclarationError`` for the first manifest in ``own`` that the schema refuses. Those that stay as they come
    are checked by a test: the schema's library takes ten times as long to load as all of them.
    """
    found = {path.stem: yaml_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yml"))}
    for given in own:
        found = merge(found, given)
    touched = dict.fromkeys(name for given in own for name in given)
    if touched:
        schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
        for name in touched:
            check(name, found[name], schema)
    return found


def check(name: str, manifest: Any, schema: Mapping[str, Any]) -> None:
    """Raise ``DeclarationError`` unless ``manifest`` is what the schema says and bears its own name."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(schema).iter_errors(manifest))
    if error is not None:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        raise DeclarationError(f"manifests.{name}{path}: {_explained(error)}")
    if manifest["name"] != name:
        raise DeclarationError(f"manifests.{name}.name: is {manifest['name']!r}, has to be {name!r}")
    if not _finds_a_group(manifest["version"]["pattern"]):
        raise DeclarationError(f"manifests.{name}.version.pattern: must be a regular expression with a group")
    if any(ord(character) < ord(" ") for text in _texts(manifest) for character in text):
        raise DeclarationError(f"manifests.{name}: holds a line break or another control character")


def _finds_a_group(pattern: str) -> bool:
    try:
        return re.compile(pattern).groups > 0
    except re.error:
        return False


def _texts(value: Any) -> Iterator[str]:
    """All texts in a manifest, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for part in pair for text in _texts(part))
    elif isinstance(value, list):
        yield from (text for item in value for text in _texts(item))


def _explained(error: Any) -> str:
    """A schema error in words; an unknown key comes with the known one that resembles it."""
    if error.validator != "additionalProperties":
        return str(error.message)
    known = list(error.schema.get("properties", {}))
    unknown = next(key for key in error.instance if key not in known)
    near = difflib.get_close_matches(unknown, known, n=1)
    return f"unknown key {unknown!r}" + (f", did you mean {near[0]!r}?" if near else "")


class LookupModule(LookupBase):  # type: ignore[misc]
    """See ``DOCUMENTATION``."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        self.set_options(var_options=variables, direct=kwargs)
        for term in terms:
            if not isinstance(term, Mapping):
                raise AnsibleLookupError(f"manifests: must be a mapping of names to manifests, not {term!r}")
        try:
            return [manifests(*terms)]
        except DeclarationError as error:
            raise AnsibleLookupError(str(error)) from error
