"""What a running container still sees of what it has mounted, from trees as /proc shows them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentbox._shared._mounted import replaced

PID = 7
CONTENT = b"agent:x:1000\n"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host whose container ``PID`` has mounted ``/state/mount`` at ``/agentbox`` and ``/state/passwd``."""
    (tmp_path / "state/mount").mkdir(parents=True)
    (tmp_path / "state/passwd").write_bytes(CONTENT)
    inside = tmp_path / f"proc/{PID}/root"
    (inside / "etc").mkdir(parents=True)
    (inside / "agentbox").symlink_to(tmp_path / "state/mount")
    (inside / "etc/passwd").hardlink_to(tmp_path / "state/passwd")
    return tmp_path


def found(host: Path, contents: dict[str, bytes] | None = None) -> list[str]:
    sources = {"/agentbox": "/state/mount", "/etc/passwd": "/state/passwd"}
    return list(replaced(PID, sources, {"/etc/passwd": CONTENT} if contents is None else contents, host))


def test_what_is_written_into_it_is_seen(host: Path) -> None:
    (host / "state/mount/entry.sh").touch()
    (host / "state/passwd").write_bytes(b"edited\n")
    assert found(host) == []


def test_a_directory_made_anew_is_not(host: Path) -> None:
    seen = host / f"proc/{PID}/root/agentbox"
    seen.unlink()
    seen.mkdir()
    assert found(host) == ["/agentbox"]


def test_a_removed_directory_is_not(host: Path) -> None:
    seen = host / f"proc/{PID}/root/agentbox"
    seen.unlink()
    (host / "state/mount").rename(seen)
    assert found(host) == ["/agentbox"]


def test_a_file_counts_by_what_the_container_sees_of_it(host: Path) -> None:
    (host / "state/passwd").unlink()
    assert found(host) == [], "it still sees the right one"
    (host / f"proc/{PID}/root/etc/passwd").write_bytes(b"edited before\n")
    assert found(host) == ["/etc/passwd"]
    assert found(host, {}) == [], "nobody says what it should see"


def test_what_an_agent_put_in_its_place_is_not_waited_for(host: Path) -> None:
    """A named pipe would keep its reader for ever."""
    seen = host / f"proc/{PID}/root/etc/passwd"
    seen.unlink()
    os.mkfifo(seen)
    assert found(host) == ["/etc/passwd"]


def test_what_cannot_be_looked_at_counts_as_seen(tmp_path: Path) -> None:
    (tmp_path / "state/mount").mkdir(parents=True)
    assert found(tmp_path) == []
