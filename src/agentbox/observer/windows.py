"""The terminal as the page shows it: windows, their panes and the last lines of each."""

from __future__ import annotations

from typing import Any

from agentbox.box.tmux import Pane, Tmux, TmuxError

from .text import plain

LINES = 40
_MAX_PANES = 24
_LINE_CHARS = 400


def snapshot(tmux: Tmux) -> list[dict[str, Any]]:
    """``[{"name", "panes": [{"id", "pid", "dead", "status", "command", "title", "lines"}]}]``. Raises TmuxError."""
    windows: dict[str, list[dict[str, Any]]] = {}
    for pane in tmux.panes()[:_MAX_PANES]:
        windows.setdefault(plain(pane.window, 80), []).append(_view(tmux, pane))
    return [{"name": name, "panes": panes} for name, panes in windows.items()]


def _view(tmux: Tmux, pane: Pane) -> dict[str, Any]:
    return {
        "id": pane.id,
        "pid": pane.pid,
        "dead": pane.dead,
        "status": pane.status,
        "command": plain(pane.command, 80),
        "title": plain(pane.title, 200),
        "lines": _lines(tmux, pane),
    }


def _lines(tmux: Tmux, pane: Pane) -> list[str]:
    try:
        captured = tmux.tail(pane.id, LINES)
    except TmuxError:  # the pane ended between the two commands
        return []
    lines = [plain(line, _LINE_CHARS).rstrip() for line in captured]
    # Programs draw at the top and at the bottom of the screen: of the empty lines between them one is enough.
    shown = [line for before, line in zip(["", *lines], lines, strict=False) if line or before]
    return shown[-LINES:]
