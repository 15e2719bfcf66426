"""Building an image anew after one of its two agents got another version, against building all of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentbox._shared import _naming
from tests import images
from tests.integration import engines

from . import commands
from .commands import PLAYBOOKS, BenchError
from .report import Figure
from .timing import Pair, Side

# Of each agent a published version that is not the pinned one.
_OTHER = {"claude": "2.1.331", "codex": "0.169.0"}


@dataclass(frozen=True)
class Image:
    """The image of an instance whose base is its own, so that no build before has left a layer of it."""

    engine: Any  # docker.APIClient, partly untyped
    place: Path
    instance: str

    @property
    def base(self) -> str:
        return f"{self.instance}:base"

    def make_base(self) -> None:
        """A base that differs from the tests' in nothing but its identity."""
        origin = self.engine.inspect_image(images.STANDIN)["Config"]["Labels"][_naming.LABEL_BASE]
        container = self.engine.create_container(origin, ["true"])["Id"]
        label = f"LABEL {_naming.LABEL_INSTANCE}={self.instance}"
        self.engine.commit(container, self.instance, "base", changes=label)
        self.engine.remove_container(container)

    def build(self, *bumped: str) -> None:
        """Build with all agents as they are pinned, but for those in ``bumped``."""
        variables = {
            "agentbox_instance": self.instance,
            "agentbox_state_root": str(self.place / "state"),
            "agentbox_agents": sorted(_OTHER),
            "agentbox_manifests": {agent: {"package": {"version": _OTHER[agent]}} for agent in bumped},
            "agentbox_image_base": self.base,
        }
        path = commands.write_variables(self.place / "variables.json", variables)
        output = commands.playbook(PLAYBOOKS / "agents.yml", path)
        if "changed=1" not in output:
            raise BenchError(f"no image was built:\n{output}")


@contextmanager
def image() -> Iterator[Image]:
    engine, instance = engines.client(), engines.new_instance_name()
    with engines.short_directory() as place:
        made = Image(engine, place, instance)
        try:
            made.make_base()
            yield made
        finally:
            engines.remove_images(engine, instance)
            engine.close()


def figures(runs: int) -> Iterator[Figure]:
    """The row about a bumped agent: the one that takes longer."""
    images.main()
    cold: list[float] = []
    bumped: dict[str, list[float]] = {agent: [] for agent in _OTHER}
    for _ in range(runs):
        with image() as made:
            cold.append(Side(made.build).seconds())
            for agent, taken in bumped.items():
                taken.append(Side(partial(made.build, agent)).seconds())
    worse = max(bumped.values(), key=statistics.median)
    pair = Pair(tuple(worse), tuple(cold))
    yield Figure("one of two agents bumped, against a cold build", pair, 100 * pair.slower, "%", most=60)
