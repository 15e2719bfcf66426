"""The supervisor with real tmux: what it builds, what it heals, how it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from .boxes import BoxDirectory, Viewer, eventually

LEAD = "=agentbox:=main"
OBSERVER = "=agentbox:=observer"


def lead_pid(directory: BoxDirectory) -> int:
    return int(directory.tmux("display-message", "-p", "-t", LEAD, "#{pane_pid}"))


def observer_pid(directory: BoxDirectory) -> int:
    return int(directory.tmux("display-message", "-p", "-t", OBSERVER, "#{pane_pid}"))


def launched(directory: BoxDirectory, times: int) -> bool:
    return len(directory.launches()) == times


def test_session_has_two_windows_of_the_declared_size(running: BoxDirectory) -> None:
    layout = "#{session_name} #{window_name} #{window_panes} #{window_width}x#{window_height}"
    windows = running.tmux("list-windows", "-a", "-F", layout).splitlines()
    assert windows == ["agentbox main 1 120x40", "agentbox observer 1 120x40"]


def test_status_is_private_and_names_the_lead(running: BoxDirectory) -> None:
    assert int(running.status_file.stat().st_mode & 0o777) == 0o600
    assert running.status()["lead"] == {
        "agent": "recorder",
        "state": "running",
        "code": None,
        "pane": "%0",
        "pid": lead_pid(running),
    }


def test_terminal_is_set_for_agents(running: BoxDirectory) -> None:
    wanted = {"escape-time": "0", "focus-events": "on", "exit-empty": "off"}
    assert {name: running.tmux("show", "-sv", name) for name in wanted} == wanted
    wanted = {"history-limit": "50000", "window-size": "latest", "default-terminal": "tmux-256color"}
    assert {name: running.tmux("show", "-gv", name) for name in wanted} == wanted
    assert running.tmux("show", "-pv", "-t", LEAD, "remain-on-exit") == "on"


def test_secrets_reach_the_lead_and_nobody_else(running: BoxDirectory) -> None:
    assert running.launches()[0]["environ"]["RECORDER_KEY"] == "classified"
    server = int(running.tmux("display-message", "-p", "#{pid}"))
    assert running.supervisor is not None
    for pid in (running.supervisor.pid, server, observer_pid(running)):
        assert b"classified" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert "classified" not in running.tmux("show-environment", "-g")


def test_lead_that_ends_is_left_with_its_code_and_can_be_started_again(directory: BoxDirectory) -> None:
    directory.declare(lead=None)
    with directory.supervised():
        directory.tmux("send-keys", "-t", LEAD, "exit 7", "Enter")
        eventually(lambda: directory.status()["lead"]["state"] == "exited", 3)
        assert directory.status()["lead"]["code"] == 7
        shown = eventually(lambda: directory.tmux("capture-pane", "-p", "-t", LEAD))
        assert "ended with status 7 - press C-b R" in shown
        press(directory, b"\x02R")
        eventually(lambda: directory.status()["lead"]["state"] == "none", 3)
        assert directory.status()["rebuilds"] == 0


def press(directory: BoxDirectory, keys: bytes) -> None:
    """Attach as a person does, type, and detach."""
    viewer = Viewer(directory)
    eventually(lambda: "view-" in directory.tmux("list-clients", "-F", "#{client_session}"))
    viewer.press(keys)
    time.sleep(0.3)
    assert viewer.detach() == 0


def test_lead_killed_by_a_signal_is_told_from_one_that_exited(directory: BoxDirectory) -> None:
    with directory.supervised():
        eventually(lambda: launched(directory, 1))
        os.kill(lead_pid(directory), signal.SIGKILL)
        eventually(lambda: directory.status()["lead"]["code"] == 137, 3)


def test_observer_that_ends_is_started_again(directory: BoxDirectory) -> None:
    with directory.supervised():
        first, lead = observer_pid(directory), lead_pid(directory)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: directory.status()["observer_restarts"] == 1)
        assert observer_pid(directory) != first
        directory.tmux("kill-window", "-t", OBSERVER)
        eventually(lambda: directory.status()["observer_restarts"] == 2)
        eventually(lambda: observer_pid(directory))
        assert lead_pid(directory) == lead


def test_lost_server_is_rebuilt_with_the_conversation(directory: BoxDirectory) -> None:
    with directory.supervised():
        eventually(lambda: launched(directory, 1))
        session_id = directory.launches()[0]["argv"][3]
        slug = "".join(c if c.isalnum() else "-" for c in os.path.realpath(directory.workspace))
        transcript = directory.home / ".recorder/chats" / slug / f"{session_id}.jsonl"
        transcript.parent.mkdir(parents=True)
        transcript.write_text('{"type": "user"}\n')
        directory.tmux("kill-server")
        eventually(lambda: launched(directory, 2))
        assert directory.launches()[1]["argv"][2:] == ["--resume", session_id]
        eventually(lambda: directory.status()["state"] == "ready")
        assert directory.status()["rebuilds"] == 1


def test_server_whose_socket_was_removed_keeps_its_lead(directory: BoxDirectory) -> None:
    with directory.supervised():
        lead, [directory_of_socket] = lead_pid(directory), list((directory.base / "t").iterdir())
        shutil.rmtree(directory_of_socket)
        wake(directory)
        eventually(lambda: directory.status()["rebuilds"] == 1 and directory.status()["state"] == "ready")
        assert lead_pid(directory) == lead
        assert len(directory.launches()) == 1


def test_lead_that_outlives_its_terminal_ends_before_the_next_starts(directory: BoxDirectory) -> None:
    launch = directory.declaration["manifests"]["recorder"]["launch"]
    launch["argv"] = ["sh", "-c", "trap '' HUP; exec sleep 600"]
    with directory.supervised():
        eventually(lambda: directory.tmux("display-message", "-p", "-t", LEAD, "#{pane_current_command}") == "sleep")
        first = lead_pid(directory)
        os.kill(int(directory.tmux("display-message", "-p", "#{pid}")), signal.SIGKILL)
        eventually(lambda: directory.status()["rebuilds"] == 1 and directory.status()["state"] == "ready")
        assert lead_pid(directory) != first
        assert not running(first)


def test_box_without_room_for_a_process_waits_and_keeps_its_lead(directory: BoxDirectory) -> None:
    """Here the program itself is gone for a while: to the supervisor that is the same."""
    programs = directory.base / "bin"
    programs.mkdir()
    tmux = programs / "tmux"
    tmux.symlink_to(str(shutil.which("tmux")))
    places = [place for place in os.environ["PATH"].split(os.pathsep) if not Path(place, "tmux").exists()]
    directory.environ["PATH"] = os.pathsep.join([str(programs), str(Path(sys.executable).parent), *places])
    with directory.supervised() as supervisor:
        lead = lead_pid(directory)
        aside = tmux.rename(programs / "aside")
        wake(directory)
        eventually(lambda: "tmux can't be run" in (directory.base / "supervisor.log").read_text())
        time.sleep(2)
        assert supervisor.poll() is None
        aside.rename(tmux)
        assert lead_pid(directory) == lead
        assert directory.status()["rebuilds"] == 0


def wake(directory: BoxDirectory) -> None:
    """Let the supervisor look now, by ending the client with which it waits."""
    assert directory.supervisor is not None
    children = Path(f"/proc/{directory.supervisor.pid}/task/{directory.supervisor.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)


def test_lost_session_that_a_viewer_still_shows_keeps_its_lead(directory: BoxDirectory) -> None:
    with directory.supervised():
        lead = lead_pid(directory)
        viewer = Viewer(directory)
        eventually(lambda: "view-" in directory.tmux("list-clients", "-F", "#{client_session}"))
        directory.tmux("kill-session", "-t", "=agentbox")
        eventually(lambda: directory.status()["rebuilds"] == 1 and directory.status()["state"] == "ready")
        assert lead_pid(directory) == lead
        assert viewer.detach() == 0
        assert len(directory.launches()) <= 1


def test_lead_whose_pane_was_closed_gets_a_new_one_beside_the_teammates(directory: BoxDirectory) -> None:
    with directory.supervised():
        eventually(lambda: launched(directory, 1))
        teammate = directory.tmux("split-window", "-d", "-t", LEAD, "-P", "-F", "#{pane_id}", "cat")
        directory.tmux("kill-pane", "-t", "%0")
        eventually(lambda: launched(directory, 2) and directory.status()["state"] == "ready")
        panes = directory.tmux("list-panes", "-t", LEAD, "-F", "#{pane_id}").split()
        assert sorted(panes) == sorted([teammate, directory.status()["lead"]["pane"]])


def test_lead_whose_window_was_closed_gets_a_new_one(directory: BoxDirectory) -> None:
    with directory.supervised():
        directory.tmux("kill-window", "-t", LEAD)
        eventually(lambda: directory.status()["rebuilds"] == 1 and directory.status()["state"] == "ready")
        assert lead_pid(directory) == directory.status()["lead"]["pid"]


def test_session_that_keeps_getting_lost_is_parked_and_the_box_stays(directory: BoxDirectory) -> None:
    with directory.supervised() as supervisor:
        for rebuilds in range(1, 6):
            directory.tmux("kill-session", "-t", "=agentbox")
            eventually(lambda wanted=rebuilds: directory.status()["rebuilds"] == wanted)
            eventually(lambda: directory.status()["state"] == "ready")
        directory.tmux("kill-session", "-t", "=agentbox")
        eventually(lambda: directory.status()["state"] == "parked")
        assert "5 times within 10 minutes" in directory.status()["reason"]
        assert supervisor.poll() is None
    seen = subprocess.run(
        ["tmux", "-L", "agentbox", "ls"], env=directory.environ, capture_output=True, text=True, check=False
    )
    assert "no server running" in seen.stderr


def test_termination_ends_everything_at_once(directory: BoxDirectory) -> None:
    with directory.supervised() as supervisor:
        eventually(lambda: launched(directory, 1))
        lead = lead_pid(directory)
        start = time.monotonic()
        supervisor.terminate()
        assert supervisor.wait(5) == 0
        assert time.monotonic() - start < 3
        eventually(lambda: not running(lead))
        assert subprocess.run(["tmux", "-L", "agentbox", "ls"], env=directory.environ, check=False).returncode == 1


def running(pid: int) -> bool:
    """Whether the process is there and no zombie that its parent has yet to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_box_that_starts_again_at_once_finds_its_session(directory: BoxDirectory) -> None:
    for start in range(1, 3):
        with directory.supervised():
            eventually(lambda wanted=start: launched(directory, wanted))
            assert directory.status()["rebuilds"] == 0


def test_unusable_home_is_reported_and_no_reason_not_to_start(directory: BoxDirectory) -> None:
    (directory.home / ".recorder").mkdir()
    (directory.home / ".recorder/settings.json").write_text("{")
    with directory.supervised():
        (note,) = directory.status()["notes"]
        assert "settings.json is left as it is" in note
