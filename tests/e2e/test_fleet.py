"""The example inventory used as a fleet: several servers by SSH, groups, one image for all, a secret from a vault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests import hosts
from tests.e2e.fleet import Fleet, fleet
from tests.integration import runs
from tests.integration.durable import eventually

SECRET = "example-key-that-opens-nothing"  # noqa: S105 - what the example's vault holds
BOXES = {
    "ada.example": {"agentbox": "running"},
    "build1.example": {"agentbox-review": "running", "agentbox-night": "created"},
    "build2.example": {"agentbox-review": "running"},
}
HEALED = 90.0  # seconds for a box to be well after a reboot
# Give the conversation a turn, so that it can be resumed. Says which it is, and how often the lead was started.
CONVERSE = """
    id=$(tail -n 1 ~/launches | cut -d ' ' -f 2)
    chats=~/.standin/chats/$(pwd | sed 's/[^a-zA-Z0-9]/-/g')
    mkdir -p "$chats" && echo '{"type": "user"}' > "$chats/$id.jsonl" && echo "$id" && wc -l < ~/launches
"""
# Once the page says that the box is well: how often the lead was started, how the last time, and the windows.
LOOK = """
    curl -fsS http://127.0.0.1:4317/healthz > /dev/null && wc -l < ~/launches && tail -n 1 ~/launches &&
    tmux -L agentbox list-windows -t =agentbox -F '#{window_name}'
"""
UNREACHABLE = 4  # exit code of ansible-playbook
pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Converged:
    fleet: Fleet
    first: runs.Run
    checked: runs.Run


@pytest.fixture(scope="module")
def converged() -> Iterator[Converged]:
    """The fleet after one run; then what check mode finds to do."""
    with fleet(tuple(BOXES)) as made:
        first = made.site(verbosity=3)
        yield Converged(made, first, made.site(verbosity=3, check=True))


def changed(run: runs.Run) -> set[tuple[str, str]]:
    """Host and task of each change."""
    return {(result["host"], result["task"]) for result in run.results if result.get("changed")}


def test_every_host_has_the_boxes_of_its_group(converged: Converged) -> None:
    assert converged.first.returncode == 0, converged.first.output[-5000:]
    for host in converged.fleet.containers:
        assert converged.fleet.boxes(host) == BOXES[host]


def test_check_mode_afterwards_finds_nothing_to_do(converged: Converged) -> None:
    assert converged.checked.returncode == 0, converged.checked.output[-5000:]
    assert changed(converged.checked) == set()
    assert {result["host"] for result in converged.checked.results} == {"localhost", *converged.fleet.containers}


def test_the_secret_reaches_the_lead_and_nothing_else(converged: Converged) -> None:
    host = "build1.example"
    look = "tmux -L agentbox list-panes -s -t =agentbox -F '#{window_name} #{pane_pid}'"
    script = f"{look} | while read window pid; do tr '\\0' '\\n' < /proc/$pid/environ | sed \"s/^/$window /\"; done"
    environment = converged.fleet.run(host, "docker", "exec", "agentbox-review", "bash", "-c", script).splitlines()
    assert [line for line in environment if SECRET in line] == [f"main ANTHROPIC_API_KEY={SECRET}"]
    for run in (converged.first, converged.checked):
        assert SECRET not in run.output
        assert SECRET not in str(run.results)
    assert SECRET not in converged.fleet.run(host, "docker", "inspect", "agentbox-review")
    assert SECRET not in converged.fleet.run(host, "sh", "-c", "ps -e -o args; journalctl --no-pager; true")


def test_the_failure_of_another_option_does_not_echo_it(converged: Converged) -> None:
    """Role arguments are checked while the secret is among them, still encrypted."""
    wrong = ["--limit=build1.example", "--tags=box", "--extra-vars=box_lock_timeout=soon"]
    run = converged.fleet.site(*wrong, verbosity=3)
    assert run.returncode != 0
    assert "box_lock_timeout" in run.failed[0]["msg"]
    assert "Traceback" not in run.output
    assert SECRET not in run.output


def test_a_limited_run_needs_no_password_and_leaves_the_others_alone(converged: Converged) -> None:
    """The box of one host is gone; another can't be reached, which the exit code tells."""
    converged.fleet.run("ada.example", "docker", "rm", "--force", "agentbox")
    limited = converged.fleet.site("--limit=ada.example", "--tags=box", vault=False, check=True)
    assert limited.returncode == 0, limited.output
    assert {host for host, _ in changed(limited)} == {"ada.example"}
    assert "build1.example" not in {result["host"] for result in limited.results}


def test_a_host_that_is_down_does_not_keep_the_others_from_converging(converged: Converged) -> None:
    down = list(converged.fleet.containers)[-1]
    hosts.docker("stop", "--time=1", converged.fleet.containers[down])
    run = converged.fleet.site("--timeout=3", "--tags=box")
    assert run.returncode == UNREACHABLE, run.output
    assert {host for host, _ in changed(run)} == {"ada.example"}
    assert converged.fleet.boxes("ada.example") == BOXES["ada.example"]
    assert [result["host"] for result in run.failed] == [down]


def test_a_run_starts_what_a_crash_of_the_engine_ended(converged: Converged) -> None:
    """The engine itself ends boxes that it finds running then, and takes that for their user's wish."""
    servers = converged.fleet
    conversation, starts = servers.in_box("ada.example", "agentbox", CONVERSE).split()
    servers.run("ada.example", "systemctl", "kill", "--signal=KILL", "docker.service")
    servers.run("ada.example", "sh", "-c", "until docker version > /dev/null 2>&1; do sleep 0.2; done")
    run = servers.site("--limit=ada.example", "--tags=box", vault=False)
    assert run.returncode == 0, run.output
    is_back(servers, int(starts) + 1, conversation)


def test_what_ran_is_back_after_a_restart_of_the_engine_and_after_a_reboot(converged: Converged) -> None:
    """And nothing else. The last test, for the hosts have other addresses afterwards."""
    servers = converged.fleet
    stopped = servers.stop("build1.example")
    assert stopped.returncode == 0, stopped.output
    conversation, starts = servers.in_box("ada.example", "agentbox", CONVERSE).split()
    for number, harm in enumerate((restart_engine, reboot), int(starts) + 1):
        for host in ("ada.example", "build1.example"):
            harm(servers, host)
        is_back(servers, number, conversation)
        assert servers.boxes("build1.example") == {"agentbox-review": "exited", "agentbox-night": "created"}


def restart_engine(servers: Fleet, host: str) -> None:
    servers.run(host, "systemctl", "restart", "docker.service")


def reboot(servers: Fleet, host: str) -> None:
    hosts.docker("restart", "--time=1", servers.containers[host])
    hosts.wait_for_systemd(servers.containers[host])


def is_back(servers: Fleet, launches: int, conversation: str) -> None:
    wanted = f"{launches} resume {conversation} main observer".split()
    eventually(lambda: look_again(servers), lambda found: found == wanted, HEALED)


def look_again(servers: Fleet) -> list[str]:
    return servers.in_box("ada.example", "agentbox", LOOK).split()
