"""The page server, run for real beside a real tmux: read-only, up to date, and nothing a box says is markup."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.box.boxes import BoxDirectory, eventually, request

MARKUP = "<img src=x onerror=alert(1)>\"'&"
ESCAPED = "&lt;img src=x onerror=alert(1)&gt;"


class Stream:
    """One open page: its server-sent events."""

    def __init__(self, connection: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> None:
        connection.request("GET", path, headers=headers)
        self.response = connection.getresponse()
        assert self.response.status == 200
        assert self.response.headers["content-type"].startswith("text/event-stream")

    def next(self, kind: str) -> dict[str, Any]:
        """The data of the next event of that kind."""
        name = ""
        while True:
            line = self.response.readline().decode()
            assert line, "the stream ended"
            if line.startswith("event: "):
                name = line.removeprefix("event: ").strip()
            if line.startswith("data: ") and name == kind:
                value: dict[str, Any] = json.loads(line.removeprefix("data: "))
                return value


@contextmanager
def streaming(directory: BoxDirectory, path: str = "/api/stream", **headers: str) -> Iterator[Stream]:
    connection = http.client.HTTPConnection("127.0.0.1", directory.page_port, timeout=10)
    try:
        yield Stream(connection, path, headers)
    finally:
        connection.close()


def test_page_shows_the_box_its_windows_and_its_events(directory: BoxDirectory) -> None:
    with directory.supervised():
        eventually(lambda: directory.get("/healthz").status == 200)
        directory.tmux("respawn-pane", "-k", "-t", "%0", "sh", "-c", "echo hello from the lead; exec cat")
        directory.report({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "make"}})
        page = eventually(lambda: shows(directory, "hello from the lead"))
    for text in ("test-box", str(directory.workspace), "main", "observer", "PreToolUse", "Bash · make"):
        assert text in page
    assert "recorder login" in page  # there are no credentials


def shows(directory: BoxDirectory, text: str) -> str | None:
    page = directory.get("/").text
    return page if text in page else None


def test_login_hint_goes_when_there_is_a_login(directory: BoxDirectory) -> None:
    with directory.observed():
        assert "recorder login" in directory.get("/").text
        (directory.home / ".recorder").mkdir()
        (directory.home / ".recorder/login.json").write_text("{}")
        assert "recorder login" not in directory.get("/").text


def test_nothing_a_box_says_is_markup(directory: BoxDirectory) -> None:
    with directory.supervised():
        eventually(lambda: directory.get("/healthz").status == 200)
        directory.tmux("select-pane", "-t", "%0", "-T", f"title {MARKUP}")
        directory.tmux("respawn-pane", "-k", "-t", "%0", "printf", f"line {MARKUP}\\033[31m\\n")
        directory.report(
            {"hook_event_name": MARKUP, "tool_name": f"tool {MARKUP}", "prompt": "\x1b]0;x\x07</script><script>"}
        )
        page = eventually(lambda: shows(directory, "Unknown") and shows(directory, "line "))
        with streaming(directory) as stream:
            state = stream.next("state")
    assert MARKUP[:10] not in page
    assert page.count(f"tool {ESCAPED}") == 2  # summary and payload
    assert f"line {ESCAPED}" in page
    assert "\x1b" not in page
    assert page.count("<script") == 1
    assert any(MARKUP in line for line in state["windows"][0]["panes"][0]["lines"])


def test_answers_forbid_everything_that_is_not_the_pages_own(observer: BoxDirectory) -> None:
    for path in ("/", "/healthz", "/api/events", "/api/windows", "/static/page.js", "/nothing-here"):
        headers = observer.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    page = observer.get("/").text
    assert "http://" not in page
    assert "https://" not in page
    for path in ("/static/page.css", "/static/page.js", "/static/icon.svg"):
        assert path in page
        assert observer.get(path).status == 200


def test_page_is_for_those_who_know_its_name(observer: BoxDirectory) -> None:
    for host in ("localhost:4317", "127.0.0.1:9", "[::1]", "test-box:4317", "192.0.2.9"):
        assert observer.get("/healthz", Host=host).status != 421, host
    for path in ("/", "/healthz", "/api/stream", "/static/page.js"):
        assert observer.get(path, Host="attacker.example").status == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_page_is_read_only(observer: BoxDirectory, method: str) -> None:
    for path in ("/", "/healthz", "/api/windows", "/api/events"):
        assert request(observer.page_port, method, path, b"{}").status == 405


def test_open_page_is_told_what_happens(directory: BoxDirectory) -> None:
    with directory.supervised():
        eventually(lambda: directory.get("/healthz").status == 200)
        with streaming(directory) as stream:
            assert stream.next("state")["health"]["lead"]["state"] == "running"
            directory.report({"hook_event_name": "Stop"}, agent="agentbox")  # a health check's, not shown
            directory.report({"hook_event_name": "UserPromptSubmit", "prompt": "hello"})
            event = stream.next("event")
            assert (event["type"], event["summary"]) == ("UserPromptSubmit", "hello")
            directory.tmux("respawn-pane", "-k", "-t", "%0", "sh", "-c", "exit 3")
            directory.tmux("wait-for", "-S", "agentbox-changed")
            eventually(
                lambda: stream.next("state")["health"]["lead"] == {"agent": "recorder", "state": "exited", "code": 3}
            )


def test_page_that_was_away_gets_what_it_missed_once(directory: BoxDirectory) -> None:
    with directory.observed():
        for number in range(3):
            directory.report({"hook_event_name": "Stop", "prompt": str(number)})
        events = eventually(lambda: directory.events() if len(directory.events()) == 3 else [])
        with streaming(directory, f"/api/stream?after={events[0]['id']}") as stream:
            assert [stream.next("event")["summary"] for _ in range(2)] == ["1", "2"]
        with streaming(directory, **{"Last-Event-ID": events[1]["id"]}) as stream:
            assert stream.next("event")["summary"] == "2"


def test_number_of_open_pages_is_bounded_and_the_rest_still_works(directory: BoxDirectory) -> None:
    with directory.observed():
        sockets = [open_stream(directory) for _ in range(40)]
        try:
            answers = [connection.recv(64).split(b"\r\n")[0] for connection in sockets]
            assert answers.count(b"HTTP/1.1 200 OK") == 32
            assert answers.count(b"HTTP/1.1 503 Service Unavailable") == 8
            assert directory.get("/healthz").status
        finally:
            for connection in sockets:
                connection.close()
        eventually(lambda: open_again(directory))


def open_stream(directory: BoxDirectory) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", directory.page_port), 10)
    connection.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return connection


def open_again(directory: BoxDirectory) -> bool:
    with open_stream(directory) as connection:
        return connection.recv(64).startswith(b"HTTP/1.1 200")


def test_page_that_reads_nothing_holds_up_nobody(directory: BoxDirectory) -> None:
    with directory.observed(), open_stream(directory), streaming(directory) as quick:
        for number in range(100):
            start = time.monotonic()
            directory.report({"hook_event_name": "Stop", "prompt": str(number), "text": "x" * 50_000})
            assert time.monotonic() - start < 3
            assert quick.next("event")["summary"] == str(number)


def test_health_says_what_is_wrong(directory: BoxDirectory) -> None:
    with directory.observed():
        answer = directory.get("/healthz")
        assert answer.status == 503
        assert answer.json["reasons"] == ["the tmux session is lost"]
        directory.status_file.parent.mkdir()
        directory.status_file.write_text(json.dumps({"state": "parked", "reason": "rebuilt too often"}))
        assert "the supervisor has given up: rebuilt too often" in directory.get("/healthz").json["reasons"]
        assert directory.get("/api/windows").status == 503


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "limit=-1"])
def test_bad_limit_is_refused(observer: BoxDirectory, query: str) -> None:
    assert observer.get(f"/api/events?{query}").status == 400


def test_box_without_a_lead_has_no_login_hint(directory: BoxDirectory) -> None:
    directory.declare(lead=None)
    with directory.observed():
        page = directory.get("/").text
    assert 'id="login" class="message" hidden' in page
