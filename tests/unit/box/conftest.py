from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .boxes import BoxDirectory, eventually


@pytest.fixture
def directory(tmp_path: Path) -> BoxDirectory:
    return BoxDirectory(tmp_path)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoxDirectory]:
    """A supervised box with a secret and a started lead, for tests that leave it as it is."""
    directory = BoxDirectory(tmp_path_factory.mktemp("running"))
    directory.secret("RECORDER_KEY", b"classified")
    with directory.supervised():
        eventually(directory.launches)
        eventually(lambda: directory.get("/healthz").status == 200)
        yield directory
