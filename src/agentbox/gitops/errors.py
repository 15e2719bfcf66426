"""Why a run ended without success. The texts reach a status file that everybody may read."""

from __future__ import annotations

from agentbox._shared._errors import AgentboxError


class RunError(AgentboxError):
    """The run failed; the host stays as it was, or as far as converging came."""

    outcome = "failed"


class RefusedError(RunError):
    """The repository offered something that the settings do not accept; nothing of it was run."""

    outcome = "refused"
