"""Archives that are not what they should be; real ones are loaded by the integration tests."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from agentbox._shared import _archive
from agentbox._shared._errors import AgentboxError

NESTED = "[" * 100_000


def archive(path: Path, **lists: str) -> str:
    """An archive with these lists; its checksum."""
    with tarfile.open(path, "w:gz") as tar:
        for name, text in lists.items():
            entry = tarfile.TarInfo(f"{name}.json")
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.mark.parametrize("manifest", ["5", '"x"', '{"a": 1}', "[1]", "[]", "{", NESTED, " " * (2 << 20) + "[]"])
def test_lists_of_any_shape_are_no_archive_of_one_image(tmp_path: Path, manifest: str) -> None:
    path = tmp_path / "image.tar.gz"
    checksum = archive(path, manifest=manifest)
    with pytest.raises(AgentboxError, match="is no archive of one image"):
        _archive._inspect(str(path), checksum)


@pytest.mark.parametrize("index", ["[1]", "5", '{"manifests": [1]}', '{"manifests": 5}'])
def test_an_index_of_any_shape_names_nothing(tmp_path: Path, index: str) -> None:
    path = tmp_path / "image.tar.gz"
    _archive._inspect(str(path), archive(path, manifest=json.dumps([{"RepoTags": None}]), index=index))


def test_another_file_is_told_by_its_checksum_whatever_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "image.tar.gz"
    archive(path, manifest=NESTED)
    with pytest.raises(AgentboxError, match="its checksum is"):
        _archive._inspect(str(path), "sha256:0")
