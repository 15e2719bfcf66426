from __future__ import annotations

import pytest

from agentbox._shared import _proxy


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:pw@proxy.example:3128/x", "http://***@proxy.example:3128/x"),
        ("http://user:p@ss@proxy.example:3128", "http://***@proxy.example:3128"),
        (
            "from http://a:b@x.example/y@2 and https://t0ken@z.example",
            "from http://***@x.example/y@2 and https://***@z.example",
        ),
        ("http://proxy.example:3128/pool/@scope", "http://proxy.example:3128/pool/@scope"),
        ("user@host", "user@host"),
        ("", ""),
    ],
)
def test_addresses_are_shown_without_logins(text: str, shown: str) -> None:
    assert _proxy.without_logins(text) == shown


def test_logins_are_found_whole() -> None:
    assert _proxy.logins("http://user:p@ss@proxy.example https://proxy.example https://t0ken@z.example/@x") == [
        "user:p@ss",
        "t0ken",
    ]
