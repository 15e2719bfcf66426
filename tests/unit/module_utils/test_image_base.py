"""Which base an image gets, and that it keeps it."""

from __future__ import annotations

import pytest

from agentbox._shared._base import Base, suite_of, ways
from agentbox._shared._errors import DeclarationError

WANTED = "debian:bookworm-slim"
PULLED = Base(WANTED, "registry", WANTED)
MADE = Base(WANTED, "debootstrap", "agentbox-base:bookworm")


@pytest.mark.parametrize(
    ("reference", "suite"),
    [
        ("debian:bookworm-slim", "bookworm"),
        ("debian:trixie", "trixie"),
        ("mirror.example:5000/library/debian:bookworm-slim", "bookworm"),
        (f"debian:bookworm-slim@sha256:{'0' * 64}", "bookworm"),
        ("debian:12-slim", None),
        ("ubuntu:noble", None),
        ("notdebian:bookworm", None),
    ],
)
def test_suite_of_a_reference(reference: str, suite: str | None) -> None:
    assert suite_of(reference) == suite


def test_the_registry_is_tried_before_debootstrap() -> None:
    assert ways(WANTED, "auto", None, set()) == [PULLED, MADE]
    assert ways("python:3.11", "auto", None, set()) == [Base("python:3.11", "registry", "python:3.11")]


def test_a_recorded_base_stays_while_the_engine_has_it() -> None:
    assert ways(WANTED, "auto", MADE, {MADE.reference}) == [MADE, PULLED]
    assert ways(WANTED, "auto", MADE, set()) == [PULLED, MADE]


def test_a_named_source_outweighs_the_record() -> None:
    assert ways(WANTED, "registry", MADE, {MADE.reference}) == [PULLED]
    assert ways(WANTED, "debootstrap", PULLED, {PULLED.reference}) == [MADE]


def test_another_wish_forgets_the_record() -> None:
    wanted = "debian:trixie-slim"
    assert ways(wanted, "auto", MADE, {MADE.reference})[0] == Base(wanted, "registry", wanted)


def test_debootstrap_makes_debian_only() -> None:
    with pytest.raises(DeclarationError, match="base: ubuntu:noble is no Debian image"):
        ways("ubuntu:noble", "debootstrap", None, set())
