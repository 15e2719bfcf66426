"""What a user has after one run on a host that had nothing."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

GET = "docker exec agentbox curl --fail --silent --show-error --max-time 5 http://127.0.0.1:4317"


def test_the_page_is_healthy_and_shows_the_windows(host: Host) -> None:
    assert json.loads(host.check_output(f"{GET}/healthz"))
    windows = json.loads(host.check_output(f"{GET}/api/windows"))
    assert {window["name"] for window in windows["windows"]} == {"main", "observer"}


def test_the_page_is_published_on_loopback_only(host: Host) -> None:
    [listening] = [socket for socket in host.socket.get_listening_sockets() if socket.endswith(":4317")]
    assert listening == "tcp://127.0.0.1:4317"


@pytest.mark.parametrize("box", ["agentbox", "agentbox-second"])
def test_every_box_is_healthy(host: Host, box: str) -> None:
    """The engine asks a box that was just started every 30 s."""
    look = f"docker inspect --format '{{{{.State.Health.Status}}}}' {box}"
    wait = f"for i in $(seq 90); do [ $({look}) = healthy ] && exit 0; sleep 1; done; exit 1"
    assert host.run(wait).succeeded, host.check_output(f"docker inspect --format '{{{{json .State}}}}' {box}")


def test_boxes_do_not_reach_each_other(host: Host) -> None:
    address = host.check_output(
        "docker inspect --format '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' agentbox"
    )
    reach = host.run(f"docker exec agentbox-second curl --silent --max-time 3 http://{address}:4317/healthz")
    assert reach.rc == 28, reach.stderr  # curl: timed out


def test_the_host_has_tmux(host: Host) -> None:
    assert host.exists("tmux")
