"""Show the checks of module ``health`` to people and programs, and turn their verdict into an exit code. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import exits, listing
from .progress import printable

EXIT_CODES = {"ok": exits.OK, "warn": exits.OK, "fail": exits.FAILED, "unknown": exits.UNDECIDABLE}


def exit_code(result: Mapping[str, Any]) -> int:
    """0 healthy or warnings, 1 failed, 3 nothing failed and something could not be found out."""
    return EXIT_CODES[str(result["verdict"])]


def as_json(result: Mapping[str, Any]) -> str:
    return json.dumps({key: result[key] for key in ("verdict", "counts", "checks")}, indent=2)


def as_table(result: Mapping[str, Any]) -> str:
    """One line per check, what to do below it, the sum at the end."""
    checks = result["checks"]
    rows = [(check["verdict"], check["subject"], check["id"], printable(check["seen"])) for check in checks]
    lines = listing.columns(rows)
    shown = [
        part
        for line, check in zip(lines, checks, strict=True)
        for part in [line, *([f"        -> {printable(check['todo'])}"] if check["todo"] else [])]
    ]
    return "\n".join([*shown, summary(result["counts"])])


def summary(counts: Mapping[str, int]) -> str:
    words = {"ok": "fine", "warn": "warnings", "fail": "failed", "unknown": "undecided"}
    return ", ".join(f"{counts.get(verdict, 0)} {word}" for verdict, word in words.items())
