"""Settings that make an agent report to an Observer. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from ._naming import PANE_HEADER, PID_HEADER

MECHANISM = "claude-managed-settings"
OWNER_HEADER = "X-Agentbox-Owner"  # marks handlers among those of others; its value is an instance
_PANE_VARIABLE = "TMUX_PANE"

Handler = dict[str, Any]


def managed_settings(manifest: Mapping[str, Any], hook_port: int) -> dict[str, Any]:
    """The settings file that goes to ``manifest.hooks.file``; JSON-serialisable, the same for the same input.

    ``hook_port`` is the sink's port on the box's loopback. Raises ValueError for a mechanism nobody wrote.
    """
    handlers = subscriptions(manifest, f"http://127.0.0.1:{hook_port}")
    return {"hooks": {event: [group(handler)] for event, handler in handlers.items()}}


def subscriptions(manifest: Mapping[str, Any], sink: str, owner: str = "") -> dict[str, Handler]:
    """Event type to the handler that reports it to ``sink``, the address of an Observer's hook sink.

    Handlers with an ``owner`` are told by ``is_owned()``. Raises ValueError for a mechanism nobody wrote.
    """
    hooks = manifest["hooks"]
    if hooks["mechanism"] != MECHANISM:
        raise ValueError(f"agent {manifest['name']}: unknown hook mechanism {hooks['mechanism']!r}")
    url = f"{sink}/hook/{manifest['name']}"
    timeout = int(hooks["timeout"])
    mark = {OWNER_HEADER: owner} if owner else {}
    handlers = {event: _over_http(url, timeout, mark) for event in hooks["http"]}
    handlers |= {event: _by_command(url, timeout, mark) for event in hooks["command"]}
    return {event: handlers[event] for event in sorted(handlers)}


def group(handler: Handler) -> dict[str, Any]:
    """An entry of an event type that has nothing but ``handler`` and applies always."""
    return {"hooks": [handler]}


def is_owned(handler: object, owner: str) -> bool:
    """Whether ``handler``, as found in some settings, bears the mark of ``owner``."""
    if not isinstance(handler, Mapping):
        return False
    headers, command = handler.get("headers"), handler.get("command")
    if isinstance(headers, Mapping) and headers.get(OWNER_HEADER) == owner:
        return True
    mark = rf"{OWNER_HEADER}: {re.escape(owner)}(?![a-z0-9-])"
    return isinstance(command, str) and re.search(mark, command) is not None


def _over_http(url: str, timeout: int, mark: Mapping[str, str]) -> Handler:
    return {
        "type": "http",
        "url": url,
        "timeout": timeout,
        "headers": {PANE_HEADER: f"${_PANE_VARIABLE}", **mark},
        "allowedEnvVars": [_PANE_VARIABLE],
    }


def _by_command(url: str, timeout: int, mark: Mapping[str, str]) -> Handler:
    """A process that passes its input on and never fails. What it printed an agent might take for words of its user.

    It tries again for a moment: at the start of a box the agent may have something to say before the Observer listens.
    """
    patience = "--retry 2 --retry-delay 1 --retry-connrefused --retry-max-time 2"
    limits = f"--max-time {timeout} {patience} --noproxy '*'"
    fields = {"Content-Type": "application/json", PANE_HEADER: f"${_PANE_VARIABLE}", PID_HEADER: "$PPID", **mark}
    headers = " ".join(f'-H "{name}: {value}"' for name, value in fields.items())
    return {
        "type": "command",
        "command": f"curl -s {limits} {headers} --data-binary @- {shlex.quote(url)} >/dev/null 2>&1 || true",
        "timeout": timeout + 1,  # the process ends by itself first
    }
