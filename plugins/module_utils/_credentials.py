"""Logins of agents: what a file of one holds, and when a box gets the host's again. Pure; the runtime uses it too.

Where an agent keeps its login, and how it is told from other content, stands in its manifest.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EXPLICIT = ("seed", "mount")  # values of a box's credentials that take the host's login
MOST_BYTES = 1 << 20  # a file of a login is a few kilobytes
_MILLISECONDS = 1000.0


@dataclass(frozen=True)
class LoginFacts:
    """What a login says about itself, which nobody but its vendor can verify. Times in seconds since the epoch.

    An ``oauth`` login has a refresh token that works once: whoever renews it logs everybody else out that has a copy.
    """

    oauth: bool
    expires: float | None  # None where it does not say
    modified: int

    def replaces(self, other: LoginFacts) -> bool:
        """Whether this login is newer than the ``other`` and lives longer. One without an end lives for ever."""
        if self.modified <= other.modified:
            return False
        return self.expires is None or (other.expires is not None and self.expires > other.expires)


def login_facts(declared: Mapping[str, Any], content: bytes, modified: float) -> LoginFacts | None:
    """Facts of the login in a file with this ``content``; None when it holds none.

    ``declared`` is the part ``credentials`` of the agent's manifest. Without keys in it any content is a login.
    """
    oauth_key, api_key = declared.get("oauth_key"), declared.get("api_key")
    if not (oauth_key or api_key):
        return LoginFacts(False, None, int(modified)) if content.strip() else None
    document = _object(content)
    login = document.get(str(oauth_key))
    if isinstance(login, dict) and any(isinstance(value, str) and value for value in login.values()):
        return LoginFacts(True, _end(login.get(str(declared.get("expires_key")))), int(modified))
    key = document.get(str(api_key))
    return LoginFacts(False, None, int(modified)) if isinstance(key, str) and key else None


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _end(value: object) -> float | None:
    """The end of a login: milliseconds since the epoch, or the claim ``exp`` of a JSON Web Token (RFC 7519)."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value / _MILLISECONDS
    parts = value.split(".") if isinstance(value, str) else []
    if len(parts) != 3:  # noqa: PLR2004 - header, claims and signature
        return None
    try:
        claims = _object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return None
    end = claims.get("exp")
    return float(end) if isinstance(end, (int, float)) and not isinstance(end, bool) else None
