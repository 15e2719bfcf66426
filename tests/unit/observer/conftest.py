from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.box.boxes import BoxDirectory


@pytest.fixture
def directory(tmp_path: Path) -> BoxDirectory:
    return BoxDirectory(tmp_path)
