"""The collection itself, packed for a host that will run playbooks of its own."""

from __future__ import annotations

DOCUMENTATION = r"""
name: collection_archive
short_description: The collection itself, packed for a host that will run playbooks of its own
version_added: 0.1.0
description:
  - Packs, on the controller, everything of the collection that is needed to run it, wherever it was installed from.
  - Equal contents give equal archives.
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Show how large the packed collection is
  ansible.builtin.debug:
    msg: "{{ lookup('agentbox.fleet.collection_archive') | length }}"
"""

RETURN = r"""
_raw:
  description: One text, a tar archive, compressed with gzip, in Base64. Its paths are relative to the collection.
  type: list
  elements: str
"""

import base64
import gzip
import io
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.plugins.lookup import LookupBase

COLLECTION = Path(__file__).resolve().parents[2]
FOLDERS = ("agents", "meta", "playbooks", "plugins", "requirements", "roles", "src", "templates")
# What the collection calls itself: in a clone, and where ansible-galaxy installed it.
FILES = ("galaxy.yml", "MANIFEST.json", "FILES.json")


def archive(collection: Path = COLLECTION) -> bytes:
    """The archive. Owners and times are none, modes are 0644 and 0755, links stay links."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for path in contents(collection):
            _add(tar, path, str(path.relative_to(collection)))
    return packed.getvalue()


def contents(collection: Path) -> Iterator[Path]:
    """Files and links in a stable order, without what Python makes of its sources."""
    yield from (collection / name for name in FILES if (collection / name).is_file())
    for folder in FOLDERS:
        for path in sorted((collection / folder).rglob("*")):
            if "__pycache__" not in path.parts and (path.is_symlink() or path.is_file()):
                yield path


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tarfile.TarInfo(name)
    if path.is_symlink():
        entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
        tar.addfile(entry)
        return
    content = path.read_bytes()
    entry.size = len(content)
    entry.mode = 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644
    tar.addfile(entry, io.BytesIO(content))


class LookupModule(LookupBase):  # type: ignore[misc]
    """See ``DOCUMENTATION``."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        self.set_options(var_options=variables, direct=kwargs)
        return [base64.b64encode(archive()).decode("ascii")]
