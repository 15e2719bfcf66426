"""Who answers at a published address."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ._health import plain
from ._health_facts import PageFacts
from ._host import port_problem
from ._ports import HostPort, publisher

_TIMEOUT = 3.0  # seconds for the whole answer
_MOST_BYTES = 64 * 1024
_HEALTHY, _UNHEALTHY = 200, 503
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - a key, nothing listens


def page_facts(publish: tuple[str, int], containers: Iterable[Mapping[str, Any]]) -> PageFacts:
    """Facts of the address ``publish``; ``containers`` is the engine's list of running containers."""
    address, port = publish
    wanted = HostPort(address, port)
    taken = port_problem(wanted)
    if taken is None:
        return PageFacts(taken=None)
    container = publisher(wanted, containers)
    try:
        status, body = _get(_ANY_ADDRESS.get(address, address), port, "/healthz")
    except (OSError, ValueError) as error:
        return PageFacts(taken, container, reason=plain(str(error) or type(error).__name__))
    return parse_health(taken, container, status, body)


def parse_health(taken: str, container: str | None, status: int, body: bytes) -> PageFacts:
    """Facts from an answer to ``GET /healthz``: a box Observer says 200 or 503, and ``state`` with ``reasons``."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    reasons = answer.get("reasons") if isinstance(answer, dict) else None
    if status not in (_HEALTHY, _UNHEALTHY) or not isinstance(reasons, list) or "state" not in answer:
        return PageFacts(taken, container, reason=f"status {status} and no health report")
    return PageFacts(
        taken,
        container,
        ours=True,
        healthy=status == _HEALTHY,
        reason=plain("; ".join(map(str, reasons))),
    )


def _get(host: str, port: int, path: str) -> tuple[int, bytes]:
    """Status and body of one GET. Plain HTTP/1.0 on a socket, because no proxy and no slow writer may bend it."""
    deadline = time.monotonic() + _TIMEOUT
    with socket.create_connection((host, port), timeout=_TIMEOUT) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n".encode())
        answer = b""
        while len(answer) < _MOST_BYTES:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            part = connection.recv(_MOST_BYTES - len(answer))
            if not part:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"no complete answer within {_TIMEOUT:.0f} s")
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/"):  # noqa: PLR2004 - version and status
        raise ValueError("what answers does not speak HTTP")
    return int(words[1]), body
