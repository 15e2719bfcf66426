"""Agent manifests: what an image has to hold and how to tell that it does.

Pure functions over the dictionaries that ``agents/*.yml`` and a user's own manifests hold; the shapes are defined and
checked by ``agents/schema.json``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._errors import DeclarationError

LATEST = "latest"
Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Agent:
    """The part of a manifest that concerns images."""

    name: str
    package: str
    version: str  # a number, or LATEST
    version_argv: tuple[str, ...]
    version_pattern: str  # its first group is the version

    @property
    def build_argument(self) -> str:
        """The build argument that hands the version to the agent's stage, see ``templates/image/Dockerfile.j2``."""
        return "VERSION_" + self.name.upper().replace("-", "_")

    def read_version(self, output: str) -> str | None:
        """The version in what the version command printed, None when it is not there."""
        found = re.search(self.version_pattern, output, re.MULTILINE)
        return found.group(1) if found else None


def select(manifests: Mapping[str, Manifest], names: Sequence[str]) -> list[Agent]:
    """The agents called ``names``, in that order.

    Raises ``DeclarationError`` for a name without manifest and for a name given twice.
    """
    for position, name in enumerate(names):
        if name not in manifests:
            known = ", ".join(sorted(manifests)) or "none"
            raise DeclarationError(f"agents[{position}]: there is no manifest named {name!r} (known: {known})")
        if name in names[:position]:
            raise DeclarationError(f"agents[{position}]: {name!r} is named twice")
    return [_agent(manifests[name]) for name in names]


def _agent(manifest: Manifest) -> Agent:
    package, version = manifest["package"], manifest["version"]
    return Agent(
        name=manifest["name"],
        package=package["name"],
        version=str(package["version"]),
        version_argv=tuple(version["argv"]),
        version_pattern=version["pattern"],
    )


def agents_label(agents: Mapping[str, str]) -> str:
    """``claude=2.1.332 codex=0.171.0``."""
    return " ".join(f"{name}={version}" for name, version in sorted(agents.items()))


def parse_agents(label: str) -> dict[str, str]:
    """Agents and versions of an image by its label; blanks or commas separate them."""
    return dict(word.split("=", 1) for word in label.replace(",", " ").split() if "=" in word)


def merge(own: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``own`` with the values of ``over`` laid on top, mapping by mapping; lists are replaced."""
    merged = dict(own)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
