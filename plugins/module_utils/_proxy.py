"""Proxy settings as environment variables, for engine, build and boxes alike. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ._errors import DeclarationError

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
# Up to the last @ before the path: what people write as a password may hold one.
_LOGIN = re.compile(r"://([^/\s]*)@")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def environment(proxy: Mapping[str, object]) -> dict[str, str]:
    """Proxy variables in both cases that tools look for; loopback is always in ``no_proxy``.

    ``proxy`` maps http_proxy, https_proxy, all_proxy, no_proxy (in any case) to strings; empty values count as unset.
    """
    given: dict[str, str] = {}
    for key, value in proxy.items():
        if key.lower() not in VARIABLES:
            raise DeclarationError(f"proxy.{key}: unknown key, known are {', '.join(VARIABLES)}")
        if value is not None and not isinstance(value, str):
            raise DeclarationError(f"proxy.{key}: must be a string")
        if value:
            given[key.lower()] = value
    if not given:
        return {}
    exempt = [item.strip() for item in given.get("no_proxy", "").split(",") if item.strip()]
    given["no_proxy"] = ",".join([*exempt, *(host for host in LOOPBACK if host not in exempt)])
    return {name: given[key] for key in sorted(given) for name in (key.upper(), key)}


def of_host(environ: Mapping[str, str]) -> dict[str, str]:
    """What the environment of the host says about a proxy, in a form for ``environment()``."""
    return {name: environ.get(name) or environ.get(name.upper(), "") for name in VARIABLES}


def without_logins(text: str) -> str:
    """``text`` as it may be shown: no address in it says user or password any more."""
    return _LOGIN.sub("://***@", text)


def logins(addresses: str) -> list[str]:
    """Users with their passwords, as they stand in addresses."""
    return _LOGIN.findall(addresses)
