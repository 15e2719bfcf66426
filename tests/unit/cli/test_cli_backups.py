"""What `export` and `import` say, and what of a stranger's file becomes a declaration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentbox._shared._backup import Contents, Manifest
from agentbox.cli import arguments, backups

DECLARATION: dict[str, Any] = {
    "agents": ["claude"],
    "lead": "claude",
    "memory": 1 << 30,
    "mounts": [{"source": "/root", "target": "/x", "read_only": False}],
    "yolo": True,
    "ports": [],
    "workspace": "/root/.ssh",
    "image": "registry.example/evil",
    "uid": 0,
}


def contents(**secrets: str) -> Contents:
    left_out = {"logins": [], "secrets": ["A", "B"]}
    manifest = Manifest("web", "agentbox", "2026-01-31T08:15:00Z", DECLARATION, "agentbox:latest", "", left_out)
    return Contents(manifest, "sha256:0", 1, 2, secrets)


def test_a_file_opens_nothing_of_the_host() -> None:
    found = backups.declaration(contents(A="x"), "two", Path("/srv/two"), None)
    assert found == {
        "name": "two",
        "workspace": "/srv/two",
        "lead": "claude",
        "agents": ["claude"],
        "memory": 1 << 30,
        "secrets": {"A": "x"},
    }


def test_what_is_left_to_the_caller_is_told() -> None:
    host, secrets = backups.warnings(contents(A="x"))
    assert host.startswith("not taken over, because it is about the host: yolo, mounts;")
    assert secrets == "the backup has no values of its secrets B"


def test_what_was_left_out_is_told_and_harmless_to_print() -> None:
    left_out = {"logins": [".claude/.credentials.json"], "secrets": ["A"], "others": ["a\x1b[2J", *"bcdefg"]}
    told = backups.exported("web", Path("/srv/a b.tar.gz"), {"size": 3 << 20, "left_out": left_out})
    assert told.splitlines() == [
        "box web is in /srv/a b.tar.gz (3.0 MiB); its workspace is not, take it along yourself",
        "left out, logins: .claude/.credentials.json (--with-logins takes them along)",
        "left out, values of secrets: A (--with-secrets takes them along)",
        "left out, because it leads out of HOME or is no file: a\\x1b[2J, b, c, d, e and 2 more",
        "on another host: agentbox import 'a b.tar.gz'",
    ]


def test_import_takes_one_file() -> None:
    assert arguments.parse(["import", "x.tar.gz", "--name", "two"]).operand == "x.tar.gz"
    with pytest.raises(SystemExit):
        arguments.parse(["import"])
