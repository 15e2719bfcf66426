"""Both servers of the box Observer in one event loop: the page for everybody, the sink for the box itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from agentbox.box.config import Box
from agentbox.box.tmux import Tmux
from agentbox.protocol import Event

from .broadcast import Broadcast
from .conversation import follow
from .guard import Guard
from .health import Health
from .page import Page, Terminal
from .recorder import Recorder
from .sink import sink
from .store import Draft

_PAGE_ADDRESS = "0.0.0.0"  # noqa: S104 - the container's; what is published is the host's decision
_SINK_ADDRESS = "127.0.0.1"
_MAX_CONNECTIONS = 128
_HEADER_BYTES = 16 * 1024
_DRAIN = 1  # seconds open requests get when the Observer ends
_log = logging.getLogger("agentbox")


class _Server(uvicorn.Server):
    """uvicorn without its signal handling: two servers share this process's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _server(app: ASGIApp) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=_MAX_CONNECTIONS,
            h11_max_incomplete_event_size=_HEADER_BYTES,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=_DRAIN,
        )
    )


def _listen(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    return listener


async def serve(box: Box) -> None:
    """Until SIGTERM, SIGINT or SIGHUP. Raises OSError when the page's port is taken."""
    tmux = Tmux(box.tmux_conf)

    def publish(events: list[Event]) -> None:
        page.publish(events)

    broadcast = Broadcast()
    recorder = Recorder(box.events_file, publish)
    health = Health(box, tmux, recorder)
    page = Page(box, Terminal(tmux), recorder, broadcast, health)

    def observe(draft: Draft, pid: str | None) -> None:
        follow(box, draft, pid)

    names = {box.container, box.name, os.uname().nodename}
    servers = [(_server(Guard(page.app(), names, allow_origin=True)), _listen(_PAGE_ADDRESS, box.page_port))]
    try:
        listener = _listen(_SINK_ADDRESS, box.hook_port)
    except OSError as error:
        health.sink_problem = f"the hook sink can't listen on {_SINK_ADDRESS}:{box.hook_port}: {error}"
        _log.error("%s", health.sink_problem)
    else:
        servers.append((_server(Guard(sink(box, recorder, observe), (), allow_origin=False)), listener))
        health.sink_problem = None
    _log.info("page on %s:%d, hooks on %s:%d", _PAGE_ADDRESS, box.page_port, _SINK_ADDRESS, box.hook_port)

    def stop() -> None:
        broadcast.close()
        for server, _ in servers:
            server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop)
    background = [asyncio.create_task(recorder.run()), asyncio.create_task(page.watch_terminal())]
    try:
        await asyncio.gather(*(server.serve(sockets=[listener]) for server, listener in servers))
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
