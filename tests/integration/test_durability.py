"""What ends, hangs or fills up in a box, seen from outside: told by `agentbox ls` and healed, or parked with a reason.

All tests harm one box, in turn, and leave it healed. Its HOME is a small file system of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from agentbox._shared import _naming
from tests.integration import engines
from tests.integration.durable import MANIFEST, DurableBox, eventually, free_port
from tests.integration.sites import UID, Site

PIDS = 100
# Takes every process that the box may have, and each that is free again, for a while.
BOMB = """
import os, time
end = time.monotonic() + 10
while time.monotonic() < end:
    try:
        if os.fork() == 0:
            time.sleep(max(0, end - time.monotonic()))
            os._exit(0)
    except OSError:
        time.sleep(0.001)
"""


@pytest.fixture(scope="module")
def box(engine: docker.APIClient, new_instance: Callable[[], str], module_place: Path) -> Iterator[DurableBox]:
    """A well box whose lead has a conversation."""
    site = Site(new_instance(), module_place)
    options = f"size=8m,mode=0755,uid={UID},gid={_naming.BOX_GID}"
    with engines.mounted("tmpfs", module_place / "home", options=options) as home:
        volume = {"type": "none", "o": "bind", "device": str(home)}
        labels = {_naming.LABEL_INSTANCE: site.instance, _naming.LABEL_UID: str(UID)}
        engine.create_volume(_naming.home_volume(site.instance, "one"), "local", volume, labels)
        made = DurableBox(site, "one", home, engine, page=free_port())
        result = site.converge(made.declaration(pids=PIDS), manifests={"standin": MANIFEST})
        assert not result.get("failed"), result["msg"]
        made.wait_until_well()
        made.converse()
        yield made
        engines.remove_instance(engine, site.instance)


def resumed_once_more(box: DurableBox, before: list[list[str]]) -> bool:
    """Whether the lead was started once since, with the conversation that it had."""
    return box.launches()[len(before) :] == [["resume", before[0][1]]]


def remounted(home: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(home)], check=True)


# --- the lead and its terminal --------------------------------------------------------------------------------------


def test_a_killed_tmux_server_is_replaced_and_the_conversation_goes_on(box: DurableBox) -> None:
    before = box.launches()
    box.run("kill -KILL $(pgrep -x 'tmux: server')")
    box.wait_until_well()
    assert resumed_once_more(box, before)


def test_a_lead_that_crashed_is_shown_with_its_code_and_resumes_by_key(box: DurableBox) -> None:
    before = box.launches()
    box.run(f"kill -KILL {box.pane_pid('main')}")
    report = eventually(box.report, lambda report: report.lead and report.lead.code == 137)
    assert [check.seen for check in report.troubles] == ["Stand-in exited with code 137 (SIGKILL)"]
    listed = [sys.executable, "-m", "agentbox.cli", "ls", "--instance", box.site.instance]
    shown = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown[1].split()[:5] == ["one", "running", box.inspect()["State"]["Health"]["Status"], "exited", "(137)"]
    assert shown[2].startswith("one: Stand-in exited with code 137 (SIGKILL). Attach (`agentbox attach --instance")
    assert box.launches() == before
    box.restart_lead()
    box.wait_until_well()
    assert resumed_once_more(box, before)


@pytest.mark.full
def test_a_closed_window_of_the_lead_comes_back(box: DurableBox) -> None:
    before = box.launches()
    box.run("tmux -L agentbox kill-window -t agentbox:main")
    box.wait_until_well()
    assert resumed_once_more(box, before)


@pytest.mark.full
def test_a_removed_socket_is_made_anew_and_the_lead_runs_on(box: DurableBox) -> None:
    before, lead = box.launches(), box.pane_pid("main")
    box.run("rm -r /tmp/tmux-*")
    os.kill(waiter_of(box), signal.SIGKILL)
    box.wait_until_well()
    assert (box.launches(), box.pane_pid("main")) == (before, lead)


# --- the box Observer -----------------------------------------------------------------------------------------------


@pytest.mark.full
def test_an_observer_that_hangs_is_shown_ended_and_started_again(box: DurableBox) -> None:
    """Somebody stops the output of its window by C-s: what it writes next it waits for, for ever."""
    lead, observer = box.pane_pid("main"), box.pane_pid("observer")
    box.run("tmux -L agentbox send-keys -t agentbox:observer C-s")
    refused = f"curl -s -m 3 -d x http://127.0.0.1:{_naming.HOOK_PORT}/hook/nobody"
    eventually(lambda: box.run(f"{refused}; echo $?"), lambda answer: answer.strip() == "28")
    assert "its page and its hook sink does not answer" in box.troubles()["observer"]
    eventually(box.answers, bool, 60)
    box.wait_until_well()
    assert box.pane_pid("observer") != observer
    assert box.pane_pid("main") == lead


# --- HOME -----------------------------------------------------------------------------------------------------------


def test_a_full_home_is_named_and_costs_no_conversation(box: DurableBox) -> None:
    before = box.launches()
    filler = engines.fill(box.home)
    try:
        full = {"writable": "the agent cannot write to /home/agent (No space left on device)"}
        assert box.troubles() == full
        assert "HOME takes no files: No space left on device" in box.health()[1]
        box.run("kill -KILL $(pgrep -x 'tmux: server')")
        eventually(box.windows, lambda windows: windows == ["main", "observer"])
    finally:
        filler.unlink()
    box.wait_until_well()
    assert resumed_once_more(box, before)


@pytest.mark.full
def test_a_conversation_that_a_full_home_could_not_keep_is_not_begun(box: DurableBox) -> None:
    record = box.home / ".agentbox/lead.json"
    kept = record.read_bytes()
    filler = engines.fill(box.home)
    try:
        record.unlink()
        engines.fill(box.home)
        box.run(f"kill -KILL {box.pane_pid('main')}")
        eventually(box.troubles, lambda troubles: "lead" in troubles)
        box.restart_lead()
        told = eventually(box.troubles, lambda troubles: "not started" in troubles.get("lead", ""))
        assert told["lead"] == "Stand-in was not started (code 78)"
        assert "No space left on device" in box.run("tmux -L agentbox capture-pane -p -J -t agentbox:main")
    finally:
        filler.unlink()
    record.write_bytes(kept)
    box.restart_lead()
    box.wait_until_well()


@pytest.mark.full
def test_a_box_starts_on_a_home_that_became_read_only_and_says_so(box: DurableBox) -> None:
    box.engine.stop(box.container)
    remounted(box.home, "ro")
    try:
        box.engine.start(box.container)
        locked = {"writable": "the agent cannot write to /home/agent (Read-only file system)"}
        eventually(box.troubles, lambda troubles: troubles == locked)
        assert box.windows() == ["main", "observer"]
        box.engine.stop(box.container)
    finally:
        remounted(box.home, "rw")
    box.engine.start(box.container)
    box.wait_until_well()


# --- the box itself -------------------------------------------------------------------------------------------------


def test_a_box_that_died_is_started_again_with_its_conversation(box: DurableBox) -> None:
    """As after a reboot, it is the engine that starts it."""
    before, started = box.launches(), box.inspect()["State"]["StartedAt"]
    os.kill(box.inspect()["State"]["Pid"], signal.SIGKILL)
    eventually(box.inspect, lambda now: now["State"]["Running"] and now["State"]["StartedAt"] != started)
    box.wait_until_well()
    assert resumed_once_more(box, before)


@pytest.mark.full
def test_a_fork_bomb_that_lasts_ends_neither_box_nor_lead(box: DurableBox) -> None:
    """The supervisor looks in the middle of it, and can't start the program that it looks with."""
    lead, first = box.pane_pid("main"), box.inspect()["State"]["Pid"]
    created = box.engine.exec_create(box.container, ["python3", "-c", BOMB])
    box.engine.exec_start(created["Id"], detach=True)
    time.sleep(2)
    os.kill(waiter_of(box), signal.SIGKILL)
    eventually(lambda: box.engine.logs(box.container).decode(), lambda log: "tmux can't be run" in log, 20)
    bombed = box.troubles()
    assert f"refused at the limit of {PIDS}" in bombed["pressure"]
    eventually(box.troubles, lambda troubles: troubles == {})
    assert (box.inspect()["State"]["Pid"], box.pane_pid("main")) == (first, lead)


def waiter_of(box: DurableBox) -> int:
    """The client with which the supervisor waits, as a process of this host."""
    processes = box.engine.top(box.container)["Processes"]
    [pid] = [int(process[1]) for process in processes if "wait-for" in process[-1]]
    return pid
