"""State absent: the boxes are gone, with their secrets; their homes and workspaces are kept."""

from __future__ import annotations

from testinfra.host import Host


def test_no_box_is_left(host: Host) -> None:
    assert host.check_output("docker ps --all --quiet --filter label=agentbox.instance=agentbox") == ""


def test_no_secret_is_left(host: Host) -> None:
    assert host.run("grep --recursive --quiet not-shown-anywhere /var/lib/agentbox").rc != 0


def test_homes_and_workspaces_are_kept(host: Host) -> None:
    volumes = host.check_output("docker volume ls --quiet --filter label=agentbox.instance=agentbox")
    assert {"agentbox-default-home", "agentbox-second-home"} <= set(volumes.split())
    assert host.file("/srv/code/from-the-box").exists
