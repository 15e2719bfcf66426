"""Vocabulary of health: one check, its verdict, and what many of them come to.

Pure. What a check saw often comes out of a box or from the engine; ``plain`` makes it safe to print.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

Verdict = Literal["ok", "warn", "fail", "unknown"]

HOST = "host"  # subject of every check that is not about one box
# Worst first. A failure is certain whatever else stayed open; an open question outweighs a warning.
SEVERITY: tuple[Verdict, ...] = ("fail", "unknown", "warn", "ok")

_LONGEST = 300  # characters of foreign text in one check


@dataclass(frozen=True)
class Check:
    """One line of the checklist.

    ``subject`` is a box's name or ``host``; ``seen`` says what was found, ``todo`` what to do next. ``settling``
    marks a bad verdict that time alone may cure, which is what waiting waits for.
    """

    id: str
    subject: str
    verdict: Verdict
    seen: str
    todo: str = ""
    settling: bool = False

    def as_result(self) -> dict[str, str]:
        """The check as modules return it."""
        return {
            "id": self.id,
            "subject": self.subject,
            "verdict": self.verdict,
            "seen": self.seen,
            "todo": self.todo,
        }


def overall(checks: Iterable[Check]) -> Verdict:
    """The worst verdict; ``ok`` when there is none."""
    verdicts = {check.verdict for check in checks}
    return next((verdict for verdict in SEVERITY if verdict in verdicts), "ok")


def settled(checks: Iterable[Check]) -> bool:
    """Whether waiting longer can change nothing."""
    return not any(check.settling and check.verdict in ("fail", "unknown") for check in checks)


def counts(checks: Iterable[Check]) -> dict[str, int]:
    """How many checks came to each verdict, all four always present."""
    found = Counter(check.verdict for check in checks)
    return {verdict: found[verdict] for verdict in reversed(SEVERITY)}


def plain(text: object, longest: int = _LONGEST) -> str:
    """``text`` on one line without control or format characters (no escape sequences, no text direction tricks)."""
    kept = "".join(
        " " if character.isspace() else character
        for character in str(text)
        if character.isspace() or not unicodedata.category(character).startswith("C")
    )
    flat = " ".join(kept.split())
    return flat if len(flat) <= longest else flat[: longest - 3] + "..."


def without_credentials(url: str) -> str:
    """A proxy's address without the user and password that may be in it."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return "(not a valid address)"
    if not host:
        return "(not a valid address)"
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    return plain(f"{scheme}{host}" + (f":{port}" if port else ""))


def size(amount: float) -> str:
    """Bytes for people, binary units: ``size(268435456) == "256 MiB"``."""
    value = float(amount)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:  # noqa: PLR2004 - the unit's own step
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"
