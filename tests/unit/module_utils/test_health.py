"""The vocabulary of health: verdicts, counts, and text that is safe to print."""

from __future__ import annotations

import pytest

from agentbox._shared._health import Check, Verdict, counts, overall, plain, settled, size, without_credentials


def checks(*verdicts: Verdict) -> list[Check]:
    return [Check("id", "host", verdict, "seen") for verdict in verdicts]


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ((), "ok"),
        (("ok", "ok"), "ok"),
        (("ok", "warn"), "warn"),
        (("warn", "unknown", "ok"), "unknown"),
        (("unknown", "fail", "warn"), "fail"),
    ],
)
def test_the_worst_verdict_counts(verdicts: tuple[Verdict, ...], worst: Verdict) -> None:
    assert overall(checks(*verdicts)) == worst


def test_every_verdict_is_counted_even_when_it_did_not_occur() -> None:
    assert counts(checks("ok", "fail", "ok")) == {"ok": 2, "warn": 0, "unknown": 0, "fail": 1}


def test_a_result_holds_what_the_module_promises() -> None:
    check = Check("lead", "web", "fail", "exited", "start it", settling=True)
    assert check.as_result() == {
        "id": "lead",
        "subject": "web",
        "verdict": "fail",
        "seen": "exited",
        "todo": "start it",
    }


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (Check("state", "web", "fail", "restarting", settling=True), False),
        (Check("supervisor", "web", "unknown", "starting", settling=True), False),
        (Check("lead", "web", "fail", "exited with code 1"), True),
        (Check("tmux", "web", "ok", "windows main, observer", settling=True), True),
    ],
)
def test_only_a_bad_verdict_that_time_may_cure_is_waited_for(check: Check, expected: bool) -> None:
    assert settled([Check("engine", "host", "ok", "runs"), check]) is expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand\r\nmore", "two lines and more"),
        ("\x1b[31mred\x1b[0m \x07bell \x9b2J", "[31mred[0m bell 2J"),
        ("right\u202eto left\u2066 and zero\u200bwidth", "rightto left and zerowidth"),
        ("ünïcode ✓ 日本", "ünïcode ✓ 日本"),
        ("broken \udcff surrogate", "broken surrogate"),
        (None, "None"),
    ],
)
def test_foreign_text_loses_what_could_drive_a_terminal(text: object, shown: str) -> None:
    assert plain(text) == shown


def test_foreign_text_is_bounded() -> None:
    assert plain("x" * 100_000) == "x" * 297 + "..."


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://proxy.example:3128", "http://proxy.example:3128"),
        ("http://user:pa%40ss@proxy.example:3128/path", "http://proxy.example:3128"),
        ("user:secret@proxy.example:8080", "proxy.example:8080"),
        ("http://user:s@cret@proxy.example", "http://proxy.example"),
        ("http://[::1]:8080", "http://::1:8080"),
        ("http://proxy.example:port-with-secret", "(not a valid address)"),
        ("http://[broken", "(not a valid address)"),
        ("", "(not a valid address)"),
    ],
)
def test_an_address_is_shown_without_user_and_password(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (268435456, "256 MiB"), (4 * 1024**3, "4 GiB"), (5 * 1024**4, "5 TiB")],
)
def test_sizes_are_shown_in_binary_units(amount: int, shown: str) -> None:
    assert size(amount) == shown
