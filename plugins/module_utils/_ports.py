"""Ports of its host on which a box can be reached: their spellings, and which of them collide. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ._naming import PAGE_PORT
from ._values import InvalidValueError, described, each, integer

LOOPBACK = "127.0.0.1"
_EVERYWHERE = ("0.0.0.0", "::", "", None)  # noqa: S104 - names of it, nothing listens
_number = integer(1, 65535)
_PORT = re.compile(r"(?:(\[[0-9a-f:.]+\]|[0-9.]+):)?([0-9]+):([0-9]+)(?:/(tcp|udp))?", re.IGNORECASE)
_FORM = "[address:]host:box[/tcp|udp] such as 8080:80"


@dataclass(frozen=True, order=True)
class HostPort:
    """What one program of a host can listen on. The address is numeric and in its shortest spelling."""

    address: str
    port: int
    protocol: str = "tcp"

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}" + ("" if self.protocol == "tcp" else f"/{self.protocol}")

    def overlaps(self, other: HostPort) -> bool:
        """Whether not both can be listened on: the unspecified address of a family stands for all of it."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        one, two = ipaddress.ip_address(self.address), ipaddress.ip_address(other.address)
        return one == two or (one.version == two.version and (one.is_unspecified or two.is_unspecified))


@dataclass(frozen=True, order=True)
class Publish:
    """Where the page of a box is published on its host."""

    address: str
    port: int

    @property
    def at(self) -> HostPort:
        return HostPort(self.address, self.port)

    def __str__(self) -> str:
        return str(self.at)


@dataclass(frozen=True, order=True)
class Port:
    """A port of the host, and the port in the box that it leads to."""

    address: str
    host: int
    box: int
    protocol: str

    @property
    def at(self) -> HostPort:
        return HostPort(self.address, self.host, self.protocol)


def publish(value: object) -> Publish | str | None:
    """``none``, a port (on 127.0.0.1), or ``address:port``; None when nothing is declared."""
    if value is None or value == "none":
        return value
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    address, _, port = text.rpartition(":")
    try:
        return Publish(_address(address), _number(port))
    except ValueError:
        raise InvalidValueError(
            f"must be none, a port, or address:port such as 127.0.0.1:4317, not {described(value)}"
        ) from None


def ports(value: object) -> tuple[Port, ...]:
    """A list of ``[address:]host:box[/tcp|udp]``, sorted; without an address only the host itself can call."""
    return tuple(sorted(each(value, _port)))


def _port(item: object) -> Port:
    found = _PORT.fullmatch(item) if isinstance(item, str) else None
    if not found:
        # YAML 1.1 reads 22:22 as a number to the base of 60.
        quote = "; quote it" if isinstance(item, int) and not isinstance(item, bool) else ""
        raise InvalidValueError(f"must be {_FORM}, not {described(item)}{quote}")
    address, host, box, protocol = found.groups()
    try:
        known = _address(address or "")
    except ValueError:
        raise InvalidValueError(f"'{address}' is no IP address") from None
    return Port(known, _number(host), _number(box), (protocol or "tcp").lower())


def _address(text: str) -> str:
    """An IP address in its shortest spelling; ``ValueError`` for what is none."""
    return str(ipaddress.ip_address(text.strip("[]") or LOOPBACK))


def publisher(wanted: HostPort, containers: Iterable[Mapping[str, Any]]) -> str | None:
    """The container that publishes something on a port; ``containers`` is the engine's list of running ones."""
    for container in containers:
        for binding in container.get("Ports") or []:
            same = (binding.get("PublicPort"), binding.get("Type") or "tcp") == (wanted.port, wanted.protocol)
            if same and (binding.get("IP") in (wanted.address, *_EVERYWHERE) or wanted.address in _EVERYWHERE):
                return str((container.get("Names") or [""])[0]).lstrip("/")
    return None


def published(inspect: Mapping[str, Any]) -> tuple[str, int] | None:
    """Address and port of the host on which the container's page is published."""
    bindings = (inspect.get("HostConfig") or {}).get("PortBindings") or {}
    for binding in bindings.get(f"{PAGE_PORT}/tcp") or []:
        port = str(binding.get("HostPort") or "")
        if port.isdigit():
            return str(binding.get("HostIp") or "0.0.0.0"), int(port)  # noqa: S104 - what an empty address means
    return None
