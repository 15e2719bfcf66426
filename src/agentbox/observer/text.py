"""Text from inside panes, made safe to show: no escape sequences, no control characters, bounded."""

from __future__ import annotations

import re
import unicodedata

_ESCAPE = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|\[[0-?]*[ -/]*[@-~]?|[PX^_][^\x1b]*(?:\x1b\\)?|.?)", re.DOTALL
)
_UNSAFE = ("Cc", "Cf", "Cs")  # control, invisible formatting (bidi overrides among them), half characters


def plain(text: str, limit: int = 1000) -> str:
    """One line of visible characters, at most ``limit``."""
    shown = _ESCAPE.sub("", text[: limit * 4])
    return "".join(c for c in shown if unicodedata.category(c) not in _UNSAFE)[:limit]
