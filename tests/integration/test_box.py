"""Boxes on a real engine: predicted, made, left alone, hardened, limited, parted from each other, removed."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _naming
from tests.integration import runs
from tests.integration.sites import UID, Site

CANARY = "canary-of-a-secret"
BRACES = "{{ lookup('pipe', 'touch {place}/executed') }}"
# What shells, environment files and YAML each read in their own way.
GREETING = " #two words, 'quotes', \"more\", $HOME and ünïcode"
STOP_LIMIT = 5.0  # seconds for a box to end, far below the 20 s after which the engine kills it


@dataclass(frozen=True)
class Made:
    """Boxes ``one``, ``two`` and ``rooted`` and what the runs that made them returned."""

    site: Site
    before: dict[str, Any]  # engine and files before the prediction, after it, after creation, and after more runs
    unchanged: dict[str, Any]
    after: dict[str, Any]
    idle: dict[str, Any]
    predicted: runs.Result
    created: runs.Result
    again: runs.Result
    checked: runs.Result
    output: str


@pytest.fixture(scope="module")
def made(engine: docker.APIClient, new_instance: Callable[[], str], module_place: Path) -> Made:
    site = Site(new_instance(), module_place)
    boxes = declared(site)
    secrets = {"one": {"STANDIN_TOKEN": CANARY}}

    before = site.look(engine)
    predicted = runs.play([site.task(*boxes, secrets=secrets)], check=True, diff=True, verbosity=3)
    unchanged = site.look(engine)
    created = runs.play([site.task(*boxes, secrets=secrets)], diff=True, verbosity=3)
    after = site.look(engine)
    repeated = runs.play(
        [
            site.task(*boxes, secrets=secrets),
            site.task(*boxes, secrets=secrets, keywords={"check_mode": True}),
        ],
        diff=True,
        verbosity=3,
    )
    return Made(
        site=site,
        before=before,
        unchanged=unchanged,
        predicted=predicted.results[0],
        created=created.results[0],
        again=repeated.results[0],
        checked=repeated.results[1],
        output=predicted.output + created.output + repeated.output,
        after=after,
        idle=site.look(engine),
    )


def declared(site: Site) -> list[dict[str, Any]]:
    rooted = site.workspace("rooted", uid=0)
    (rooted / "kept.txt").write_text("of root\n", encoding="utf-8")
    return [
        site.box("one", env={"GREETING": GREETING}),
        site.box("two", pids=100),
        site.box("rooted", uid=UID),
    ]


def item(result: runs.Result, box: str) -> dict[str, Any]:
    found: dict[str, Any] = next(entry for entry in result["boxes"] if entry["name"] == box)
    return found


def test_check_mode_predicts_and_writes_nothing(made: Made) -> None:
    assert made.before == made.unchanged
    assert made.predicted["changed"] is True
    assert not made.predicted.get("failed")
    assert made.predicted["actions"] == made.created["actions"]


def test_a_second_run_changes_nothing(made: Made) -> None:
    assert made.created["changed"] is True
    assert made.again["changed"] is False
    assert made.again["actions"] == []
    assert made.after == made.idle


def test_check_mode_afterwards_predicts_nothing(made: Made) -> None:
    assert made.checked["changed"] is False
    assert made.checked["actions"] == []
    assert made.checked["drift"] == []


def test_hardening_is_on_the_live_container(made: Made, engine: docker.APIClient) -> None:
    inspected = engine.inspect_container(made.site.container("one"))
    host = inspected["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert any(option.startswith("no-new-privileges") for option in host["SecurityOpt"])
    assert host["Privileged"] is False
    assert inspected["Config"]["User"] == f"{UID}:0"
    assert host["Memory"] == host["MemorySwap"] == 512 << 20
    assert host["NanoCpus"] == 1_000_000_000
    assert host["PidsLimit"] == 512
    assert host["Ulimits"] == [{"Name": "nofile", "Soft": 4096, "Hard": 8192}]
    assert host["Init"] is True
    assert host["RestartPolicy"]["Name"] == "unless-stopped"
    for namespace in ("PidMode", "UTSMode", "UsernsMode"):
        assert host[namespace] == "", namespace
    assert host["IpcMode"] == "private"
    assert host["NetworkMode"] == made.site.instance
    assert not any("docker.sock" in mount["Source"] for mount in inspected["Mounts"])
    assert {mount["Destination"] for mount in inspected["Mounts"] if mount["RW"]} == {
        "/home/agent",
        "/home/agent/.cache/pip",
        "/home/agent/.cargo/registry",
        "/home/agent/.npm",
        "/workspace",
    }
    assert {"nosuid", "nodev", "exec"} <= set(host["Tmpfs"]["/tmp"].split(","))  # noqa: S108 - a path in the box


def test_the_process_is_confined(made: Made) -> None:
    status = dict(
        line.split(":\t", 1) for line in made.site.run("one", "cat /proc/1/status").splitlines() if ":\t" in line
    )
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[capabilities], 16) == 0, capabilities
    assert status["NoNewPrivs"] == "1"
    assert status["Uid"].split() == [str(UID)] * 4
    assert status["Seccomp"] == "2"


def test_a_uid_that_no_image_knows_has_home_git_tmux_and_ssh(made: Made) -> None:
    made.site.wait_for_session("one")
    script = """
        set -e
        id -un
        stat -c %u ~
        touch ~/written && rm ~/written
        cd /workspace && git init -q . && git -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m x
        git log --format=%an
        ssh -G host.example > /dev/null 2>&1
        python3 -c 'import pwd, os; print(pwd.getpwuid(os.getuid()).pw_dir)'
        tmux -L agentbox list-sessions -F '#{session_name}'
    """
    assert made.site.run("one", script).split() == ["agent", str(UID), "a", "/home/agent", "agentbox"]


def test_windows_of_the_first_session(made: Made) -> None:
    """The very first session of a server that had none, found on the box user's socket."""
    made.site.wait_for_session("two")
    listed = made.site.run("two", "tmux -L agentbox list-windows -t =agentbox -F '#{window_name}'").split()
    assert listed == [_naming.WINDOW_LEAD, _naming.WINDOW_OBSERVER]


def test_caches_belong_to_the_box_user_from_the_start(made: Made) -> None:
    owned = made.site.run("one", "stat -c %u ~/.npm ~/.cache ~/.cache/pip ~/.cargo ~/.cargo/registry ~/.standin")
    assert owned.split() == [str(UID)] * 6


def test_the_environment_arrives_byte_by_byte(made: Made) -> None:
    assert made.site.run("one", 'printf %s "$GREETING"') == GREETING


def test_a_secret_is_in_no_place_that_others_read(made: Made, engine: docker.APIClient) -> None:
    secret = Path(made.site.paths("one").secrets, "STANDIN_TOKEN")
    status = secret.stat()
    assert secret.read_text(encoding="utf-8") == CANARY
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o400, UID)
    assert CANARY not in made.output
    assert CANARY not in json.dumps([made.predicted, made.created, made.again])
    assert CANARY not in json.dumps(engine.inspect_container(made.site.container("one")))
    assert CANARY not in engine.logs(made.site.container("one")).decode()
    holding = [path for path, entry in made.idle["files"].items() if CANARY in entry[4]]
    assert holding == [str(secret)]


def test_boxes_beside_each_other_cannot_reach_each_other(made: Made, engine: docker.APIClient) -> None:
    networks = engine.inspect_container(made.site.container("one"))["NetworkSettings"]["Networks"]
    page = f"http://{networks[made.site.instance]['IPAddress']}:{_naming.PAGE_PORT}/healthz"
    call = f"curl -s -m 3 -o /dev/null {page}"
    made.site.run("one", f"for i in {{1..300}}; do {call} && exit; sleep 0.2; done; exit 1")
    assert made.site.try_run("two", call).returncode != 0


def test_roots_workspace_is_shared_by_acl_and_its_owner_stays(made: Made) -> None:
    workspace = made.site.workspace("rooted")
    made.site.run("rooted", "cd /workspace && echo of the agent >> kept.txt && echo new > made.txt")
    (workspace / "made.txt").write_text("edited by root\n", encoding="utf-8")
    assert (workspace / "kept.txt").read_text(encoding="utf-8") == "of root\nof the agent\n"
    assert workspace.stat().st_uid == 0
    assert (workspace / "kept.txt").stat().st_uid == 0
    assert (workspace / "made.txt").stat().st_uid == UID
    assert any(action["action"] == "set_acl" for action in item(made.created, "rooted")["actions"])


def test_a_memory_hog_is_ended_and_the_box_lives(made: Made, engine: docker.APIClient) -> None:
    made.site.wait_for_session("two")
    before = engine.inspect_container(made.site.container("two"))["State"]["Pid"]
    hog = made.site.try_run("two", "python3 -c 'x = b\"x\" * (8 << 30)'")
    assert hog.returncode in {1, 137}, hog.stdout  # out of memory, or killed for it
    state = engine.inspect_container(made.site.container("two"))["State"]
    assert (state["Running"], state["Pid"]) == (True, before)


def test_a_fork_bomb_is_limited_and_the_box_lives(made: Made, engine: docker.APIClient) -> None:
    bomb = """
import os, signal, time
children = []
try:
    while True:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
except BlockingIOError:
    print(len(children))
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
    made.site.wait_for_session("two")
    counted = made.site.run("two", f"python3 - <<'EOF'\n{bomb}\nEOF")
    assert 0 < int(counted) < 100
    assert engine.inspect_container(made.site.container("two"))["State"]["Running"] is True
