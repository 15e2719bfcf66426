"""What a box reaches and what reaches it: strict seccomp, a read-only root, networks, ports, health check, sealing."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from agentbox._shared import _naming
from tests.integration import engines, runs
from tests.integration.sites import UID, Site, manifests

PROBER = Path(__file__).with_name("syscall_prober.py")
# Answers of the strict profile, by the names of the prober. ENOSYS sends libraries their older way.
UNKNOWN = {
    *("memfd_create", "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "clone3", "userfaultfd"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),
}
ALLOWED = {"netlink of routes", "IPv4 socket", "unix socket", "name of a process", "question about seccomp"}
HEALTHY_TIMEOUT = 20.0  # seconds, with a check every second
ORDINARY_TOOLS = """
    set -e
    cd /workspace && git init -q . && git -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m x
    mkdir -p dependency && echo '{"name": "dependency", "version": "1.0.0"}' > dependency/package.json
    echo '{"name": "project", "version": "1.0.0"}' > package.json
    npm install --offline --silent ./dependency && test -e node_modules/dependency/package.json
    node -e 'new (require("worker_threads").Worker)("", {eval: true})'
    python3 - <<'END'
import concurrent.futures, os, subprocess, tempfile, threading
with concurrent.futures.ProcessPoolExecutor(2, mp_context=None) as pool:
    assert list(pool.map(abs, [-1, -2])) == [1, 2]
thread = threading.Thread(target=subprocess.check_call, args=(["true"],))
thread.start(), thread.join()
for directory in (os.path.expanduser("~"), "/tmp", "/var/tmp"):
    with tempfile.NamedTemporaryFile("w", dir=directory) as file:
        file.write("kept")
END
    printf '#!/bin/sh\\necho executed' > /tmp/program && chmod +x /tmp/program && /tmp/program
    tmux -L agentbox new-window -d -t agentbox -n more 'sleep 60'
    tmux -L agentbox list-windows -t agentbox -F '#{window_name}'
"""


@dataclass(frozen=True)
class Made:
    """Boxes ``walled``, ``beside`` and ``sealed``, and container ``<instance>-peer``, which shares ``lan`` with one."""

    site: Site
    lan: str
    port: int  # of the host, which leads to port 8080 of ``walled``
    first: runs.Result
    again: runs.Result

    @property
    def peer(self) -> str:
        return f"{self.site.instance}-peer"


@pytest.fixture(scope="module")
def made(engine: docker.APIClient, new_instance: Callable[[], str], module_place: Path) -> Made:
    site = Site(new_instance(), module_place)
    labels = {_naming.LABEL_INSTANCE: site.instance}
    lan = f"{site.instance}-lan"
    engine.create_network(lan, labels=labels)
    peer = engine.create_container(
        engines.IMAGE,
        ["python3", "-m", "http.server", "--directory", "/tmp", "8080"],  # noqa: S108 - a path in the container
        name=f"{site.instance}-peer",
        labels=labels,
        entrypoint=[],
        host_config=engine.create_host_config(network_mode=lan),
    )
    engine.start(peer["Id"])
    home = module_place / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Pat Example\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    boxes = [
        site.box(
            "walled",
            lead="none",
            seccomp="strict",
            read_only=True,
            memory=512 << 20,
            networks=[lan],
            ports=[f"{port}:8080"],
            healthcheck={"command": "test -e /tmp/ready", "interval": 1},
            volumes=[f"{site.instance}-tools:/home/agent/.local/share/tools"],
        ),
        site.box("beside"),
        {key: value for key, value in site.box("sealed", sealed=True).items() if key != "publish"},
    ]
    task = runs.role_task(
        "box",
        {
            "box_boxes": boxes,
            "box_instance": site.instance,
            "box_state_root": str(site.state_root),
            "box_manifests": {"standin": manifests()["standin"]},
            "box_identity_home": str(home),
            "box_proxy": {"http_proxy": "http://user:canary-password@192.0.2.1:3128"},
        },
    )
    run = runs.play([task, task])
    first, again = (item for item in run.results if item["task"] == "Present | Converge the boxes")
    for box in ("walled", "sealed"):
        site.wait_for_session(box)
    return Made(site, lan, port, first, again)


def test_a_second_run_changes_nothing(made: Made) -> None:
    """However sizes, ports and durations are written."""
    assert not made.first.get("failed"), made.first
    assert (made.first["changed"], made.again["changed"], made.again["drift"]) == (True, False, [])


def test_strict_seccomp_refuses_what_leads_out(made: Made) -> None:
    found = json.loads(made.site.run("walled", f"python3 - <<'END'\n{PROBER.read_text(encoding='utf-8')}\nEND"))
    assert {name for name, outcome in found.items() if outcome == "ok"} == ALLOWED
    assert {name for name, outcome in found.items() if outcome == "ENOSYS"} == UNKNOWN
    assert {found[name] for name in found.keys() - ALLOWED - UNKNOWN} == {"EPERM"}
    assert "Seccomp:\t2" in made.site.run("walled", "cat /proc/self/status")


def test_ordinary_tools_work_behind_strict_seccomp_on_a_read_only_root(made: Made) -> None:
    printed = made.site.run("walled", ORDINARY_TOOLS).split()
    assert printed == ["executed", _naming.WINDOW_LEAD, _naming.WINDOW_OBSERVER, "more"]
    refused = made.site.try_run("walled", "touch /etc/made")
    assert "Read-only file system" in refused.stdout


def test_a_volume_in_home_and_what_leads_to_it_are_the_box_users(made: Made) -> None:
    owners = made.site.run("walled", "stat -c %u ~/.local ~/.local/share ~/.local/share/tools").split()
    assert owners == [str(UID)] * 3
    made.site.run("walled", "touch ~/.local/made ~/.local/share/tools/made")


def test_a_further_network_is_reached_by_the_box_that_joined_it(made: Made, engine: docker.APIClient) -> None:
    call = "curl -fsS --noproxy '*' -m 2 -o /dev/null http://{}:8080/"
    made.site.run("walled", call.format(made.peer))
    address = engine.inspect_container(made.peer)["NetworkSettings"]["Networks"][made.lan]["IPAddress"]
    made.site.run("walled", call.format(address))
    assert made.site.try_run("beside", call.format(address)).returncode != 0
    assert made.site.try_run("sealed", call.format(address)).returncode != 0


def test_a_port_is_reached_from_the_host_and_not_from_another_box(made: Made, engine: docker.APIClient) -> None:
    made.site.run("walled", "cd /tmp && touch proof && (python3 -m http.server 8080 > /dev/null 2>&1 &)")
    inspected = engine.inspect_container(made.site.container("walled"))
    url = f"http://127.0.0.1:{made.port}/proof"
    deadline = time.monotonic() + 10
    while True:
        try:
            with urllib.request.urlopen(url, timeout=3) as answer:
                assert answer.status == 200
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    address = inspected["NetworkSettings"]["Networks"][made.site.instance]["IPAddress"]
    assert made.site.try_run("beside", f"curl -fsS --noproxy '*' -m 2 http://{address}:8080/proof").returncode != 0


def test_the_declared_health_check_decides(made: Made, engine: docker.APIClient) -> None:
    def health() -> str:
        status: str = engine.inspect_container(made.site.container("walled"))["State"]["Health"]["Status"]
        return status

    assert health() != "healthy"
    made.site.run("walled", "touch /tmp/ready")
    deadline = time.monotonic() + HEALTHY_TIMEOUT
    while health() != "healthy":
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_a_sealed_box_has_no_network_and_nothing_of_its_host(made: Made, engine: docker.APIClient) -> None:
    devices = made.site.run("sealed", "tail -n +3 /proc/net/dev").splitlines()
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]
    assert "Network is unreachable" in made.site.try_run("sealed", "echo > /dev/tcp/192.0.2.1/80").stdout
    assert made.site.run("sealed", "env | grep -i proxy || echo none").strip() == "none"
    assert made.site.try_run("sealed", "git config user.name").stdout == ""
    assert made.site.run("beside", "git config user.name").strip() == "Pat Example"
    binds = [
        mount["Source"]
        for mount in engine.inspect_container(made.site.container("sealed"))["Mounts"]
        if mount["Type"] == "bind" and not mount["Source"].startswith(str(made.site.state))
    ]
    assert binds == [str(made.site.workspace("sealed"))]


def test_what_leads_to_a_mount_that_comes_later_is_the_box_users_too(made: Made) -> None:
    """In the HOME of a box that was there before, which is kept."""
    made.site.run("beside", "touch ~/kept")
    directory = made.site.workspace("data")
    later = made.site.box("beside", mounts=[f"{directory}:/home/agent/.cargo/data/mine:ro"], recreate="drift")
    result = made.site.converge(later)
    assert not result.get("failed"), result
    assert [action["action"] for action in result["actions"]][-1] == "recreate"
    made.site.wait_for_session("beside")
    assert made.site.run("beside", "stat -c %u ~/.cargo ~/.cargo/data ~/kept").split() == [str(UID)] * 3
