"""Asking a running box what it knows about itself. What it answers is checked in ``_health_probe.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ._engine import Engine
from ._errors import EngineError
from ._health_facts import CredentialFacts, Hidden, ProbeFacts
from ._health_probe import MOST_BYTES, parse_credentials, parse_probe

_SECONDS = 30  # for an answer; inside the box nearly the same limit ends the program itself
_PROGRAM = ("timeout", "--kill-after=2", str(_SECONDS - 5), "/opt/agentbox/bin/python", "-m", "agentbox.box")

_T = TypeVar("_T")


def probe_box(engine: Engine, container: str) -> ProbeFacts | Hidden:
    """What the box reports about itself, checked. It takes about a second: every agent tells its version."""
    return _answer(engine, container, "probe", parse_probe)


def box_credentials(engine: Engine, container: str) -> Mapping[str, CredentialFacts] | Hidden:
    """Which agents of the box have a login; of all that ``probe_box`` asks for, this alone."""
    return _answer(engine, container, "credentials", parse_credentials)


def _answer(engine: Engine, container: str, command: str, parse: Callable[[bytes], _T | Hidden]) -> _T | Hidden:
    try:
        code, output = engine.run(container, (*_PROGRAM, command), timeout=_SECONDS, most=MOST_BYTES + 1)
    except EngineError as error:
        return Hidden(error.message)
    found = parse(output)
    if isinstance(found, Hidden) and code:
        return Hidden(f"its probe ended with exit code {code}")
    return found
