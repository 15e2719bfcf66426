"""Who may talk to the Observer's ports: names this box is known by, and no page of another site."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PORT = re.compile(r"(?<=[^:]):[0-9]+$")

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def known_host(header: str | None, names: Iterable[str]) -> bool:
    """Whether a Host header is an address or one of ``names``.

    A page of another site can make a browser resolve its own name to this machine (DNS rebinding); it can't make the
    browser send another Host than that name.
    """
    if not header:
        return False
    host = _PORT.sub("", header).strip("[]").lower()
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host in names
    return True


class Guard:
    """Refuses foreign hosts, and foreign origins where asked; adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, names: Iterable[str], allow_origin: bool) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names)
        self._allow_origin = allow_origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.encode(), v.encode()) for k, v in SECURITY_HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        headers = Headers(scope=scope)
        app = self._app
        if not known_host(headers.get("host"), self._names):
            app = PlainTextResponse("Unknown host. Use the address this box is published at.\n", 421)
        elif not self._allow_origin and "origin" in headers:
            app = PlainTextResponse("Not for web pages.\n", 403)
        await app(scope, receive, send_secured)
