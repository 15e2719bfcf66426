"""Follows the lead through its conversations, so that a restart comes back to the last one."""

from __future__ import annotations

import logging

from agentbox.box import lead, status
from agentbox.box.config import Box

from .store import Draft

_log = logging.getLogger("agentbox")


def follow(box: Box, draft: Draft, pid: str | None) -> None:
    """Record the conversation if the lead itself began or resumed one.

    The process id tells the lead from another run of the same agent below it, which shares the lead's pane.
    """
    manifest = box.lead_manifest
    if manifest is None or draft.agent != box.lead or draft.session_id is None:
        return
    if draft.type != manifest.get("hooks", {}).get("session"):
        return
    running = status.load(box.status_file).get("lead", {})
    if pid != str(running.get("pid")) or lead.recorded_session(box) == draft.session_id:
        return
    try:
        lead.record_session(box, draft.session_id)
    except OSError as error:
        _log.error("the conversation can't be recorded: %s", error)
