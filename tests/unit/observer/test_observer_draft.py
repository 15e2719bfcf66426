"""From bytes to a draft: what is accepted, refused and cut."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbox.observer.draft import MAX_WHOLE, ReportError, draft
from agentbox.observer.store import Draft
from agentbox.protocol import Event

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def report(payload: Any, pane: str | None = None, agent: str = "claude") -> Draft:
    return draft(agent, json.dumps(payload).encode(), pane, NOW)


def test_payload_is_kept_as_it_was_sent() -> None:
    payload = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_input": {"command": "a\n\x1b[0m"}, "n": None}
    result = report(payload, "%12")
    assert (result.type, result.session_id, result.pane, result.payload) == ("PreToolUse", "s", "%12", payload)
    assert (result.synthetic, result.truncated) == (False, False)


def test_only_agentboxs_own_events_are_synthetic() -> None:
    assert report({"hook_event_name": "Probe", "synthetic": True}).synthetic is False
    assert report({"hook_event_name": "Probe"}, agent="agentbox").synthetic is True


@pytest.mark.parametrize("name", [None, 7, "", "<img src=x>", "a" * 101, ["PreToolUse"]])
def test_strange_type_is_unknown_and_stays_in_the_payload(name: Any) -> None:
    result = report({"hook_event_name": name})
    assert (result.type, result.payload) == ("Unknown", {"hook_event_name": name})


@pytest.mark.parametrize("pane", ["", "0", "%", "%1; kill-server", "%1\n", "%" + "9" * 10])
def test_strange_pane_is_none(pane: str) -> None:
    assert report({}, pane).pane is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"null", b'{"a": NaN}', b"\xff{}", b'{"a":1}{"b":2}'])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ReportError):
        draft("claude", body, None, NOW)


@pytest.mark.parametrize("depth", [65, 900, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    body = b'{"a":' * depth + b"1" + b"}" * depth
    with pytest.raises(ReportError, match="deep"):
        draft("claude", body, None, NOW)


def test_half_a_character_does_not_break_the_event() -> None:
    result = draft("claude", rb'{"session_id": "\ud83d", "text": "cut \ud83d"}', None, NOW)
    assert result.payload["text"] == "cut \ufffd"
    as_event(result).model_dump_json()


def test_large_payload_is_cut_and_says_so() -> None:
    result = report({"tool_response": {"text": "y" * MAX_WHOLE, "short": "kept", "list": [1] * 1000}})
    assert result.truncated is True
    response = result.payload["tool_response"]
    assert response["short"] == "kept"
    assert len(response["list"]) == 200
    assert response["text"].startswith("yyy")
    assert response["text"].endswith("more characters]")
    assert len(response["text"]) < 9000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=6))
def test_every_object_becomes_an_event(payload: dict[str, Any]) -> None:
    assert Event.model_validate_json(as_event(report(payload)).model_dump_json(by_alias=True)).payload == payload


def as_event(result: Draft) -> Event:
    return Event(schema=1, id="00000000-000000000001", seq=1, **vars(result))
