"""Images in a registry: what a tag means there, pushing to it, pulling from it.

The engine talks to the registry; what it trusts (certs.d, insecure-registries) decides. A login is handed over per
call and written nowhere.
"""

from __future__ import annotations

import http
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import _lines
from ._engine import Engine
from ._errors import AgentboxError, EngineError
from ._progress import Report

SILENCE = 30.0  # seconds without a word from the registry after which it is given up
_HINTS = (
    (r"unauthorized|authentication required|denied|no basic auth", "Check user and password of the registry"),
    (r"x509|certificate", "Let the engine trust the registry's authority (image_registry_ca_file)"),
    (
        r"HTTP response to HTTPS client",
        "Give the registry a certificate, or list it in the engine's insecure-registries",
    ),
)


class RegistryError(AgentboxError):
    """A registry did not take or give an image."""


@dataclass(frozen=True)
class Login:
    """Who asks. Empty: whatever the engine's client has for that registry."""

    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def auth(self) -> dict[str, str] | None:
        """As the docker SDK takes it."""
        return {"username": self.username, "password": self.password} if self.username else None


NOBODY = Login()


def split(reference: str) -> tuple[str, str]:
    """Repository, and tag or digest, of ``host:5000/name``, ``name:tag`` or ``name@sha256:...``."""
    import docker.utils

    repository, tag = docker.utils.parse_repository_tag(reference)
    return str(repository), str(tag or "latest")


def same_host(reference: str, other: str) -> bool:
    """Whether both are of one registry."""
    import docker.auth

    resolve_host = docker.auth.resolve_repository_name
    return bool(resolve_host(split(reference)[0])[0] == resolve_host(split(other)[0])[0])


def pinned(reference: str, digest: str) -> str:
    """``repository@digest`` for the repository of ``reference``."""
    return f"{split(reference)[0]}@{digest}"


def resolve(engine: Engine, reference: str, login: Login) -> str | None:
    """Digest of what ``reference`` means in its registry now, None when the registry has no such thing."""
    import docker.errors

    with _asking(engine, f"ask for {reference}"):
        try:
            answer = engine.client.inspect_distribution(reference, auth_config=login.auth)
        except docker.errors.APIError as error:
            if error.status_code == http.HTTPStatus.NOT_FOUND:
                return None
            raise
    return str(answer["Descriptor"]["digest"])


def push(engine: Engine, image_id: str, reference: str, login: Login, report: Report) -> str:
    """Give an image the tag ``reference`` and push it; its digest in the registry."""
    repository, tag = split(reference)
    digests: list[str] = []

    def noting_digests(events: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        for event in events:
            if "Digest" in event.get("aux", {}):
                digests.append(event["aux"]["Digest"])
            yield event

    with _asking(engine, f"push {reference}"):
        engine.client.tag(image_id, repository, tag, force=True)
        events = engine.client.push(repository, tag, auth_config=login.auth, stream=True, decode=True)
        _follow(f"push {reference}", noting_digests(events), lambda line: report(f"push: {line}"))
    if not digests:
        raise RegistryError(f"push {reference}: the registry named no digest")
    return digests[-1]


def pull(engine: Engine, reference: str, login: Login, report: Report) -> None:
    """Pull an image by tag or digest."""
    repository, tag = split(reference)
    with _asking(engine, f"pull {reference}"):
        events = engine.client.pull(repository, tag=tag, auth_config=login.auth, stream=True, decode=True)
        _follow(f"pull {reference}", events, report)


def _follow(what: str, events: Iterable[Mapping[str, Any]], report: Report) -> None:
    """Follow a transfer with a bound on silence instead of on time: a slow line may take long, a dead one may not."""
    waited = 0.0
    told: set[str] = set()

    def observe(line: str) -> None:
        nonlocal waited
        waited = 0.0
        if line not in told:  # byte counts come as repetitions: signs of life, and no news
            told.add(line)
            report(line)

    def idle() -> None:
        nonlocal waited
        waited += _lines.IDLE_SECONDS
        report(f"waiting for the registry ({waited:.0f} s)")
        if waited >= SILENCE:
            raise RegistryError(f"{what}: the registry was silent for {waited:.0f} s")

    _lines.pump(_steps(what, events), observe, idle)


def _steps(what: str, events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for event in events:
        if "error" in event:
            raise RegistryError(f"{what}: {event['error']}", _hint(str(event["error"])))
        yield " ".join(str(event[key]) for key in ("id", "status") if key in event)


@contextmanager
def _asking(engine: Engine, what: str) -> Iterator[None]:
    """Say what to do about a failure that the engine tells from the registry."""
    try:
        with engine.doing(what):
            yield
    except EngineError as error:
        raise RegistryError(error.message, _hint(error.message)) from error


def _hint(text: str) -> str:
    return next((hint for pattern, hint in _HINTS if re.search(pattern, text, re.IGNORECASE)), "")
