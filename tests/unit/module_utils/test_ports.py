"""Ports of a host: how they are written, which of them collide, and who publishes one."""

from __future__ import annotations

from typing import Any

import pytest

from agentbox._shared._ports import HostPort, Port, ports, publisher
from agentbox._shared._values import InvalidValueError


def test_ports_are_parsed_into_one_order() -> None:
    found = ports(["8080:80", "[::]:53:5353/udp", "0.0.0.0:443:8443/TCP"])
    assert found == (
        Port("0.0.0.0", 443, 8443, "tcp"),  # noqa: S104 - declared so
        Port("127.0.0.1", 8080, 80, "tcp"),
        Port("::", 53, 5353, "udp"),
    )
    assert [str(port.at) for port in found] == ["0.0.0.0:443", "127.0.0.1:8080", "[::]:53/udp"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("80", "must be [address:]host:box[/tcp|udp] such as 8080:80, not '80'"),
        (8080, "must be [address:]host:box[/tcp|udp] such as 8080:80, not the number 8080; quote it"),
        ("80:80/icmp", "must be [address:]host:box[/tcp|udp]"),
        ("localhost:80:80", "must be [address:]host:box[/tcp|udp]"),
        (":80:80", "must be [address:]host:box[/tcp|udp]"),
        ("8000-8010:80", "must be [address:]host:box[/tcp|udp]"),
        ("::1:80:80", "must be [address:]host:box[/tcp|udp]"),
        ("192.0.2.999:80:80", "'192.0.2.999' is no IP address"),
        ("[:::]:80:80", "'[:::]' is no IP address"),
        ("0:80", "must be between 1 and 65535, not 0"),
        ("80:65536", "must be between 1 and 65535, not 65536"),
        (None, "must be [address:]host:box[/tcp|udp] such as 8080:80, not null"),
    ],
)
def test_what_is_no_port_is_named(item: object, message: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        ports(["1:1", item])
    assert caught.value.message.startswith(message)
    assert caught.value.key == "[1]"


@pytest.mark.parametrize(
    ("other", "overlaps"),
    [
        (HostPort("127.0.0.1", 80), True),
        (HostPort("0.0.0.0", 80), True),  # noqa: S104 - declared so
        (HostPort("::", 80), False),
        (HostPort("127.0.0.2", 80), False),
        (HostPort("127.0.0.1", 81), False),
        (HostPort("127.0.0.1", 80, "udp"), False),
    ],
)
def test_overlapping(other: HostPort, overlaps: bool) -> None:
    one = HostPort("127.0.0.1", 80)
    assert one.overlaps(other) is other.overlaps(one) is overlaps


@pytest.mark.parametrize(
    ("published_as", "name"),
    [
        ({"IP": "127.0.0.1", "PublicPort": 4317}, "registry"),
        ({"IP": "0.0.0.0", "PublicPort": 4317}, "registry"),  # noqa: S104
        ({"IP": "::", "PublicPort": 4317}, "registry"),
        ({"IP": "10.0.0.1", "PublicPort": 4317}, None),
        ({"IP": "127.0.0.1", "PublicPort": 4318}, None),
        ({"IP": "127.0.0.1", "PublicPort": 4317, "Type": "udp"}, None),
        ({"PrivatePort": 4317}, None),
    ],
)
def test_the_container_that_publishes_a_port(published_as: dict[str, Any], name: str | None) -> None:
    containers: list[dict[str, Any]] = [
        {"Names": ["/quiet"], "Ports": []},
        {"Names": ["/registry"], "Ports": [published_as]},
    ]
    assert publisher(HostPort("127.0.0.1", 4317), containers) == name
