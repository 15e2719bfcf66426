"""Is this box well, as far as it can tell from inside."""

from __future__ import annotations

import asyncio
from typing import Any

from agentbox.box import status
from agentbox.box.config import Box
from agentbox.box.files import writing_problem
from agentbox.box.tmux import Tmux, TmuxBusyError

from .recorder import Recorder


class Health:
    """``check`` gives ``(healthy, report)``; the report's ``reasons`` explain whatever is not as it should be."""

    def __init__(self, box: Box, tmux: Tmux, recorder: Recorder) -> None:
        self._box = box
        self._tmux = tmux
        self._recorder = recorder
        self.sink_problem: str | None = "the hook sink has not started yet"

    async def check(self) -> tuple[bool, dict[str, Any]]:
        supervisor = await asyncio.to_thread(status.load, self._box.status_file)
        lost = await asyncio.to_thread(_session_problem, self._tmux)
        home = await asyncio.to_thread(writing_problem, self._box.home)
        store = await self._recorder.check()
        lead = supervisor.get("lead") or {"agent": self._box.lead, "state": "unknown", "code": None}
        down = self._down(supervisor, lost)
        degraded = [*_home(home), *_degraded(lead, store, self._recorder.lost)]
        state = "down" if down else "degraded" if degraded else "ok"
        return not down, {
            "state": state,
            "reasons": down + degraded,
            "session": lost is None,
            "supervisor": supervisor.get("state", "unknown"),
            "lead": {key: lead.get(key) for key in ("agent", "state", "code")},
            "hooks": self.sink_problem is None,
            "store": {"ok": store is None, "lost": self._recorder.lost, "last": self._recorder.last_id},
        }

    def _down(self, supervisor: Any, lost: str | None) -> list[str]:
        reasons = [] if lost is None else [lost]
        if supervisor.get("state") == "parked":
            reasons.append(f"the supervisor has given up: {supervisor.get('reason')}")
        if self.sink_problem is not None:
            reasons.append(self.sink_problem)
        return reasons


def _session_problem(tmux: Tmux) -> str | None:
    try:
        return None if tmux.session_exists() else "the tmux session is lost"
    except TmuxBusyError as error:
        return str(error)


def _home(problem: str | None) -> list[str]:
    return [] if problem is None else [f"HOME takes no files: {problem}"]


def _degraded(lead: Any, store: str | None, lost: int) -> list[str]:
    reasons = []
    if store is not None:
        reasons.append(f"events can't be stored: {store}")
    if lost:
        reasons.append(f"{lost} events were lost since the Observer started")
    if lead.get("state") == "exited":
        reasons.append(f"the lead has ended with status {lead.get('code')}")
    return reasons
