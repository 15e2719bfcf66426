"""Health of real boxes: healthy ones, and ones that were killed, bombed, weakened, tampered with or forged.

Most looks are made in this process, for an Ansible run costs more than all that it looks at.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _naming
from agentbox._shared._health import Check
from agentbox._shared._health_gather import Request
from agentbox._shared._health_run import Examination, Findings, examine, wait_until_settled
from agentbox._shared._spec import parse_boxes
from tests import images
from tests.integration import engines, runs
from tests.integration.sites import Site, manifests

CANARY = "canary-of-a-password"
PROXY = f"http://someone:{CANARY}@proxy.example:3128"
PATIENCE = 120.0  # seconds for boxes to become healthy
PIDS = 100


@dataclass(frozen=True)
class Boxes:
    """Three healthy boxes: ``agent`` with the real Claude and a page, ``plain`` and ``small`` with the stand-in."""

    site: Site
    declared: dict[str, dict[str, Any]]

    @property
    def address(self) -> str:
        return str(self.declared["agent"]["publish"])

    def look(self, *names: str, wait: float = 0.0, declared: bool = True) -> Findings:
        """One look at some boxes, or at all; without ``declared`` as the doctor does, who knows no declarations."""
        wanted = [self.declared[name] for name in names or self.declared]
        return look(self.site, wanted if declared else None, wait)


def look(site: Site, boxes: list[dict[str, Any]] | None, wait: float = 0.0, only: list[str] | None = None) -> Findings:
    specs = None if boxes is None else parse_boxes(boxes, instance=site.instance, manifests=manifests())
    request = Request(
        instance=site.instance,
        state_dir=str(site.state),
        image=engines.IMAGE,
        specs=specs,
        manifests={} if boxes is None else manifests(),
        environ={key: value for key, value in os.environ.items() if not key.startswith("DOCKER_")},
        only=only,
    )
    what = Examination(request, docker_host=None, configuration={}, image_context=None, predicting=False)
    return wait_until_settled(lambda known: examine(what, known), wait, lambda _line: None)


def find(findings: Findings, box: str, check_id: str) -> Check:
    return next(check for check in findings.boxes[box] if check.id == check_id)


def bad(findings: Findings, box: str) -> dict[str, str]:
    """Verdicts of a box that are not ok, by check."""
    return {check.id: check.verdict for check in findings.boxes[box] if check.verdict != "ok"}


def run_in(container: str, script: str) -> str:
    """Output of a shell script in a container, as the box's own user."""
    done = subprocess.run(
        ["docker", "exec", container, "bash", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def pane_pid(container: str, window: str) -> int:
    return int(run_in(container, f"tmux -L agentbox list-panes -t agentbox:{window} -F '#{{pane_pid}}'").split()[0])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.fixture(scope="module")
def boxes(new_instance: Callable[[], str], module_place: Path) -> Boxes:
    site = Site(new_instance(), module_place)
    declared = [
        site.box(
            "agent", image=engines.IMAGE_CLAUDE, lead="claude", agents=["claude"], publish=f"127.0.0.1:{free_port()}"
        ),
        site.box("plain"),
        site.box("small", pids=PIDS, env={"HTTPS_PROXY": PROXY, "NO_PROXY": ".example"}),
    ]
    result = site.converge(*declared)
    assert not result.get("failed"), result["msg"]
    made = Boxes(site, {box["name"]: box for box in declared})
    settled = made.look(wait=PATIENCE)
    assert settled.unsettled == [], [check for name in settled.unsettled for check in settled.boxes[name]]
    return made


# --- healthy --------------------------------------------------------------------------------------------------------


def test_a_real_agent_that_has_not_logged_in_is_all_the_module_finds(boxes: Boxes) -> None:
    run = runs.play(
        [
            runs.module_task(
                "health",
                {
                    "instance": boxes.site.instance,
                    "state_root": str(boxes.site.state_root),
                    "manifests": manifests(),
                    "boxes": [boxes.declared["agent"], boxes.declared["plain"]],
                    "configuration": {"proxy": {"value": PROXY, "source": "environment HTTPS_PROXY"}},
                    "wait": 60,
                },
            )
        ],
        verbosity=3,
    )
    result = run.results[0]
    assert not result.get("failed"), result
    assert result["changed"] is False
    assert result["verdict"] == "warn"
    assert result["counts"]["fail"] == result["counts"]["unknown"] == 0
    warnings = [check for check in result["checks"] if check["verdict"] == "warn" and check["subject"] != "host"]
    assert [(check["subject"], check["id"], check["seen"]) for check in warnings] == [
        ("agent", "credentials", "claude: none")
    ]
    assert "claude auth login" in warnings[0]["todo"]
    assert "proxy = http://proxy.example:3128 (from environment HTTPS_PROXY)" in run.output
    assert CANARY not in run.output


def test_the_doctor_without_declarations_finds_the_same(boxes: Boxes) -> None:
    found = boxes.look(declared=False)
    assert list(found.boxes) == ["agent", "plain", "small"]
    assert bad(found, "agent") == {"credentials": "warn"}
    assert bad(found, "plain") == {}
    assert find(found, "agent", "hook-settings").seen == "in place for claude"
    assert find(found, "agent", "port").seen == f"the page answers on http://{boxes.address}"


def test_only_boxes_that_were_named_are_looked_at(boxes: Boxes) -> None:
    assert list(look(boxes.site, None, only=["plain", "nobody"]).boxes) == ["plain"]


def test_the_facts_are_those_of_the_kernel(boxes: Boxes) -> None:
    found = boxes.look("plain")
    assert find(found, "plain", "hardening").seen.startswith("in force: no capability")
    assert find(found, "plain", "limits").seen.startswith("in force: memory 512 MiB, memory and swap 512 MiB, pids 512")


def test_a_proxy_that_would_swallow_the_hooks_is_named_without_its_password(boxes: Boxes) -> None:
    check = find(boxes.look("small"), "small", "proxy")
    assert check.verdict == "fail"
    assert check.seen == "HTTPS_PROXY=http://proxy.example:3128; NO_PROXY lacks 127.0.0.1, localhost"


def test_an_ordinary_user_of_the_engine_sees_the_limits_too(boxes: Boxes) -> None:
    """Without root the doctor still reads the cgroup files; what it may not see it does not call wrong."""
    script = (
        "import sys\n"
        "from agentbox._shared._health_cgroup import read_cgroup, read_process\n"
        "print(read_cgroup(int(sys.argv[1]), sys.argv[2]).limits, read_process(int(sys.argv[1])).seccomp)\n"
    )
    inspect = engines.client().inspect_container(boxes.site.container("plain"))
    done = subprocess.run(
        [
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
            *("/usr/bin/python3", "-c", script, str(inspect["State"]["Pid"]), inspect["Id"]),
        ],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(runs.REPOSITORY / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "memory=536870912" in done.stdout
    assert done.stdout.endswith(" 2\n")


# --- harmed from inside ---------------------------------------------------------------------------------------------


def test_an_allocation_beyond_the_limit_is_explained(boxes: Boxes) -> None:
    run_in(boxes.site.container("plain"), "python3 -c 'bytearray(900 << 20)'")
    found = boxes.look("plain")
    check = find(found, "plain", "pressure")
    assert check.verdict == "warn"
    assert "at the memory limit of 512 MiB" in check.seen
    assert find(found, "plain", "lead").verdict == "ok"


def test_a_fork_bomb_is_contained_and_explained(boxes: Boxes) -> None:
    output = run_in(boxes.site.container("small"), f"for _ in $(seq {2 * PIDS}); do sleep 3 & done; wait")
    assert "Resource temporarily unavailable" in output
    check = find(boxes.look("small"), "small", "pressure")
    assert check.verdict == "warn"
    assert f"refused at the limit of {PIDS}" in check.seen


def test_a_killed_lead_has_exited_with_its_code(boxes: Boxes) -> None:
    """Not waited for: who killed it may have meant it."""
    container = boxes.site.container("small")
    run_in(container, f"kill -KILL {pane_pid(container, 'main')}")
    check = until(lambda: find(boxes.look("small"), "small", "lead"), lambda found: found.seen.endswith("(SIGKILL)"))
    assert (check.verdict, check.seen) == ("fail", "Stand-in exited with code 137 (SIGKILL)")
    assert f"agentbox attach --instance {boxes.site.instance} --name small" in check.todo


def test_a_hanging_observer_is_seen_and_one_that_goes_on_is_fine(boxes: Boxes) -> None:
    """The tmux server hangs too: it would make a stopped process go on."""
    container = boxes.site.container("agent")
    processes = f"$(pgrep -x 'tmux: server') {observer_pid(container)}"
    run_in(container, f"kill -STOP {processes}")
    try:
        found = boxes.look("agent")
    finally:
        run_in(container, f"kill -CONT {processes}")
    hung = bad(found, "agent")
    assert {hung.get("observer"), hung.get("hook-event"), hung.get("port")} == {"fail"}
    assert hung.get("tmux") in ("fail", "unknown")
    assert find(found, "agent", "probe").verdict == "ok"
    assert bad(boxes.look("agent", wait=PATIENCE), "agent") == {"credentials": "warn"}


def test_a_killed_observer_is_waited_for_until_the_box_has_healed(boxes: Boxes) -> None:
    container = boxes.site.container("agent")
    killed = observer_pid(container)
    run_in(container, f"kill -KILL {killed}")
    assert bad(boxes.look("agent", wait=PATIENCE), "agent") == {"credentials": "warn"}
    assert observer_pid(container) != killed


def observer_pid(container: str) -> int:
    return pane_pid(container, "observer")


def until(look_again: Callable[[], Check], done: Callable[[Check], bool], limit: float = 30.0) -> Check:
    """The first look that is as wanted, or the last one within ``limit`` seconds."""
    deadline = time.monotonic() + limit
    found = look_again()
    while not done(found) and time.monotonic() < deadline:
        time.sleep(0.5)
        found = look_again()
    return found


# --- changed from outside -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", [True, False])
def test_limits_changed_behind_the_declaration_are_shown_with_both_figures(
    boxes: Boxes, engine: docker.APIClient, declared: bool
) -> None:
    container = boxes.site.container("plain")
    with docker_update(container, ["--pids-limit=4096", "--cpus=0.5"], ["--pids-limit=512", "--cpus=1"]):
        check = find(boxes.look("plain", declared=declared), "plain", "limits")
    assert check.verdict == "fail"
    assert check.seen == "pids: declared 512, in force 4096; cpus: declared 1, in force 0.5"
    assert find(boxes.look("plain", declared=declared), "plain", "limits").verdict == "ok"


@contextmanager
def docker_update(container: str, change: list[str], restore: list[str]) -> Iterator[None]:
    subprocess.run(["docker", "update", *change, container], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["docker", "update", *restore, container], check=True, capture_output=True)


def test_a_paused_box(boxes: Boxes, engine: docker.APIClient) -> None:
    container = boxes.site.container("plain")
    engines.pause(engine, container)
    try:
        found = boxes.look("plain", wait=60)
    finally:
        engine.unpause(container)
    state = find(found, "plain", "state")
    assert (state.verdict, state.todo) == ("fail", f"docker unpause {container}")
    assert find(found, "plain", "probe").verdict == "unknown"


def test_tampered_hook_settings(boxes: Boxes) -> None:
    path = Path(boxes.site.paths("agent").agent_settings("claude"), manifests()["claude"]["hooks"]["file"])
    original = path.read_text(encoding="utf-8")
    path.write_text(json.dumps({"hooks": {}}), encoding="utf-8")
    try:
        check = find(boxes.look("agent"), "agent", "hook-settings")
    finally:
        path.write_text(original, encoding="utf-8")
    assert check.verdict == "fail"
    assert f"{path} differs" in check.seen


def test_a_state_file_that_became_a_directory(boxes: Boxes) -> None:
    path = Path(boxes.site.paths("plain").mount, "attach.sh")
    aside = path.with_name("attach.sh.aside")
    path.rename(aside)
    path.mkdir()
    try:
        check = find(boxes.look("plain"), "plain", "mounts")
    finally:
        path.rmdir()
        aside.rename(path)
    assert (check.verdict, check.seen) == ("fail", f"{path} is a directory, not a file")


def test_a_workspace_that_was_made_anew_is_dead_in_the_running_box(boxes: Boxes) -> None:
    workspace = Path(boxes.declared["plain"]["workspace"])
    aside = workspace.with_name("aside")
    workspace.rename(aside)
    try:
        gone = find(boxes.look("plain"), "plain", "mounts")
        workspace.mkdir()
        anew = find(boxes.look("plain"), "plain", "mounts")
        workspace.rmdir()
    finally:
        aside.rename(workspace)
    assert f"{workspace} (for /workspace) is missing" in gone.seen
    assert f"{workspace} was made anew while the box ran" in anew.seen
    assert find(boxes.look("plain"), "plain", "mounts").verdict == "ok"


def test_a_port_that_another_program_holds(boxes: Boxes) -> None:
    """The box does not exist yet. A taken port is not waited for."""
    port = free_port()
    with foreign_program(port) as pid:
        declared = boxes.site.box("newcomer", publish=f"127.0.0.1:{port}")
        start = time.monotonic()
        check = find(look(boxes.site, [declared], wait=60), "newcomer", "port")
    assert check.verdict == "fail"
    assert check.seen == f"127.0.0.1:{port} is taken by python3 (process {pid})"
    assert time.monotonic() - start < 30


@contextmanager
def foreign_program(port: int) -> Iterator[int]:
    """A web server that is none of ours; its process id."""
    argv = ["python3", "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except ConnectionRefusedError:
                assert process.poll() is None
                time.sleep(0.1)
        yield process.pid
        process.terminate()


def test_a_port_that_another_box_publishes(boxes: Boxes) -> None:
    declared = boxes.site.box("newcomer", publish=boxes.address)
    check = find(look(boxes.site, [declared]), "newcomer", "port")
    assert check.verdict == "fail"
    assert check.seen == f"{boxes.address} is published by container {boxes.site.container('agent')}"


def test_boxes_that_are_stopped_or_absent_as_declared(boxes: Boxes, engine: docker.APIClient) -> None:
    container = boxes.site.container("small")
    engine.stop(container)
    declared = [
        {**boxes.declared["small"], "state": "stopped"},
        boxes.site.box("gone", state="absent"),
    ]
    found = look(boxes.site, declared)
    assert [check.verdict for checks in found.boxes.values() for check in checks if check.id == "state"] == ["ok", "ok"]
    assert not [check for checks in found.boxes.values() for check in checks if check.verdict in ("fail", "unknown")]
    wrong = look(boxes.site, [boxes.declared["small"], {**boxes.declared["plain"], "state": "stopped"}])
    assert find(wrong, "small", "state").verdict == "fail"
    assert find(wrong, "plain", "state").seen == "running; declared is stopped"


# --- boxes that Agentbox did not make -------------------------------------------------------------------------------


@contextmanager
def handmade(site: Site, name: str, *options: str, command: tuple[str, ...] = ("sleep", "600")) -> Iterator[str]:
    """A container that passes for a box of the site."""
    container = site.container(name)
    labels = {_naming.LABEL_MANAGED: "true", _naming.LABEL_INSTANCE: site.instance, _naming.LABEL_BOX: name}
    subprocess.run(
        ["docker", "run", "--detach", "--name", container, "--init", "--user=0:0", *options]
        + [f"--label={key}={value}" for key, value in labels.items()]
        + [images.STANDIN, *command],
        check=True,
        capture_output=True,
    )
    try:
        yield container
    finally:
        subprocess.run(["docker", "rm", "--force", container], check=True, capture_output=True)


def test_a_box_without_walls(boxes: Boxes) -> None:
    options = ["--network=host", "--pid=host", "--cap-add=NET_ADMIN", "--security-opt=seccomp=unconfined"]
    options += ["--volume=/var/run:/host-run:ro"]
    with handmade(boxes.site, "naked", *options):
        found = look(boxes.site, [boxes.site.box("naked")])
    seen = find(found, "naked", "hardening").seen
    for named in (
        "capabilities are not dropped",
        "added capabilities NET_ADMIN",
        "no-new-privileges is not set",
        "seccomp:unconfined",
        "shares the network namespace with the host",
        "shares the process namespace with the host",
        "runs as root",
        "which holds the engine's socket",
    ):
        assert named in seen
    limits = find(found, "naked", "limits")
    assert limits.verdict == "fail"
    assert "memory: declared 512 MiB, in force no limit" in limits.seen


def test_a_box_that_ends_again_and_again_is_waited_for_no_longer_than_allowed(boxes: Boxes) -> None:
    with handmade(boxes.site, "loop", "--restart=unless-stopped", command=("sh", "-c", "exit 3")):
        start = time.monotonic()
        found = look(boxes.site, [boxes.site.box("loop")], wait=4)
        seconds = time.monotonic() - start
        check = until(
            lambda: find(look(boxes.site, [boxes.site.box("loop")]), "loop", "state"),
            lambda check: check.seen.startswith("restarting"),
        )
    assert 4 <= seconds < 30
    assert found.unsettled == ["loop"]
    assert "exit code 3, its start script failed" in check.seen


FORGERIES = {
    "silent": "exit 0",
    "noisy": "head -c 10000000 /dev/zero",
    "escaping": r"printf '{\"schema\": \"\033]0;owned\007\"}'",
    "templating": """printf '{"schema": "{{ lookup(1) }}"}'""",
    "failing": "exit 9",
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_box_that_lies_about_itself(boxes: Boxes, place: Path, name: str) -> None:
    liar = place / "python"
    liar.write_text(f"#!/bin/sh\n{FORGERIES[name]}\n", encoding="utf-8")
    liar.chmod(0o755)
    with handmade(boxes.site, name, f"--volume={liar}:/opt/agentbox/bin/python:ro"):
        found = look(boxes.site, [boxes.site.box(name)])
    check = find(found, name, "probe")
    assert check.verdict == "fail"
    assert check.seen.isprintable()
    assert len(check.seen) < 400
    assert {found.verdict for found in found.boxes[name] if found.id in ("tmux", "lead", "versions")} == {"unknown"}


def test_a_container_of_somebody_else_is_no_box(boxes: Boxes) -> None:
    other = Site(engines.new_instance_name(), boxes.site.directory)
    with handmade(other, "x"):
        subprocess.run(["docker", "rename", other.container("x"), boxes.site.container("x")], check=True)
        try:
            found = look(boxes.site, [boxes.site.box("x")])
        finally:
            subprocess.run(["docker", "rename", boxes.site.container("x"), other.container("x")], check=True)
    assert find(found, "x", "state").seen == f"there is no container {boxes.site.container('x')}"
