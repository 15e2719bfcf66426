"""The packed collection: the same for the same contents, and enough to run from."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from ansible_collections.agentbox.fleet.plugins.lookup.collection_archive import FOLDERS, archive

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    folder = tmp_path / "collection"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, symlinks=True)
    shutil.copy(ROOT / "galaxy.yml", folder)
    return folder


def names(content: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return set(tar.getnames())


def test_only_contents_change_it(collection: Path) -> None:
    before = archive(collection)
    for path in collection.rglob("*"):
        os.utime(path, (0, 0), follow_symlinks=False)
    (collection / "tests").mkdir()
    (collection / "plugins/modules/__pycache__").mkdir(exist_ok=True)
    (collection / "plugins/modules/__pycache__/box.pyc").write_bytes(b"made by Python")
    assert archive(collection) == before
    (collection / "roles/own").mkdir()
    (collection / "roles/own/README.md").write_text("more\n", encoding="utf-8")
    assert names(archive(collection)) - names(before) == {"roles/own/README.md"}


def test_what_is_unpacked_runs(collection: Path, tmp_path: Path) -> None:
    place = tmp_path / "collections/ansible_collections/agentbox/fleet"
    place.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(archive(collection))) as tar:
        tar.extractall(place, filter="data")
    (tmp_path / "activity.jsonl").write_text('{"event": "stats", "hosts": {}}\n', encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "agentbox.gitops", "report", "activity.jsonl"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(place / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "ok: 0 changes, 0 differences that stay, 0 failures on 0 hosts\n", done.stderr
