"""State absent: the agents are gone from the host and from every login shell."""

from __future__ import annotations

from testinfra.host import Host


def test_nothing_is_left(host: Host) -> None:
    assert not host.file("/opt/agentbox").exists
    assert not host.file("/etc/profile.d/agentbox.sh").exists


def test_users_have_none(host: Host) -> None:
    assert host.run("su --login dev --command 'command -v esbuild'").rc != 0
