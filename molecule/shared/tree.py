"""Print what stands in the file system of a host, one line per path: JSON list of path, kind and mode, owner, content.

Runs on the host. Left out is what changes by itself: logs, Python's and package manager's caches, the engine's data,
and what a run of Ansible needs for itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

ROOTS = ("/etc", "/home", "/opt", "/root", "/srv", "/usr", "/var")
LEFT_OUT = (
    "/root/.ansible",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/systemd",
    "/var/log",
    "/var/tmp",  # noqa: S108 -- not used, only not looked at
)


def lines() -> list[str]:
    found = []
    for root in ROOTS:
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if wanted(f"{folder}/{name}")]
            found += [line(Path(folder, name)) for name in [*folders, *files]]
    return sorted(found)


def wanted(path: str) -> bool:
    return path not in LEFT_OUT and not path.endswith("__pycache__")


def line(path: Path) -> str:
    status = path.lstat()
    content = ""
    if path.is_symlink():
        content = str(path.readlink())
    elif path.is_file():
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    return json.dumps([str(path), oct(status.st_mode), status.st_uid, status.st_gid, content])


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
