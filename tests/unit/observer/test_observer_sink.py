"""The hook sink, run for real: it answers at once whatever comes and whatever the disk does."""

from __future__ import annotations

import json
import os
import resource
import socket
import time

import pytest

from tests.unit.box.boxes import BoxDirectory, eventually, request

MIB = 1024 * 1024


def test_report_is_answered_with_nothing_and_stored(directory: BoxDirectory) -> None:
    payload = {"hook_event_name": "PreToolUse", "session_id": "s1", "tool_name": "Bash", "text": "ü\x1b[0m"}
    with directory.observed():
        answer = directory.report(payload, **{"X-Agentbox-Pane": "%3"})
        assert (answer.status, answer.json) == (200, {})
        (event,) = eventually(directory.events)
    assert event["payload"] == payload
    assert (event["agent"], event["type"], event["pane"]) == ("recorder", "PreToolUse", "%3")


def test_request_for_permission_is_answered_at_once(observer: BoxDirectory) -> None:
    """Nobody who decides is connected, so the terminal's dialog decides."""
    start = time.monotonic()
    answer = observer.report({"hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": {}})
    assert (answer.status, answer.json) == (200, {})
    assert time.monotonic() - start < 3


def test_what_is_no_report_is_refused_and_says_why(observer: BoxDirectory) -> None:
    port = observer.hook_port
    assert request(port, "POST", "/hook/recorder", b"{").status == 400
    assert request(port, "POST", "/hook/stranger", b"{}").status == 404
    assert request(port, "GET", "/hook/recorder").status == 405
    assert request(port, "POST", "/hook/recorder", b"{}", {"Host": "attacker.example"}).status == 421
    assert request(port, "POST", "/hook/recorder", b"{}", {"Origin": "http://attacker.example"}).status == 403
    too_large = json.dumps({"text": "x" * 9 * MIB}).encode()
    assert request(port, "POST", "/hook/recorder", too_large).status == 413
    assert observer.get("/healthz").json["store"]["ok"] is True
    assert [event["type"] for event in observer.events() if event["type"] != "PermissionRequest"] == []


def test_sink_is_not_reachable_from_outside_and_the_page_is(observer: BoxDirectory) -> None:
    address = outside_address()
    socket.create_connection((address, observer.page_port), 5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, observer.hook_port), 5)


def outside_address() -> str:
    """An address of this machine that is not loopback; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


def test_events_survive_a_restart_and_go_on(directory: BoxDirectory) -> None:
    with directory.observed():
        directory.report({"hook_event_name": "Stop", "n": 1})
    with directory.observed():
        directory.report({"hook_event_name": "Stop", "n": 2})
        events = eventually(lambda: directory.events() if len(directory.events()) == 2 else [])
        assert [event["payload"]["n"] for event in events] == [1, 2]
        assert directory.events(after=events[0]["id"]) == [events[1]]


def test_disk_that_takes_no_more_costs_events_and_no_agent(directory: BoxDirectory) -> None:
    payload = {"hook_event_name": "Stop", "text": "x" * 100_000}
    with directory.observed() as observer:
        eventually(lambda: directory.get("/healthz").json["store"]["ok"])
        resource.prlimit(observer.pid, resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        for _ in range(5):
            start = time.monotonic()
            assert directory.report(payload).json == {}
            assert time.monotonic() - start < 3
        health = eventually(lambda: lost(directory))
        assert any("can't be stored" in reason for reason in health["reasons"])
        resource.prlimit(observer.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        directory.report({"hook_event_name": "Stop", "text": "room again"})
        eventually(lambda: any(event["payload"]["text"] == "room again" for event in directory.events()))
        assert directory.get("/healthz").json["store"]["ok"] is True


def lost(directory: BoxDirectory) -> dict[str, list[str]] | None:
    health: dict[str, list[str]] = directory.get("/healthz").json
    return health if not directory.get("/healthz").json["store"]["ok"] else None


def test_store_that_can_not_be_opened_costs_no_agent(directory: BoxDirectory) -> None:
    (directory.home / ".agentbox" / "events.db").mkdir(parents=True)
    with directory.observed():
        assert directory.report({"hook_event_name": "Stop"}).json == {}
        health = directory.get("/healthz").json
        assert any("events.db" in reason for reason in health["reasons"])
        assert directory.get("/").status == 200
        assert directory.get("/api/events").status == 503


def test_taken_hook_port_is_a_reason_and_no_end(directory: BoxDirectory) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", directory.hook_port))
        other.listen()
        with directory.observed():
            answer = directory.get("/healthz")
    assert answer.status == 503
    assert any(str(directory.hook_port) in reason for reason in answer.json["reasons"])


def test_lead_that_changes_its_conversation_is_followed(directory: BoxDirectory) -> None:
    with directory.supervised():
        eventually(lambda: directory.get("/healthz").status == 200)
        pid = str(directory.status()["lead"]["pid"])
        start = {"hook_event_name": "SessionStart", "source": "clear"}
        directory.report(start | {"session_id": "other-run"}, **{"X-Agentbox-Pid": "1"})
        directory.report({"hook_event_name": "Stop", "session_id": "no-start"}, **{"X-Agentbox-Pid": pid})
        directory.report(start | {"session_id": "after-clear"}, **{"X-Agentbox-Pid": pid})
        record = json.loads((directory.home / ".agentbox/lead.json").read_text())
        assert record["session_id"] == "after-clear"
        directory.report(start | {"session_id": "below-the-lead"}, **{"X-Agentbox-Pid": str(os.getpid())})
        record = json.loads((directory.home / ".agentbox/lead.json").read_text())
        assert record["session_id"] == "after-clear"
