from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from agentbox.cli import processes

STUBBORN = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
# Listens even where the tests run in the background, which makes Python ignore the signal.
OBEDIENT = """
import signal, time
signal.signal(signal.SIGINT, lambda *_: exit(7))
print("up", flush=True)
time.sleep(60)
"""
# Starts a stubborn child in a session of its own, as Ansible does for its workers, then says its number.
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def start(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)


def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_descendants_are_found_through_sessions() -> None:
    parent = start(PARENT)
    child = int(line(parent))
    try:
        assert child in processes.descendants(parent.pid)
        assert child in processes.descendants(os.getpid())
    finally:
        processes.end(parent, 0, impatient=lambda: True)


def test_a_process_that_ends_when_asked_is_not_killed() -> None:
    process = start(OBEDIENT)
    line(process)
    processes.end(process, 10, impatient=lambda: False)
    assert process.returncode == 7


def test_what_does_not_end_is_killed_after_the_grace_with_all_it_started() -> None:
    parent = start(PARENT)
    child = int(line(parent))
    before = time.monotonic()
    processes.end(parent, 0.5, impatient=lambda: False)
    assert time.monotonic() - before < 10
    deadline = time.monotonic() + 5
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child)


def test_a_second_signal_ends_the_patience() -> None:
    process = start(STUBBORN)
    line(process)
    before = time.monotonic()
    processes.end(process, 60, impatient=lambda: True)
    assert time.monotonic() - before < 10
    assert process.returncode == -signal.SIGKILL
