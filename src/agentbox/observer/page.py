"""The page server: HTML, its JSON and its live stream. Read-only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from agentbox import agents
from agentbox.box import status
from agentbox.box.config import Box
from agentbox.box.tmux import Tmux, TmuxError
from agentbox.protocol import Event

from .broadcast import Broadcast, TooManyWatchersError, Watcher
from .health import Health
from .recorder import Recorder
from .store import PAGE, StoreError
from .text import plain
from .windows import snapshot

SHOWN = 100  # events the page starts with
POLL = 1.0  # seconds between looks at the terminal while somebody watches
_FRESH = 0.5  # seconds an answer about the terminal is reused
_SEND = 10.0  # seconds a watcher may take to accept a message
_BEAT = 15.0  # seconds between signs of life on a silent stream


class Terminal:
    """Snapshots of the windows, shared by everybody who asks at about the same time."""

    def __init__(self, tmux: Tmux) -> None:
        self._tmux = tmux
        self._lock = asyncio.Lock()
        self._taken = 0.0
        self._windows: list[dict[str, Any]] = []

    async def windows(self) -> list[dict[str, Any]]:
        """Raises TmuxError."""
        async with self._lock:
            if time.monotonic() - self._taken > _FRESH:
                self._windows = await asyncio.to_thread(snapshot, self._tmux)
                self._taken = time.monotonic()
        return self._windows


class Page:
    """What the page server answers, one method per route."""

    def __init__(self, box: Box, terminal: Terminal, recorder: Recorder, broadcast: Broadcast, health: Health) -> None:
        self._box = box
        self._terminal = terminal
        self._recorder = recorder
        self._broadcast = broadcast
        self._health = health
        loader = PackageLoader("agentbox.observer")
        self._html = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)

    def app(self) -> Starlette:
        static = Path(__file__).with_name("static")
        return Starlette(
            routes=[
                Route("/", self.page),
                Route("/healthz", self.healthz),
                Route("/livez", livez),
                Route("/api/windows", self.windows),
                Route("/api/events", self.events),
                Route("/api/stream", _Endpoint(self.stream)),
                Mount("/static", StaticFiles(directory=static)),
            ]
        )

    async def page(self, _request: Request) -> Response:
        events = await self._shown_events()
        content = self._html.get_template("page.html").render(
            box=self._box,
            state=await self._state(),
            events=events[::-1],
            last_id=events[-1]["id"] if events else "",
        )
        return HTMLResponse(content)

    async def healthz(self, _request: Request) -> Response:
        healthy, report = await self._health.check()
        return JSONResponse(report, 200 if healthy else 503)

    async def windows(self, _request: Request) -> Response:
        try:
            return JSONResponse({"windows": await self._terminal.windows()})
        except TmuxError as error:
            return JSONResponse({"windows": [], "error": str(error)}, 503)

    async def events(self, request: Request) -> Response:
        limit = request.query_params.get("limit", str(PAGE))
        if not limit.isdecimal() or len(limit) > len(str(PAGE)) or not 0 < int(limit) <= PAGE:
            return JSONResponse({"error": f"limit is not in 1..{PAGE}"}, 400)
        try:
            events = await self._recorder.after(request.query_params.get("after"), int(limit))
        except StoreError as error:
            return JSONResponse({"events": [], "error": str(error)}, 503)
        return JSONResponse({"events": [_json(event) for event in events]})

    async def stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Server-sent events: ``state`` (the whole state, when it changed) and ``event`` (each event once)."""
        try:
            with self._broadcast.watch() as watcher:
                await self._catch_up(watcher, Request(scope))
                await _serve_stream(watcher, receive, send)
        except TooManyWatchersError:
            await PlainTextResponse("Too many open pages.\n", 503)(scope, receive, send)

    async def _catch_up(self, watcher: Watcher, request: Request) -> None:
        """The state, and the latest events the browser has not seen: it may have been away for a while."""
        watcher.put(_message("state", await self._state()))
        seen = request.headers.get("last-event-id") or request.query_params.get("after", "")
        for event in await self._shown_events():
            same_store = event["id"].partition("-")[0] == seen.partition("-")[0]
            if not same_store or event["id"] > seen:
                watcher.put(_message("event", event))

    async def watch_terminal(self) -> None:
        """While somebody watches, look at the terminal and send what changed. Costs nothing otherwise."""
        last = ""
        while True:
            await self._broadcast.watched.wait()
            message = _message("state", await self._state())
            if message != last:
                self._broadcast.send(message)
                last = message
            await asyncio.sleep(POLL)

    async def _shown_events(self) -> list[dict[str, Any]]:
        try:
            return [shown(event) for event in await self._recorder.latest(SHOWN)]
        except StoreError:
            return []

    async def _state(self) -> dict[str, Any]:
        _, health = await self._health.check()
        try:
            windows = await self._terminal.windows()
        except TmuxError:
            windows = []
        notes = await asyncio.to_thread(status.load, self._box.status_file)
        return {
            "health": health,
            "windows": windows,
            "notes": notes.get("notes") or [],
            "login": await asyncio.to_thread(login_hint, self._box),
        }


async def livez(_request: Request) -> Response:
    """That this process serves, whatever ails the box: the supervisor asks."""
    return PlainTextResponse("ok\n")


def publish(broadcast: Broadcast, events: list[Event]) -> None:
    """Send stored events to everybody who watches."""
    for event in events:
        if not event.synthetic:
            broadcast.send(_message("event", shown(event)))


class _Endpoint:
    """Lets Starlette take a method as a bare ASGI application instead of a request handler."""

    def __init__(self, handler: ASGIApp) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._handler(scope, receive, send)


async def _serve_stream(watcher: Watcher, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    pump = asyncio.create_task(_pump(watcher, send))
    gone = asyncio.create_task(_disconnected(receive))
    await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
    for task in (pump, gone):
        task.cancel()
    await asyncio.gather(pump, gone, return_exceptions=True)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(send({"type": "http.response.body", "body": b""}), 1)


async def _pump(watcher: Watcher, send: Send) -> None:
    """Send messages until the watcher is dropped; one that accepts nothing for _SEND seconds is."""
    while True:
        try:
            message = await asyncio.wait_for(watcher.get(), _BEAT)
        except TimeoutError:
            message = ":\n\n"
        if message is None:
            return
        body = {"type": "http.response.body", "body": message.encode(), "more_body": True}
        await asyncio.wait_for(send(body), _SEND)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _message(name: str, value: dict[str, Any]) -> str:
    """One server-sent event; JSON without line breaks, so one data line. ``id`` lets a browser catch up."""
    identity = f"id: {value['id']}\n" if "id" in value else ""
    return f"event: {name}\n{identity}data: {json.dumps(value)}\n\n"


def _json(event: Event) -> dict[str, Any]:
    return event.model_dump(mode="json", by_alias=True)


def shown(event: Event) -> dict[str, Any]:
    """An event as the page shows it: one line about it, and the payload as indented JSON."""
    return {
        "id": event.id,
        "time": event.received_at.isoformat(timespec="seconds"),
        "clock": event.received_at.strftime("%H:%M:%S"),
        "agent": plain(event.agent, 64),
        "type": plain(event.type, 100),
        "pane": event.pane or "",
        "summary": summary(event.payload),
        "payload": json.dumps(event.payload, indent=2, ensure_ascii=True),
    }


def summary(payload: dict[str, Any]) -> str:
    """The words of a payload that tell the most about it."""
    words = [payload.get("tool_name"), _input(payload.get("tool_input"))]
    words += [payload.get(key) for key in ("prompt", "message", "last_assistant_message", "source", "reason", "error")]
    return plain(" · ".join(str(word) for word in words if isinstance(word, str) and word), 300)


def _input(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    first = next((value[key] for key in ("command", "file_path", "pattern", "description") if key in value), None)
    return first if isinstance(first, str) else None


def login_hint(box: Box) -> str | None:
    """How to log the lead in; None when it has a login, or no lead is declared."""
    manifest = box.lead_manifest
    if manifest is None:
        return None
    config = agents.config_directory(manifest, box.home, os.environ)
    state = agents.credentials(manifest, config, os.environ, box.secrets)
    return None if state["state"] == "present" else manifest.get("credentials", {}).get("login")
