"""Turn the text of a flag, a variable or a configuration key into a value; ``ValueError`` says what was expected.

What ends up in a box's declaration is checked by the declaration's own parsers, here only earlier: before anything
is touched, and with the name of the flag, variable or key in the message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from agentbox._shared import _naming, _options, _values

Parser = Callable[[str], Any]

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_MAX_PORT = 65535


def _as_declared(parse: _values.Parser) -> Parser:
    """A parser that checks with ``parse`` and hands on what the user wrote."""

    def check(value: str) -> str:
        parse(value)
        return value

    return check


cpus = _values.cpus
gpus = _values.gpus
memory = _as_declared(_values.size(_options.MINIMUM_MEMORY))
port = _values.integer(1, _MAX_PORT)


def name(value: str) -> str:
    """The name of an instance or a box."""
    if not _naming.is_name(value):
        near = value.lower() if _naming.is_name(value.lower()) else _naming.slug(value)
        raise ValueError(
            f"must be at most 41 lower-case letters, digits and hyphens, not starting with a hyphen, for example {near}"
        )
    return value


def path(value: str) -> str:
    """A path in one line."""
    if not value.isprintable():
        raise ValueError("must not contain control characters")
    return value


def word(value: str) -> str:
    """A word that another program takes as it is; never one that looks like an option."""
    if not _WORD.fullmatch(value):
        raise ValueError("must consist of letters, digits and . _ : -")
    return value


def switch(value: str) -> bool:
    """On or off."""
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise ValueError("must be true or false")
