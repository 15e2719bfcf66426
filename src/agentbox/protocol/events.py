"""The event: what an agent's hook reported, as the box Observer stores and serves it.

``docs/events.md`` explains every field and is kept equal to this model by a test.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_serializer

PROBE_AGENT = "agentbox"


class Event(BaseModel):
    """One report of an agent. Immutable; a stored event never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal[1] = Field(1, alias="schema", description="Version of this shape.")
    id: str = Field(
        pattern=r"^[0-9a-f]{8}-[0-9]{12}$",
        description="Unique for ever and sortable within one box: the store's random name, a dash, `seq` in 12 digits.",
    )
    seq: int = Field(ge=1, description="Position in the store; grows by at least 1 with every event, never reused.")
    received_at: datetime = Field(description="When the box Observer received it: UTC, RFC 3339, milliseconds.")
    agent: str = Field(
        max_length=64, description="Name of the agent's manifest; `agentbox` for events of Agentbox itself."
    )
    type: str = Field(max_length=100, description="The agent's own name of the event, e.g. `PreToolUse`.")
    session_id: str | None = Field(max_length=200, description="The agent's conversation, if it named one.")
    pane: str | None = Field(
        pattern=r"^%[0-9]{1,9}$", description="The tmux pane the agent runs in, if it is known, e.g. `%0`."
    )
    synthetic: bool = Field(description="Made by a health check, not by an agent; the page does not show these.")
    truncated: bool = Field(description="Long texts of the payload were cut to keep the store small.")
    payload: dict[str, Any] = Field(description="What the agent sent, as it sent it.")

    @field_serializer("received_at", when_used="json")
    def _rfc3339(self, moment: datetime) -> str:
        return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
