"""Both servers of the box Observer in one event loop: the page for everybody, the sink for the box itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Coroutine, Iterable, Iterator
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from agentbox.box.config import Box
from agentbox.box.tmux import Tmux

from .broadcast import Broadcast
from .conversation import follow
from .guard import Guard
from .health import Health
from .page import Page, Terminal, publish
from .recorder import Recorder
from .sink import sink

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


Listening = tuple[_Server, socket.socket]


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
    broadcast = Broadcast()
    recorder = Recorder(box.events_file, partial(publish, broadcast))
    health = Health(box, tmux, recorder)
    page = Page(box, Terminal(tmux), recorder, broadcast, health)
    servers = [_page_server(box, page)]
    try:
        servers.append(_sink_server(box, recorder))
        health.sink_problem = None
    except OSError as error:
        health.sink_problem = f"the hook sink can't listen on {_SINK_ADDRESS}:{box.hook_port}: {error}"
        _log.error("%s", health.sink_problem)
    _log.info("page on %s:%d, hooks on %s:%d", _PAGE_ADDRESS, box.page_port, _SINK_ADDRESS, box.hook_port)
    await _run(servers, broadcast, [recorder.run(), page.watch_terminal()])


def _page_server(box: Box, page: Page) -> Listening:
    names = {box.container, box.name, os.uname().nodename}
    app = Guard(page.app(), names, allow_origin=True)
    return _server(app), _listen(_PAGE_ADDRESS, box.page_port)


def _sink_server(box: Box, recorder: Recorder) -> Listening:
    app = Guard(sink(box, recorder, partial(follow, box)), (), allow_origin=False)
    return _server(app), _listen(_SINK_ADDRESS, box.hook_port)


async def _run(servers: Iterable[Listening], broadcast: Broadcast, work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Serve and work until a signal; then end open pages, and let the work finish what it has.

    Work that fails ends everything: the supervisor starts a new Observer, which is better than half of one.
    """

    def stop() -> None:
        broadcast.close()
        for server, _ in servers:
            server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    background = [asyncio.create_task(part) for part in work]
    for task in background:
        task.add_done_callback(lambda _: stop())
    try:
        await asyncio.gather(*(server.serve(sockets=[listener]) for server, listener in servers))
    finally:
        for task in background:
            task.cancel()
        ends = await asyncio.gather(*background, return_exceptions=True)
    for failure in (end for end in ends if isinstance(end, Exception)):
        raise failure
