"""A double of the vendor's Messages API: a real agent CLI does real turns against it, steered by its prompts.

Usage: ``python messages_api.py ADDRESS:PORT LOG`` (port 0 takes a free one). It prints ``http://ADDRESS:PORT``
once it listens, needs nothing but Python, and appends every request to LOG as one JSON line: ``time`` (seconds
since the epoch), ``method``, ``path``, ``key`` (the credential that was presented) and ``body``.

What it answers on ``POST /v1/messages``, as a stream of server-sent events if the request asks for one:

- a prompt with a line ``RUN: <shell command>``: a ``tool_use`` block, Bash with that command;
- the result of a tool: the text ``Finished: <result>``;
- a request that wants JSON by a schema (titles): an object with the schema's required keys;
- any other prompt: the text ``Heard: <prompt>``.

``POST /v1/messages/count_tokens`` is answered with an estimate, ``HEAD`` with 200, everything else with 404.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_RUN = re.compile(r"^\s*RUN: (?P<command>.+)$", re.MULTILINE)
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_RESULT_CHARS = 200
_CHARS_PER_TOKEN = 4

Json = dict[str, Any]


def texts(content: Any) -> list[str]:
    """The texts of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content or [] if block.get("type") == "text"]


def prompt(request: Json) -> str:
    """What the user typed last, without what the CLI adds to it."""
    for message in reversed(request.get("messages", [])):
        typed = _REMINDER.sub("", "\n".join(texts(message.get("content")))).strip()
        if message.get("role") == "user" and typed:
            return typed
    return ""


def tool_result(request: Json) -> str | None:
    """The text of the tool result that the last message brings, if it brings one."""
    content = (request.get("messages") or [{}])[-1].get("content")
    for block in content if isinstance(content, list) else []:
        if block.get("type") == "tool_result":
            return "\n".join(texts(block.get("content")))
    return None


def reply(request: Json) -> Json:
    """The content block that answers ``request``."""
    result = tool_result(request)
    if result is not None:
        return {"type": "text", "text": f"Finished: {result[:_RESULT_CHARS]}"}
    schema = request.get("output_config", {}).get("format", {}).get("schema")
    if schema is not None:
        wanted = dict.fromkeys(schema.get("required", []), "A double's title")
        return {"type": "text", "text": json.dumps(wanted)}
    run = _RUN.search(prompt(request))
    if run and any(tool.get("name") == "Bash" for tool in request.get("tools", [])):
        bash = {"command": run["command"], "description": "Run the prompt's command"}
        return {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:24]}", "name": "Bash", "input": bash}
    return {"type": "text", "text": f"Heard: {prompt(request)}"}


def message(request: Json, block: Json) -> Json:
    """A whole answer as the API gives it without streaming."""
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", ""),
        "content": [block],
        "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": estimate(request), "output_tokens": 1},
    }


def stream(whole: Json) -> Iterator[Json]:
    """The same answer as the API streams it: one content block, its content in one delta."""
    (block,) = whole["content"]
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    if block["type"] == "tool_use":
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        start = {**block, "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    yield {"type": "content_block_start", "index": 0, "content_block": start}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": whole["usage"]["output_tokens"]},
    }
    yield {"type": "message_stop"}


def estimate(request: Json) -> int:
    """Tokens of a request, good enough for a CLI that shows them."""
    return len(json.dumps(request.get("messages", []))) // _CHARS_PER_TOKEN


class Log:
    """Requests as JSON lines, complete once a request is answered."""

    def __init__(self, path: Path) -> None:
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w")
        self._lock = threading.Lock()

    def append(self, entry: Json) -> None:
        with self._lock:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log: Log  # set on the subclass that a server uses

    def do_HEAD(self) -> None:
        self._record({})
        self._answer(b"", "application/json")

    def do_GET(self) -> None:
        self._record({})
        self._not_found()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request: Json = json.loads(body) if body else {}
        self._record(request)
        match self.path.partition("?")[0]:
            case "/v1/messages":
                self._answer_message(request)
            case "/v1/messages/count_tokens":
                self._answer_json({"input_tokens": estimate(request)})
            case _:
                self._not_found()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
        """Nothing on stderr: the log file has every request."""

    def _record(self, request: Json) -> None:
        key = self.headers.get("x-api-key") or self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.log.append({"time": time.time(), "method": self.command, "path": self.path, "key": key, "body": request})

    def _answer_message(self, request: Json) -> None:
        whole = message(request, reply(request))
        if not request.get("stream"):
            self._answer_json(whole)
            return
        events = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in stream(whole))
        self._answer("".join(events).encode(), "text/event-stream")

    def _answer_json(self, document: Json, status: int = 200) -> None:
        self._answer(json.dumps(document).encode(), "application/json", status)

    def _not_found(self) -> None:
        error = {"type": "not_found_error", "message": f"the double has no {self.path}"}
        self._answer_json({"type": "error", "error": error}, 404)

    def _answer(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(listen: str, log: str) -> None:
    address, _, port = listen.rpartition(":")
    handler = type("LoggingHandler", (Handler,), {"log": Log(Path(log))})
    server = ThreadingHTTPServer((address, int(port)), handler)
    print(f"http://{address}:{server.server_address[1]}", flush=True)  # noqa: T201  (its interface)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
