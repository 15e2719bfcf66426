"""The hook sink: agents of this box report here and are never kept waiting."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentbox._shared._naming import PANE_HEADER, PID_HEADER
from agentbox.box.config import Box
from agentbox.protocol.events import PROBE_AGENT

from .draft import ReportError, draft
from .recorder import Recorder
from .store import Draft

MAX_BODY = 8 * 1024 * 1024  # a tool's answer with an image in it is some MiB
_log = logging.getLogger("agentbox")

Observe = Callable[[Draft, str | None], None]


def sink(box: Box, recorder: Recorder, observe: Observe) -> Starlette:
    """``POST /hook/<agent>``: the agent's JSON in, ``{}`` out. ``observe`` sees each draft with the agent's pid."""
    agents = {*box.agents, *box.manifests, PROBE_AGENT}

    async def hook(request: Request) -> Response:
        agent = request.path_params["agent"]
        if agent not in agents:
            return _refusal(404, f"no agent of this box: {agent[:64]}")
        body = await _body(request)
        if body is None:
            return _refusal(413, f"more than {MAX_BODY} bytes")
        try:
            report = draft(agent, body, request.headers.get(PANE_HEADER), datetime.now(UTC))
        except ReportError as error:
            return _refusal(400, str(error))
        recorder.offer(report, len(body))
        observe(report, request.headers.get(PID_HEADER))
        return JSONResponse({})

    return Starlette(routes=[Route("/hook/{agent}", hook, methods=["POST"])])


async def _body(request: Request) -> bytes | None:
    """The whole body; None as soon as it is larger than allowed."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            return None
    return bytes(body)


def _refusal(status: int, message: str) -> Response:
    _log.warning("hook refused (%d): %s", status, message)
    return JSONResponse({"error": message}, status)
