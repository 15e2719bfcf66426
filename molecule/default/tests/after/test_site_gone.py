"""Everything absent: no engine, no data."""

from __future__ import annotations

from testinfra.host import Host


def test_nothing_is_left(host: Host) -> None:
    assert not host.exists("dockerd")
    assert not host.exists("tmux")
    assert host.check_output("find /var/lib/docker -mindepth 1") == ""
