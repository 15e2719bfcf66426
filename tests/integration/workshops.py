"""A place for images in tests: one instance's image, its options, and what the engine has of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker.errors
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError
from ansible_collections.agentbox.fleet.plugins.modules import image

from agentbox._shared import _naming
from tests.integration import engines, runs

CANARY = "canary-of-a-password"
# On top of the stand-in's image, whose user and shell are those of every image.
DOCKERFILE = """\
ARG BASE
FROM ${BASE} AS latest-tool
USER root
ARG ASKED
COPY latest.txt /latest
RUN grep -q '^[0-9]' /latest
FROM ${BASE}
USER root
COPY host/ marker.txt /host/
ARG WORD=none
ARG VERSION_TOOL
RUN printf '#!/bin/sh\\necho "tool %s"\\n' "${VERSION_TOOL}" > /usr/local/bin/tool && chmod 0755 /usr/local/bin/tool
"""
# A fifth of that, to travel; in the place of the programs that the role asks for is one that does nothing.
SMALL = """\
ARG BASE
FROM ${BASE}
RUN useradd --uid 1000 --gid 0 --create-home --shell /bin/bash agent && mkdir -p /opt/agentbox/bin && \
    for name in tmux git curl rg fd node npm; do ln -s /bin/true /usr/local/bin/$name; done && \
    ln -s /bin/true /opt/agentbox/bin/python
ARG VERSION_TOOL
RUN printf '#!/bin/sh\\necho "tool %s"\\n' "${VERSION_TOOL}" > /usr/local/bin/tool && chmod 0755 /usr/local/bin/tool
"""
FILES = {"marker.txt": "one\n", "latest.txt": "1.2.3\n"}
MANIFEST: dict[str, Any] = {
    "name": "tool",
    "title": "Tool",
    "package": {"installer": "npm", "name": "tool", "version": "1.2.3"},
    "binary": "tool",
    "version": {"argv": ["tool", "--version"], "pattern": r"^tool (\d+\.\d+\.\d+)$"},
    "config": {"directory": ".tool"},
    "launch": {"argv": ["tool"], "permission_modes": ["default"]},
}


@dataclass
class Workshop:
    """One instance's image: its options and what the engine has of it."""

    engine: Any  # docker.APIClient, partly untyped
    instance: str
    directory: Path
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def tag(self) -> str:
        return f"{self.instance}:latest"

    def arguments(self, **options: Any) -> dict[str, Any]:
        """The module's options."""
        return {
            "name": self.tag,
            "instance": self.instance,
            "dockerfile": DOCKERFILE,
            "files": FILES,
            "manifests": {"tool": MANIFEST},
            "agents": ["tool"],
            "base": engines.IMAGE,
            "min_free": "1m",
            "state_root": str(self.directory / "state"),
            "progress": str(self.progress),
            **self.options,
            **options,
        }

    def play(self, *, check: bool = False, **options: Any) -> runs.Result:
        """The result of the module run by Ansible."""
        return runs.play([runs.module_task("image", self.arguments(**options))], check=check, diff=True).results[0]

    def build(self, *, check: bool = False, **options: Any) -> runs.Result:
        """As ``play``, within this process: all of the module but its frame, in a tenth of the time."""
        defaults = {name: option.get("default") for name, option in image.ARGUMENT_SPEC.items()}
        try:
            return image.run({**defaults, **self.arguments(**options)}, check)
        except AgentboxError as error:
            return {"failed": True, "msg": str(error)}

    @property
    def progress(self) -> Path:
        return self.directory / "progress"

    @property
    def image(self) -> dict[str, Any] | None:
        """What the engine says about the tag."""
        try:
            found: dict[str, Any] = self.engine.inspect_image(self.tag)
        except docker.errors.ImageNotFound:
            return None
        return found

    @property
    def image_id(self) -> str:
        assert self.image is not None
        return str(self.image["Id"])

    def images(self) -> list[str]:
        """IDs of all images of the instance, tagged or not."""
        wanted = {"label": f"{_naming.LABEL_INSTANCE}={self.instance}"}
        return [image["Id"] for image in self.engine.images(filters=wanted)]

    def remove(self) -> None:
        for image_id in self.images():
            self.engine.remove_image(image_id, force=True)


def output_of(workshop: Workshop, image_id: str, script: str) -> str:
    """What a script prints as root in a container of an image."""
    labels = {_naming.LABEL_INSTANCE: workshop.instance}
    container = workshop.engine.create_container(image_id, command=["bash", "-c", script], user="0", labels=labels)[
        "Id"
    ]
    workshop.engine.start(container)
    workshop.engine.wait(container)
    output: bytes = workshop.engine.logs(container)
    workshop.engine.remove_container(container, v=True)
    return output.decode()


def with_version(version: str) -> dict[str, Any]:
    return {"tool": {**MANIFEST, "package": {**MANIFEST["package"], "version": version}}}
