"""From the bytes an agent posted to a draft event: parsed, identified, long texts cut. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

from agentbox.protocol.events import PROBE_AGENT

from .store import Draft

MAX_WHOLE = 256 * 1024  # bytes of a report that is kept whole
MAX_DEPTH = 64
_LONG = 8 * 1024  # characters kept of each text of a report twice that size; less of larger ones
_SHORTEST = 256
_MAX_ITEMS = 200  # entries kept of each list and object of a larger report
_TYPE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_PANE = re.compile(r"%[0-9]{1,9}")


class ReportError(ValueError):
    """The bytes are not a report: the message says what is wrong with them."""


def draft(agent: str, body: bytes, pane: str | None, now: datetime) -> Draft:
    """Raises ReportError."""
    payload = _parse(body)
    truncated = len(body) > MAX_WHOLE
    return Draft(
        received_at=now,
        agent=agent,
        type=_type(payload),
        session_id=_text(payload, "session_id"),
        pane=pane if pane and _PANE.fullmatch(pane) else None,
        synthetic=agent == PROBE_AGENT,
        truncated=truncated,
        payload=_cut_object(payload, max(_LONG * MAX_WHOLE // len(body), _SHORTEST)) if truncated else payload,
    )


def _parse(body: bytes) -> dict[str, Any]:
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
        if "\\ud" in text.lower():
            value = _without_lone_surrogates(value)
    except RecursionError:
        raise ReportError("nested too deeply") from None
    except ValueError as error:
        raise ReportError(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise ReportError("no JSON object")
    if _depth_exceeds(value, MAX_DEPTH):
        raise ReportError(f"nested more than {MAX_DEPTH} levels deep")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _without_lone_surrogates(value: Any) -> Any:
    """Half a character, as agents send when they cut a text in the middle, can't be encoded again."""
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _depth_exceeds(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        children = [c for v in level if isinstance(v, dict) for c in v.values()]
        children += [c for v in level if isinstance(v, list) for c in v]
        level = [c for c in children if isinstance(c, dict | list)]
        if not level:
            return False
    return True


def _type(payload: Mapping[str, Any]) -> str:
    name = payload.get("hook_event_name")
    return name if isinstance(name, str) and _TYPE.fullmatch(name) else "Unknown"


def _text(payload: Mapping[str, Any], key: str) -> str | None:
    value = payload.get(key)
    return value[:200] if isinstance(value, str) and value else None


def _cut(value: Any, keep: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= keep else f"{value[:keep]} [{len(value) - keep} more characters]"
    if isinstance(value, dict):
        return _cut_object(value, keep)
    if isinstance(value, list):
        return [_cut(item, keep) for item in value[:_MAX_ITEMS]]
    return value


def _cut_object(value: Mapping[str, Any], keep: int) -> dict[str, Any]:
    items = list(value.items())[:_MAX_ITEMS]
    return {str(key)[:_SHORTEST]: _cut(item, keep) for key, item in items}
