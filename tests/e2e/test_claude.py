"""The real Claude Code does real turns in real boxes that `site.yml` made, against a double of the vendor."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import docker
import httpx
import pytest

from agentbox._shared import _naming
from tests.e2e.support import Box, Json, MessagesApi, Outcome, wait_for
from tests.e2e.support import docker as docker_cli
from tests.e2e.world import World

pytestmark = pytest.mark.timeout(300)

HOOK_LIMIT = 3.0  # seconds that one event may cost the agent
EXIT_LIMIT = 10.0  # seconds until the end of the agent is known
STOP_LIMIT = 3.0
SLACK = 5.0  # seconds for a busy machine
TURN = ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]

once = pytest.mark.parametrize("world", ["dev"], indirect=True)


def test_the_agent_is_up_in_its_window(world: World) -> None:
    world.wait_until_ready()
    windows = world.box.tmux("list-windows", "-t", "agentbox", "-F", "#{window_name}:#{window_panes}")
    assert windows.split() == ["main:1", "observer:1"]


def test_the_agent_writes_into_the_workspace_as_its_user(world: World, turn: list[Json]) -> None:
    made = world.workspace / "made.txt"
    assert made.read_text(encoding="utf-8") == "by the agent\n"
    assert made.stat().st_uid == world.owner.box_uid
    assert (world.workspace / "README").read_text(encoding="utf-8") == "from before\nmore\n"


def test_the_owner_keeps_the_workspace_and_edits_what_the_agent_wrote(world: World, turn: list[Json]) -> None:
    made = world.workspace / "made.txt"
    assert world.workspace.stat().st_uid == world.owner.uid
    owner = f"{world.owner.uid}"
    as_owner = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups"]
    subprocess.run([*as_owner, "sh", "-c", f"echo by the owner >> {made}"], check=True)
    assert made.read_text(encoding="utf-8") == "by the agent\nby the owner\n"
    assert made.stat().st_uid == world.owner.box_uid


def test_the_turn_is_on_the_page_with_its_real_payloads(world: World, turn: list[Json]) -> None:
    payloads = {event["type"]: event["payload"] for event in turn}
    assert [event["type"] for event in turn if event["type"] in TURN] == TURN
    assert payloads["UserPromptSubmit"]["prompt"].startswith("RUN: echo by the agent")
    assert payloads["PreToolUse"]["tool_name"] == "Bash"
    assert payloads["PreToolUse"]["tool_input"]["command"].startswith("echo by the agent")
    assert payloads["PostToolUse"]["tool_response"]["stdout"] == "by the agent"
    assert payloads["Stop"]["last_assistant_message"] == "Finished: by the agent"
    assert {payload["session_id"] for payload in payloads.values()} == {turn[0]["session_id"]}
    assert {payload["cwd"] for payload in payloads.values()} == {"/workspace"}
    assert {event["agent"] for event in turn} == {"claude"}
    html = httpx.get(world.box.page, timeout=5).raise_for_status().text
    assert all(name in html for name in TURN)


def test_the_vendor_gets_the_declared_key(world: World, turn: list[Json], vendor: MessagesApi) -> None:
    assert world.key in vendor.presented_keys()


def test_doctor_finds_the_box_healthy(world: World, turn: list[Json]) -> None:
    doctor = world.site.agentbox("doctor")
    assert doctor.returncode == 0, doctor.output


def test_a_second_run_changes_nothing(second_run: Outcome) -> None:
    recap = re.findall(r"^workstation\s+: ok=\d+\s+changed=(\d+)\s", second_run.output, re.MULTILINE)
    assert recap == ["0"], second_run.output


def test_the_secret_shows_nowhere(world: World, second_run: Outcome, engine: docker.APIClient) -> None:
    box = engine.inspect_container(world.box.container)
    seen = {
        "first run with -vvv": world.first_run.output,
        "second run with -vvv": second_run.output,
        "inspect": str(box),
        "image history": docker_cli("history", "--no-trunc", box["Image"]),
        "container log": engine.logs(world.box.container).decode(),
        "command lines": str(engine.top(world.box.container)["Processes"]),
        "tmux environment": world.box.tmux("show-environment", "-g"),
        "page": str(world.events()),
    }
    assert [place for place, text in seen.items() if world.key in text] == []


def test_sigterm_ends_the_box_at_once_and_its_start_brings_the_conversation_back(
    world: World, turn: list[Json], engine: docker.APIClient
) -> None:
    last = world.events()[-1]["id"]
    start = time.monotonic()
    docker_cli("stop", "--time=30", world.box.container)
    assert time.monotonic() - start < STOP_LIMIT
    assert engine.inspect_container(world.box.container)["State"]["ExitCode"] == 0
    docker_cli("start", world.box.container)
    wait_for("page", lambda: answers(world.box))
    assert "RUN: echo by the agent" in world.wait_until_ready()
    after = world.turn("are you still there", "Heard: are you still there")
    assert {event["session_id"] for event in after} == {turn[0]["session_id"]}
    starts = [event["payload"]["source"] for event in world.events(last) if event["type"] == "SessionStart"]
    assert starts == ["resume"]


def answers(box: Box) -> bool:
    """Whether the page says that the box is well."""
    try:
        return httpx.get(f"{box.page}/healthz", timeout=3).is_success
    except httpx.TransportError:
        return False


@once
def test_a_uid_that_no_image_knows_has_a_name_a_home_and_git(world: World, turn: list[Json]) -> None:
    assert world.box.exec("id", "-u", "-n").strip() == "agent"
    world.box.exec("sh", "-euc", "git init --quiet ~/project && git -C /workspace init --quiet && npm --version")
    assert (world.workspace / ".git").stat().st_uid == world.owner.uid


@once
def test_boxes_beside_each_other_cannot_reach_each_other(world: World, engine: docker.APIClient) -> None:
    networks = engine.inspect_container(world.neighbour.container)["NetworkSettings"]["Networks"]
    (address,) = [network["IPAddress"] for network in networks.values()]
    page = f"http://{address}:4317/healthz"
    assert httpx.get(page, timeout=5).is_success, "the host reaches every box"
    for target in (page, f"http://{world.neighbour.container}:4317/healthz"):
        reached = ["curl", "--silent", "--show-error", "--max-time", "3", target]
        assert "curl: (" in world.box.exec("sh", "-c", f"{' '.join(reached)} 2>&1", check=False)


@once
@pytest.mark.parametrize(("fault", "least"), [("dead", 0.0), ("silent", HOOK_LIMIT)])
def test_a_broken_observer_costs_the_agent_little_and_says_nothing_to_it(
    world: World, turn: list[Json], vendor: MessagesApi, fault: str, least: float
) -> None:
    world.wait_until_ready()
    prompt = f"RUN: echo with a {fault} observer > {fault}.txt && cat {fault}.txt"
    before = len(vendor.requests())
    most = HOOK_LIMIT * len(turn) + SLACK
    with broken_observer(world.box, fault):
        start = time.monotonic()
        world.box.type(prompt)
        world.box.wait_for_screen(f"Finished: with a {fault} observer", most)
        assert least < time.monotonic() - start < most
    asked, told = vendor.requests()[before:]
    assert typed(asked) == prompt
    assert "hook" not in str(told["messages"][-1]).lower()


@contextmanager
def broken_observer(box: Box, fault: str) -> Iterator[None]:
    """The box Observer gone, or one in its place that never answers a hook; and nobody who repairs it meanwhile.

    Not the Observer itself stopped by a signal: tmux lets the processes of its panes go on at once.
    """
    supervisor = box.exec("pgrep", "--full", "agentbox.box supervise").split()[0]
    observer = box.tmux("list-panes", "-t", "agentbox:observer", "-F", "#{pane_pid}").strip()
    box.exec("kill", "-STOP", supervisor)
    box.exec("kill", "-KILL", observer)
    try:
        with silent_sink(box) if fault == "silent" else nullcontext():
            yield
    finally:
        box.exec("kill", "-CONT", supervisor)
        wait_for("page", lambda: answers(box))


@contextmanager
def silent_sink(box: Box) -> Iterator[None]:
    """A program in the box that takes connections on the hooks' port and says nothing."""
    program = (
        "import os, socket, time\n"
        f"listener = socket.create_server(('127.0.0.1', {_naming.HOOK_PORT}))\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(120)\n"
    )
    command = ["docker", "exec", box.container, "python3", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = process.stdout.readline().strip()
        try:
            yield
        finally:
            box.exec("kill", pid)


def typed(request: Json) -> str:
    """What the user typed last, exactly as the agent sends it on."""
    message = [message for message in request["messages"] if message["role"] == "user"][-1]
    texts = [block["text"] for block in message["content"] if block["type"] == "text"]
    return "\n".join(text for text in texts if not text.startswith("<system-reminder>"))


@once
def test_an_agent_that_was_told_to_exit_is_shown_as_exited_with_its_code(world: World, turn: list[Json]) -> None:
    world.wait_until_ready()
    world.box.type("/exit")

    def lead() -> Json | None:
        state: Json = world.box.get("/healthz")["lead"]
        return state if state["state"] == "exited" else None

    exited = wait_for("the state exited", lead, EXIT_LIMIT)
    assert exited is not None
    assert exited["code"] == 0
