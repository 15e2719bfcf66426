"""Debian packages: what dpkg says, what has to be done, what apt is doing."""

from __future__ import annotations

import pytest

from agentbox._shared import _packages

LISTING = """\
docker.io config-files
iptables installed
libc6 half-installed
libc6 installed
libc6 unpacked
"""


def test_states_of_the_known_packages_are_read() -> None:
    assert _packages.parse_states(LISTING) == {
        "docker.io": "config-files",
        "iptables": "installed",
        "libc6": "installed",
    }


def test_only_what_is_not_installed_is_missing_in_the_given_order() -> None:
    known = _packages.parse_states(LISTING)
    assert _packages.missing(["tmux", "iptables", "docker.io"], known) == ["tmux", "docker.io"]


@pytest.mark.parametrize(("purge", "unwanted"), [(False, ["iptables"]), (True, ["docker.io", "iptables"])])
def test_left_configuration_counts_only_for_a_purge(purge: bool, unwanted: list[str]) -> None:
    known = _packages.parse_states(LISTING)
    assert _packages.present(["docker.io", "iptables", "tmux"], known, purge) == unwanted


def test_nothing_is_asked_about_no_packages() -> None:
    assert _packages.states([]) == {}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("pmstatus:tmux:40.0000:Unpacking tmux (amd64)\n", "Unpacking tmux (amd64) (40 %)"),
        ("dlstatus:3:12.5:Retrieving file 3 of 8 (9s remaining)\n", "Retrieving file 3 of 8 (9s remaining) (12 %)"),
        ("pmstatus:tmux:40.0:Configuring: with a colon\n", "Configuring: with a colon (40 %)"),
        ("pmerror:tmux:40.0:it broke\n", None),
        ("pmstatus:tmux:soon:Unpacking\n", None),
        ("pmstatus\n", None),
        ("", None),
    ],
)
def test_progress_is_text_with_percent(line: str, text: str | None) -> None:
    assert _packages.progress_text(line) == text


def test_an_error_shows_the_last_lines() -> None:
    assert _packages.last_lines("\n".join(map(str, range(100)))) == "\n".join(map(str, range(85, 100)))
