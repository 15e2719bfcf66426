"""State absent with the data, after the package was removed without."""

from __future__ import annotations

from testinfra.host import Host


def test_its_data_is_gone(host: Host) -> None:
    assert host.check_output("find /var/lib/docker -mindepth 1") == ""


def test_its_configuration_is_gone(host: Host) -> None:
    assert not host.file("/etc/default/docker").exists
    assert not host.file("/etc/init.d/docker").exists
