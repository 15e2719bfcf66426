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


def with_missing_box(result: Mapping[str, Any], name: str, todo: str) -> dict[str, Any]:
    """``result`` with a failed check for a box that somebody asked for by name and that does not exist."""
    check = {"id": "state", "subject": name, "verdict": "fail", "seen": f"there is no box {name}", "todo": todo}
    counts = {**result["counts"], "fail": result["counts"].get("fail", 0) + 1}
    return {**result, "checks": [*result["checks"], check], "counts": counts, "verdict": "fail"}


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
    warnings = "warning" if counts.get("warn") == 1 else "warnings"
    words = {"ok": "fine", "warn": warnings, "fail": "failed", "unknown": "undecided"}
    return ", ".join(f"{counts.get(verdict, 0)} {word}" for verdict, word in words.items())
