"""Show boxes to people and programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .progress import printable
from .seen import SeenBox

HEADER = ("NAME", "STATE", "HEALTH", "LEAD", "PAGE", "WORKSPACE")


def as_json(boxes: Sequence[SeenBox], leads: Sequence[str]) -> str:
    """A list of objects; ``page`` is null for a box that publishes none, ``health`` empty for one that does not run."""
    return json.dumps(
        [
            {
                "name": box.name,
                "container": box.container,
                "state": box.state,
                "health": box.health,
                "lead": lead,
                "page": box.page,
                "workspace": box.workspace,
            }
            for box, lead in zip(boxes, leads, strict=True)
        ],
        indent=2,
    )


def as_table(boxes: Sequence[SeenBox], leads: Sequence[str]) -> str:
    """One line per box below a header."""
    return "\n".join(columns([HEADER, *map(_row, boxes, leads)]))


def _row(box: SeenBox, lead: str) -> tuple[str, ...]:
    """Of a box that does not run there is no agent and no page to tell of."""
    running = (box.health or "-", lead, box.page or "-") if box.running else ("-", "-", "-")
    return (box.name, box.state_told, *running, printable(box.workspace))


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with every column but the last padded to its widest cell."""
    if not rows:
        return []
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]) - 1)]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]) for row in rows]
