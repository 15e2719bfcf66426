"""Settings that make an agent report to its box Observer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._naming import PANE_HEADER, PID_HEADER

MECHANISM = "claude-managed-settings"
_PANE_VARIABLE = "TMUX_PANE"


def managed_settings(manifest: Mapping[str, Any], hook_port: int) -> dict[str, Any]:
    """The settings file that goes to ``manifest.hooks.file``; JSON-serialisable, the same for the same input.

    ``hook_port`` is the sink's port on the box's loopback. Raises ValueError for a mechanism nobody wrote.
    """
    hooks = manifest["hooks"]
    if hooks["mechanism"] != MECHANISM:
        raise ValueError(f"agent {manifest['name']}: unknown hook mechanism {hooks['mechanism']!r}")
    url = f"http://127.0.0.1:{hook_port}/hook/{manifest['name']}"
    timeout = int(hooks["timeout"])
    handlers = {event: _over_http(url, timeout) for event in hooks["http"]}
    handlers |= {event: _by_command(url, timeout) for event in hooks["command"]}
    return {"hooks": {event: [{"hooks": [handlers[event]]}] for event in sorted(handlers)}}


def _over_http(url: str, timeout: int) -> dict[str, Any]:
    return {
        "type": "http",
        "url": url,
        "timeout": timeout,
        "headers": {PANE_HEADER: f"${_PANE_VARIABLE}"},
        "allowedEnvVars": [_PANE_VARIABLE],
    }


def _by_command(url: str, timeout: int) -> dict[str, Any]:
    """A process that passes its input on and never fails. What it printed an agent might take for words of its user.

    It tries again for a moment: at the start of a box the agent may have something to say before the Observer listens.
    """
    patience = "--retry 2 --retry-delay 1 --retry-connrefused --retry-max-time 2"
    limits = f"--max-time {timeout} {patience} --noproxy '*'"
    headers = f'-H "Content-Type: application/json" -H "{PANE_HEADER}: ${_PANE_VARIABLE}" -H "{PID_HEADER}: $PPID"'
    return {
        "type": "command",
        "command": f"curl -s {limits} {headers} --data-binary @- {url} >/dev/null 2>&1 || true",
        "timeout": timeout + 1,  # the process ends by itself first
    }
