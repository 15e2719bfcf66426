"""Show boxes to people and programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentbox._shared._health import Check

from .progress import printable
from .reports import Report
from .seen import SeenBox

HEADER = ("NAME", "STATE", "HEALTH", "LEAD", "PAGE", "WORKSPACE")


def as_json(boxes: Sequence[SeenBox], reports: Sequence[Report]) -> str:
    """A list of objects; ``page`` is null for a box that publishes none, ``health`` empty for one that does not run.

    ``lead`` is running, exited (``lead_code`` says how, null when nobody knows), none or unknown. ``troubles`` holds
    the doctor's checks that are not well, each with ``id``, ``verdict``, ``seen`` and ``todo``. The ``workspace`` of an
    adopted box is empty.
    """
    return json.dumps(
        [
            {
                "name": box.name,
                "container": box.container,
                "adopted": box.adopted,
                "state": box.state,
                "health": box.health,
                "lead": report.lead.state if report.lead else "unknown",
                "lead_code": report.lead.code if report.lead else None,
                "page": box.page,
                "workspace": box.workspace,
                "troubles": [check.as_result() for check in report.troubles],
            }
            for box, report in zip(boxes, reports, strict=True)
        ],
        indent=2,
    )


def as_table(boxes: Sequence[SeenBox], reports: Sequence[Report]) -> str:
    """One line per box below a header, and below them one for everything that is wrong."""
    troubles = [_trouble(check) for report in reports for check in report.troubles]
    return "\n".join([*columns([HEADER, *map(_row, boxes, reports)]), *troubles])


def _row(box: SeenBox, report: Report) -> tuple[str, ...]:
    """Of a box that does not run there is no agent and no page to tell of."""
    running = (box.health or "-", _lead(report), box.page or "-") if box.running else ("-", "-", "-")
    return (box.name, box.state_told, *running, printable(box.workspace) or "-")


def _lead(report: Report) -> str:
    if report.lead is None:
        return "unknown"
    code = report.lead.code
    return report.lead.state if code is None else f"{report.lead.state} ({code})"


def _trouble(check: Check) -> str:
    return f"{check.subject}: {check.seen}." + (f" {check.todo}." if check.todo else "")


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with every column but the last padded to its widest cell."""
    if not rows:
        return []
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]) - 1)]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]) for row in rows]
