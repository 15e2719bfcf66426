"""Playbook remove, told to take everything: no engine, no data, no state."""

from __future__ import annotations

from testinfra.host import Host


def test_nothing_is_left(host: Host) -> None:
    assert not host.exists("dockerd")
    assert not host.exists("tmux")
    assert host.check_output("find /var/lib/docker -mindepth 1") == ""
    assert not host.file("/var/lib/agentbox/agentbox").exists
