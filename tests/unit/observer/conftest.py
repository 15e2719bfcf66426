from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.box.boxes import BoxDirectory


@pytest.fixture
def directory(tmp_path: Path) -> BoxDirectory:
    return BoxDirectory(tmp_path)


@pytest.fixture(scope="module")
def observer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoxDirectory]:
    """A box of which only the Observer runs, for tests that only ask."""
    directory = BoxDirectory(tmp_path_factory.mktemp("observer"))
    with directory.observed():
        yield directory
