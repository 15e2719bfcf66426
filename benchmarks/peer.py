"""The peer's collection, from the package that carries it: ``requirements/bench.txt``."""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

from . import commands
from .commands import CACHE, PEER_COLLECTIONS, REPOSITORY

_REQUIREMENTS = REPOSITORY / "requirements/bench.txt"
# Of the hundred collections in the package only these are unpacked.
_WANTED = ("ansible_collections/community/docker/", "ansible_collections/community/library_inventory_filtering_v1/")


def fetch() -> None:
    """Unpack the collection, unless the one that the requirements name is there."""
    stamp = CACHE / "collections.stamp"
    wanted = _REQUIREMENTS.read_text(encoding="utf-8")
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
        commands.run([*pip, "--require-hashes", "--dest", directory, "--requirement", str(_REQUIREMENTS)])
        [wheel] = Path(directory).glob("ansible-[0-9]*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(PEER_COLLECTIONS, [name for name in archive.namelist() if name.startswith(_WANTED)])
    stamp.write_text(wanted, encoding="utf-8")
