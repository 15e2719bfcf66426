"""State absent: no image of the instance is left."""

from __future__ import annotations

from testinfra.host import Host


def test_no_image_is_left(host: Host) -> None:
    assert host.check_output("docker images --quiet --filter label=agentbox.instance=agentbox") == ""
