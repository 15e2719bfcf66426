"""A box's report about itself: read field by field, refused as a whole when anything in it is not as agreed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentbox._shared._health_facts import (
    CredentialFacts,
    Hidden,
    HookFacts,
    LeadFacts,
    ObserverFacts,
    Pane,
    ProbeFacts,
    SessionFacts,
    SupervisorFacts,
)
from agentbox._shared._health_probe import MOST_BYTES, parse_credentials, parse_probe

Change = Callable[[dict[str, Any]], Any]


def report() -> dict[str, Any]:
    """What the probe of a healthy box prints."""
    return {
        "schema": 1,
        "supervisor": {"state": "ready", "reason": "", "rebuilds": 0, "observer_restarts": 0, "notes": []},
        "windows": [
            {"name": "main", "panes": [{"id": "%0", "pid": 30, "dead": False, "status": None, "command": "claude"}]},
            {"name": "observer", "panes": [{"id": "%1", "pid": 31, "dead": True, "status": 1, "command": "python"}]},
        ],
        "observer": {"page": True, "hooks": True, "reason": ""},
        "lead": {"agent": "claude", "state": "running", "code": None, "session_id": "b2f0"},
        "hook": {"ok": True, "seconds": 0.023, "event_id": "17"},
        "credentials": {"claude": {"state": "present", "kind": "file"}, "codex": {"state": "none"}},
        "versions": {"claude": "2.1.332", "tmux": "3.3a", "codex": None},
        "mounts": {
            "/workspace": {"writable": True, "reason": ""},
            "/home/agent": {"writable": False, "reason": "No space left on device"},
            "/of/an/older/image": {"writable": False},
        },
    }


def parse(changed: Change = lambda _report: None) -> ProbeFacts | Hidden:
    document = report()
    changed(document)
    return parse_probe(json.dumps(document).encode())


def test_a_report_as_it_should_be() -> None:
    assert parse() == ProbeFacts(
        supervisor=SupervisorFacts("ready", ""),
        session=SessionFacts(
            windows=("main", "observer"),
            panes=(
                Pane("main", "%0", dead=False, status=None, command="claude"),
                Pane("observer", "%1", dead=True, status=1, command="python"),
            ),
        ),
        observer=ObserverFacts(page=True, hooks=True, reason=""),
        lead=LeadFacts("claude", "running", None),
        hook=HookFacts(ok=True, seconds=0.023, reason=""),
        credentials={"claude": CredentialFacts(True, "file"), "codex": CredentialFacts(False, None)},
        versions={"claude": "2.1.332", "tmux": "3.3a", "codex": None},
        writable={
            "/workspace": "",
            "/home/agent": "No space left on device",
            "/of/an/older/image": "no reason given",
        },
    )


@pytest.mark.parametrize(
    ("key", "attribute"),
    [
        ("supervisor", "supervisor"),
        ("windows", "session"),
        ("observer", "observer"),
        ("lead", "lead"),
        ("hook", "hook"),
        ("credentials", "credentials"),
        ("versions", "versions"),
        ("mounts", "writable"),
    ],
)
def test_a_part_the_box_could_not_find_out_leaves_the_rest_standing(key: str, attribute: str) -> None:
    found = parse(lambda document: document.update({key: {"reason": "no answer within 12 s"}}))
    assert isinstance(found, ProbeFacts)
    assert getattr(found, attribute) == Hidden("no answer within 12 s")
    hidden = [value for value in vars(found).values() if isinstance(value, Hidden)]
    assert len(hidden) == 1


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (lambda document: document.update(schema=2), "schema is 2"),
        (lambda document: document.pop("lead"), "lead: is not an object"),
        (lambda document: document.update(windows={}), "windows: is not a list"),
        (lambda document: document.update(windows=[{}] * 65), "windows: is not a list of at most 64"),
        (lambda document: document["windows"][0].update(panes=None), "windows: is not a list"),
        (lambda document: document["windows"][0]["panes"][0].update(dead="no"), "windows: dead is not true or false"),
        (
            lambda document: document["windows"][0]["panes"][0].update(status=1.5),
            "windows: status is not a whole number",
        ),
        (lambda document: document["lead"].update(state="fine"), "lead: state is none of running, exited, none"),
        (lambda document: document["lead"].update(code=True), "lead: code is not a whole number"),
        (lambda document: document["lead"].update(agent=["x"]), "lead: agent is not a text"),
        (lambda document: document["hook"].update(seconds="fast"), "hook: seconds is not a number"),
        (lambda document: document["hook"].update(ok=1), "hook: ok is not true or false"),
        (lambda document: document["credentials"]["claude"].update(state="valid"), "credentials: state is none of"),
        (lambda document: document.update(credentials={str(key): {} for key in range(65)}), "more than 64 entries"),
        (lambda document: document["versions"].update(claude=2), "versions: claude is not a text"),
        (lambda document: document["mounts"].update({"/x": True}), "mounts: is not an object"),
    ],
)
def test_a_report_that_is_wrong_anywhere_is_refused_and_the_place_named(changed: Change, named: str) -> None:
    found = parse(changed)
    assert isinstance(found, Hidden)
    assert named in found.reason


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"Traceback (most recent call last):\n",
        b"\xff\xfe\x00",
        b"{" * 1000,
        b"[" * 100_000,
        b'{"schema": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_not_json_is_refused(output: bytes) -> None:
    found = parse_probe(output)
    assert isinstance(found, Hidden)
    assert "is not JSON" in found.reason
    assert found.reason.isprintable()
    assert len(found.reason) < 200


@pytest.mark.parametrize("output", [b"[]", b"null", b'"text"', b"1e999"])
def test_json_that_is_no_object_is_refused(output: bytes) -> None:
    assert parse_probe(output) == Hidden("its report is not valid: is not an object")


def test_a_report_without_end_is_refused() -> None:
    assert parse_probe(b" " * (MOST_BYTES + 1)) == Hidden("its report is longer than 256 KiB")


def test_texts_of_a_box_cannot_drive_a_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J{{ lookup('pipe', 'id') }}\n"
    found = parse(
        lambda document: (
            document["supervisor"].update(reason=evil, notes=[evil]),
            document["windows"][0].update(name=evil),
            document["lead"].update(agent=evil),
            document["credentials"].update({evil: {"state": "present", "kind": evil}}),
            document["versions"].update({evil: evil}),
            document["mounts"].update({evil: {"writable": True}}),
        )
    )
    assert isinstance(found, ProbeFacts)
    assert "\\x1b" not in repr(found)
    assert "\\n" not in repr(found)


@pytest.mark.parametrize(
    ("answer", "logins"),
    [
        (b'{"claude": {"state": "present", "kind": "file"}}', {"claude": CredentialFacts(True, "file")}),
        (b'{"claude": {"state": "none"}}', {"claude": CredentialFacts(False, None)}),
        (b'{"claude": {"state": "yes"}}', Hidden("its report is not valid: state is none of present, none")),
        (b"usage: python -m agentbox.box", Hidden("its report is not JSON: usage: python -m agentbox.box")),
    ],
)
def test_logins_alone_are_checked_like_the_report(answer: bytes, logins: object) -> None:
    assert parse_credentials(answer) == logins
