"""State absent: tmux and our settings are gone, others' settings are not."""

from __future__ import annotations

from testinfra.host import Host


def test_tmux_is_gone(host: Host) -> None:
    assert not host.exists("tmux")


def test_of_the_configuration_only_what_others_wrote_is_left(host: Host) -> None:
    assert host.file("/etc/tmux.conf").content_string == "set -s escape-time 5 ; set -g @own yes\n"
