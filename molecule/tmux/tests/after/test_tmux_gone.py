"""State absent: tmux is gone."""

from __future__ import annotations

from testinfra.host import Host


def test_tmux_is_gone(host: Host) -> None:
    assert not host.exists("tmux")
