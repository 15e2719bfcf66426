"""Fixtures that several tests of module_utils share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that every user may enter, unlike pytest's own; removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="abx-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
