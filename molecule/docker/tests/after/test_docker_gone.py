"""State absent: the engine is gone, its data is kept."""

from __future__ import annotations

from testinfra.host import Host


def test_the_engine_is_gone(host: Host) -> None:
    assert not host.package("docker.io").is_installed
    assert host.process.filter(comm="dockerd") == []
    assert not host.socket("unix:///run/docker.sock").is_listening


def test_nothing_tried_to_start_it_again(host: Host) -> None:
    """Once when it was installed, once when its stop was repaired, never for its removal."""
    journal = host.check_output("journalctl --unit docker.service --output cat")
    assert journal.count("Starting docker.service") == 2


def test_its_data_is_kept(host: Host) -> None:
    assert host.file("/var/lib/docker/overlay2").is_directory


def test_what_the_role_configured_is_gone_and_the_rest_is_not(host: Host) -> None:
    assert host.check_output("ls /etc/docker") == "daemon.json\nkey.json"
    assert host.file("/etc/docker/daemon.json").content_string == '{"log-level":   "warn"}'
    assert host.check_output("find /etc/systemd /etc/sysctl.d -name '*agentbox*'") == ""
    assert host.file("/etc/sysctl.d/99-hardening.conf").exists
