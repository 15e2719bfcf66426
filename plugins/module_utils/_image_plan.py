"""What an image is made of, and whether the one that is there is that: pure functions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._base import Base
from ._errors import EngineUnsupportedError
from ._manifests import LATEST, Agent, parse_agents
from ._naming import LABEL_AGENTS, LABEL_BASE, LABEL_CONTEXT, LABEL_INSTANCE

SCHEMA = 1
# Names of machines as the engine or the kernel give them; pinned binaries exist for these two.
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_SHOWN_REASONS = 5
_LATEST_TAG = "latest"


def previous_name(name: str) -> str:
    """The tag of the image that ``name`` meant before: ``x:previous`` of ``x:latest``, else ``x:<tag>-previous``."""
    repository, _, tag = name.rpartition(":")
    return f"{repository}:previous" if tag == _LATEST_TAG else f"{repository}:{tag}-previous"


def machine(name: str) -> str:
    """The architecture's name in package archives; ``EngineUnsupportedError`` for one without pinned binaries."""
    if name not in _MACHINES:
        raise EngineUnsupportedError(
            f"the engine's machine is {name or 'unknown'}, images can be built for x86_64 and aarch64",
            "Use a machine of one of these kinds",
        )
    return _MACHINES[name]


@dataclass(frozen=True)
class Inputs:
    """Everything that decides what comes out of a build. Times, users and proxies don't."""

    dockerfile: str
    files: Mapping[str, str]
    arguments: Mapping[str, str]
    base_id: str
    architecture: str

    def fingerprints(self) -> dict[str, str]:
        """A short digest per input, so that a change can be named."""
        values = {
            "Dockerfile": self.dockerfile,
            "base": self.base_id,
            "architecture": self.architecture,
            **{f"argument {name}": value for name, value in self.arguments.items()},
            **self.files,
        }
        return {name: _sha256(value)[:16] for name, value in sorted(values.items())}

    def digest(self) -> str:
        """The identity of the image, ``sha256:`` and 64 hexadecimal digits."""
        value = [SCHEMA, self.dockerfile, dict(self.files), dict(self.arguments), self.base_id, self.architecture]
        return f"sha256:{_sha256(json.dumps(value, sort_keys=True))}"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Record:
    """What the image of a tag was made of; kept in the state directory, without secrets.

    ``origin`` is what it was fetched as, empty for an image that was built here. ``stages`` are IDs of what the builder
    has left in the engine.
    """

    name: str = ""
    context: str = ""
    base: Base | None = None
    base_id: str = ""
    agents: Mapping[str, str] | None = None
    inputs: Mapping[str, str] | None = None
    image_id: str = ""
    origin: str = ""
    stages: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        base = self.base
        return {
            "schema": SCHEMA,
            "name": self.name,
            "context": self.context,
            "base": {"wanted": base.wanted, "source": base.source, "reference": base.reference} if base else None,
            "base_id": self.base_id,
            "agents": dict(self.agents or {}),
            "inputs": dict(self.inputs or {}),
            "image_id": self.image_id,
            "origin": self.origin,
            "stages": list(self.stages),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Record:
        """The record in ``value``; an empty one when there is none or another schema's."""
        if not value or value.get("schema") != SCHEMA:
            return cls()
        base = value.get("base")
        return cls(
            name=str(value.get("name", "")),
            context=str(value.get("context", "")),
            base=Base(base["wanted"], base["source"], base["reference"]) if base else None,
            base_id=str(value.get("base_id", "")),
            agents=dict(value.get("agents") or {}),
            inputs=dict(value.get("inputs") or {}),
            image_id=str(value.get("image_id", "")),
            origin=str(value.get("origin", "")),
            stages=tuple(value.get("stages") or ()),
        )


@dataclass(frozen=True)
class Live:
    """The image that carries the tag now."""

    image_id: str
    context: str
    instance: str
    base: str
    agents: Mapping[str, str]
    size: int = 0  # bytes
    architecture: str = ""
    digests: Sequence[str] = ()  # what registries call it, "repository@sha256:..."

    @classmethod
    def from_inspect(cls, answer: Mapping[str, Any] | None) -> Live | None:
        """From the engine's answer; None for none."""
        if answer is None:
            return None
        found = (answer.get("Config") or {}).get("Labels") or {}
        return cls(
            image_id=str(answer["Id"]),
            context=found.get(LABEL_CONTEXT, ""),
            instance=found.get(LABEL_INSTANCE, ""),
            base=found.get(LABEL_BASE, ""),
            agents=parse_agents(found.get(LABEL_AGENTS, "")),
            size=int(answer.get("Size") or 0),
            architecture=str(answer.get("Architecture", "")),
            digests=tuple(answer.get("RepoDigests") or ()),
        )


def reasons(live: Live | None, inputs: Inputs | None, record: Record, no_cache: bool) -> list[str]:
    """Why the image has to be built; empty when it is what it should be.

    ``inputs`` None means that they can't be known before the build (a base that is yet to be had, in check mode).
    """
    if live is None:
        return ["there is no image of that name"]
    if no_cache:
        return ["asked for"]
    if inputs is None:
        return ["there is no base image"]
    if live.context == inputs.digest():
        return []
    return _changes(record.inputs or {}, inputs.fingerprints()) or ["its recorded content is another one"]


def objections(image: Live, instance: str, agents: Sequence[Agent], architecture: str) -> list[str]:
    """Why an image that was made elsewhere can't be this instance's image; empty when it can."""
    found = []
    if image.instance != instance:
        found.append(f"it was made for {f'instance {image.instance}' if image.instance else 'no instance of Agentbox'}")
    if not image.context:
        found.append(f"it does not say what it was made of (label {LABEL_CONTEXT})")
    if image.architecture != architecture:
        found.append(f"it is for {image.architecture or 'an unknown machine'}, this engine is {architecture}")
    return found + [text for agent in agents if (text := _unlike(image, agent))]


def _unlike(image: Live, agent: Agent) -> str:
    version = image.agents.get(agent.name)
    if version is None:
        return f"it holds no {agent.name}"
    return "" if agent.version in (LATEST, version) else f"it holds {agent.name} {version} instead of {agent.version}"


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    if not before:
        return []
    names = sorted({name for name in {**before, **after} if before.get(name) != after.get(name)})
    shown = [f"{name} {_verb(name, before, after)}" for name in names[:_SHOWN_REASONS]]
    return shown + ([f"{len(names) - _SHOWN_REASONS} more"] if len(names) > _SHOWN_REASONS else [])


def _verb(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    if name not in before:
        return "is new"
    return "changed" if name in after else "is gone"
