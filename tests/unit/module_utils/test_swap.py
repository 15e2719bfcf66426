"""The journal of a recreation: read back as it was written, and never guessed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbox._shared._errors import StateError
from agentbox._shared._naming import BoxPaths
from agentbox._shared._state import json_file, write_file
from agentbox._shared._swap import Swap, journal_path, pending

WHOLE = {"container": "abx-web", "old": "f" * 64, "was_running": True, "previous": {}, "committed": False}


@pytest.fixture
def paths(tmp_path: Path) -> BoxPaths:
    found = BoxPaths(str(tmp_path), "web")
    Path(found.directory).mkdir(parents=True)
    return found


def test_a_journal_is_read_as_written(paths: BoxPaths) -> None:
    assert pending(paths) is None
    previous = {"/state/record.json": ["{}", 0o600], "/state/new": None}
    write_file(json_file(journal_path(paths), {**WHOLE, "previous": previous}, 0o600))
    assert pending(paths) == Swap("abx-web", "f" * 64, True, {"/state/record.json": ("{}", 0o600), "/state/new": None})


@pytest.mark.parametrize(
    "changed",
    [
        {"previous": []},
        {"previous": {"/state/record.json": "text"}},
        {"previous": {"/state/record.json": ["{}", "0600"]}},
        {"old": None},
        {"old": ""},
        {"was_running": "yes"},
        {"committed": 1},
    ],
)
def test_a_journal_of_wrong_types_is_named(paths: BoxPaths, changed: dict[str, object]) -> None:
    write_file(json_file(journal_path(paths), {**WHOLE, **changed}, 0o600))
    with pytest.raises(StateError, match=rf"{journal_path(paths)} is damaged"):
        pending(paths)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null"])
def test_a_journal_that_is_none_is_named(paths: BoxPaths, text: str) -> None:
    Path(journal_path(paths)).write_text(text, encoding="utf-8")
    with pytest.raises(StateError, match="is damaged"):
        pending(paths)
