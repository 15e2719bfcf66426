"""The command line against a real engine: what a person at a workstation, and a script, sees of it."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox.cli import processes
from tests.integration import engines, runs

COMMAND = (sys.executable, "-m", "agentbox.cli")
TIMEOUT = 300  # seconds for one command
HIDDEN = "s3cret {{ 7 * 7 }} 'quoted'"
SILENCE = 10.0  # seconds without a word that users are promised not to see
# Variables of a developer's shell that must not reach a test.
FOREIGN = ("AGENTBOX_", "ANSIBLE_", "DOCKER_", "XDG_", "SUDO_", "WORKSPACE", "MEM", "CPUS")
OTHER_UID = 12345  # no user of any machine


@dataclass(frozen=True)
class Desk:
    """Where a person sits: a home, a workspace, an instance of their own."""

    directory: Path
    instance: str
    port: int

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def workspace(self) -> Path:
        return self.directory / "My Repo"

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        return {
            **own,
            "HOME": str(self.home),
            "AGENTBOX_INSTANCE": self.instance,
            "THE_TOKEN": HIDDEN,
            **(extra or {}),
        }

    def run(
        self,
        *arguments: str,
        cwd: Path | None = None,
        prefix: tuple[str, ...] = (),
        timeout: float = TIMEOUT,
        **environ: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command without a terminal and with closed input."""
        return subprocess.run(
            [*prefix, *COMMAND, *arguments],
            cwd=cwd or self.workspace,
            env=self.environment(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    @property
    def state(self) -> Path:
        """Where root keeps the state of this instance."""
        return Path("/var/lib/agentbox", self.instance)

    def logs(self) -> set[str]:
        """Names of the logs of all playbooks that ran for this instance."""
        return {path.name for path in (self.state / "logs").glob("*.log")}


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, desk: Desk, *arguments: str, **environ: str) -> None:
        primary, secondary = pty.openpty()
        self._primary = primary
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=desk.workspace,
            env=desk.environment({"TERM": "xterm-256color", **environ}),
            stdin=secondary,
            stdout=secondary,
            stderr=secondary,
            start_new_session=True,
        )
        os.close(secondary)
        self.shown = ""

    def expect(self, pattern: str, timeout: float = 60) -> None:
        """Wait until ``pattern`` has been shown."""
        deadline = time.monotonic() + timeout
        while not re.search(pattern, self.shown):
            assert time.monotonic() < deadline, f"no {pattern!r} in: {self.shown[-2000:]!r}"
            self._read()

    def type(self, text: str) -> None:
        os.write(self._primary, text.encode())

    def wait(self, timeout: float = 60) -> int:
        """The exit code; what is shown until then is read, so that the program can go on."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running after: {self.shown[-2000:]!r}"
            if not self._read():
                time.sleep(0.05)
        while self._read():
            pass
        return self.process.returncode

    def _read(self) -> bool:
        """Take in what has been shown since; whether there was something."""
        ready, _, _ = select.select([self._primary], [], [], 0.2)
        try:
            part = os.read(self._primary, 65536) if ready else b""
        except OSError:  # nothing holds the other end any more
            return False
        self.shown += part.decode("utf-8", "replace")
        return bool(part)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._primary)


@contextmanager
def terminal(desk: Desk, *arguments: str, **environ: str) -> Iterator[Terminal]:
    opened = Terminal(desk, *arguments, **environ)
    try:
        yield opened
    finally:
        opened.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def new_desk(engine: docker.APIClient, directory: Path) -> Iterator[Desk]:
    """A desk whose instance has an image already, so that the build finds every layer."""
    desk = Desk(directory, engines.new_instance_name(), free_port())
    for path in (desk.home, desk.workspace):
        path.mkdir()
    engine.tag(engines.IMAGE_CLAUDE, desk.instance, "latest")
    try:
        yield desk
    finally:
        engines.remove_instance(engine, desk.instance)
        engine.remove_image(f"{desk.instance}:latest", force=True)
        shutil.rmtree(desk.state, ignore_errors=True)


@pytest.fixture(scope="module")
def desk(module_place: Path) -> Iterator[Desk]:
    engine = engines.client()
    with new_desk(engine, module_place) as found:
        yield found
    engine.close()


@dataclass(frozen=True)
class Start:
    """The first ``up`` at a desk."""

    returncode: int
    output: str
    errors: str
    longest_silence: float


@pytest.fixture(scope="module")
def start(desk: Desk) -> Start:
    """``up`` with one value from each kind of source; a flag and a variable are set against weaker ones."""
    config = desk.home / ".config/agentbox/config.yml"
    config.parent.mkdir(parents=True)
    config.write_text("memory: 900m\nyolo: true\ncpus: 2\nsecrets: {TEST_TOKEN: {env: THE_TOKEN}}\n")
    environ = {"AGENTBOX_MEMORY": "700m", "CPUS": "1", "AGENTBOX_PORT": "1", "AGENTBOX_YOLO": ""}
    process = subprocess.Popen(
        [*COMMAND, "up", "--port", str(desk.port)],
        cwd=desk.workspace,
        env=desk.environment(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    moments, lines = [time.monotonic()], []
    for line in process.stderr:
        moments.append(time.monotonic())
        lines.append(line)
    output, _ = process.communicate(timeout=TIMEOUT)
    silences = [later - earlier for earlier, later in itertools.pairwise(moments)]
    return Start(process.returncode, output, "".join(lines), max(silences))


def inspect(engine: docker.APIClient, desk: Desk) -> dict[str, Any]:
    found: dict[str, Any] = engine.inspect_container(desk.instance)
    return found


def test_up_says_how_to_reach_the_box_and_how_to_log_in(desk: Desk, start: Start) -> None:
    assert start.returncode == 0, start.errors
    box, page, attach, log_in = start.output.splitlines()
    assert box == f"box       {desk.instance} (started), workspace {desk.workspace}"
    assert page == f"page      http://127.0.0.1:{desk.port}"
    assert re.match(rf"attach    \S*agentbox attach --instance {desk.instance} +\(detach with Ctrl-b d", attach)
    assert re.fullmatch(rf"log in    \S*agentbox shell --instance {desk.instance}, then: claude auth login", log_in)


def test_up_shows_progress_all_the_time(start: Start) -> None:
    assert start.longest_silence < SILENCE
    assert re.search(r"^\[\d+:\d\d\] box: ", start.errors, re.MULTILINE)


def test_flag_wins_over_environment_over_file(desk: Desk, start: Start, engine: docker.APIClient) -> None:
    found = inspect(engine, desk)
    assert found["HostConfig"]["Memory"] == 700 << 20  # own variable against the file
    assert found["HostConfig"]["NanoCpus"] == 10**9  # bare variable against the file
    assert found["Config"]["Labels"]["agentbox.yolo"] == "true"  # file against an empty variable
    [published] = found["HostConfig"]["PortBindings"]["4317/tcp"]  # flag against a variable
    assert published == {"HostIp": "127.0.0.1", "HostPort": str(desk.port)}


def test_a_secret_reaches_its_file_in_the_box_and_nothing_else(
    desk: Desk, start: Start, engine: docker.APIClient
) -> None:
    [kept] = desk.state.rglob("TEST_TOKEN")
    assert kept.read_text() == HIDDEN
    assert stat.S_IMODE(kept.stat().st_mode) == 0o400
    others = [path.read_bytes() for path in desk.state.rglob("*") if path.is_file() and path != kept]
    shown = (start.output, start.errors, json.dumps(inspect(engine, desk)))
    for text in [*others, *(part.encode() for part in shown)]:
        assert b"s3cret" not in text


def test_logs_are_private(desk: Desk, start: Start) -> None:
    logs = desk.state / "logs"
    assert stat.S_IMODE(logs.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in logs.iterdir()} == {0o600}


def test_up_on_a_healthy_box_runs_nothing_and_says_what_differs(
    desk: Desk, start: Start, engine: docker.APIClient
) -> None:
    wait_healthy(engine, desk)
    before, logs = inspect(engine, desk), desk.logs()
    result = desk.run("up", "--memory", "1g", "--no-yolo")
    assert result.returncode == 0
    assert "memory is 700m, not 1g as asked for" in result.stderr
    assert "yolo is on, not off as asked for" in result.stderr
    assert f"page      http://127.0.0.1:{desk.port}\n" in result.stdout
    assert desk.logs() == logs
    assert inspect(engine, desk)["State"]["StartedAt"] == before["State"]["StartedAt"]


def test_another_workspace_is_refused_and_a_name_proposed(desk: Desk, start: Start) -> None:
    other = desk.directory / "Ünï code"
    other.mkdir(exist_ok=True)
    logs = desk.logs()
    result = desk.run("up", cwd=other)
    assert result.returncode == 2
    assert f"box default works in {desk.workspace}, not in {other}" in result.stderr
    assert re.search(rf"agentbox up --name uni-code-[0-9a-f]{{8}} --instance {desk.instance}$", result.stderr.strip())
    assert desk.logs() == logs


def test_from_within_its_workspace_or_home_the_existing_box_is_meant(
    desk: Desk, start: Start, engine: docker.APIClient
) -> None:
    wait_healthy(engine, desk)
    below = desk.workspace / "src"
    below.mkdir(exist_ok=True)
    for cwd in (below, desk.home):
        result = desk.run("up", cwd=cwd)
        assert result.returncode == 0, result.stderr
        assert f"workspace {desk.workspace}\n" in result.stdout


@pytest.mark.parametrize("command", ["attach", "shell"])
def test_without_a_terminal_the_command_is_printed(desk: Desk, start: Start, command: str) -> None:
    result = desk.run(command)
    assert result.returncode == 2
    assert f"docker exec -it {desk.instance} bash " in result.stderr


@pytest.mark.parametrize(("command", "term"), [("attach", "xterm-ghostty"), ("attach", "x; rm -rf /"), ("up", "foot")])
def test_attaching_shows_tmux_on_any_terminal_and_detaching_leaves_the_box(
    desk: Desk, start: Start, engine: docker.APIClient, command: str, term: str
) -> None:
    wait_healthy(engine, desk)
    with terminal(desk, command, TERM=term) as screen:
        screen.expect("main.*observer")
        screen.type("\x02d")
        assert screen.wait() == 0
        assert "detached" in screen.shown
    assert inspect(engine, desk)["State"]["Running"]


def test_ls_lists_the_box_for_people_and_programs(desk: Desk, start: Start) -> None:
    [box] = json.loads(desk.run("ls", "--json").stdout)
    assert (box["name"], box["container"], box["state"]) == ("default", desk.instance, "running")
    assert (box["lead"], box["page"]) == ("running", f"http://127.0.0.1:{desk.port}")
    assert box["workspace"] == str(desk.workspace)
    header, row = desk.run("ls").stdout.splitlines()
    assert header.split() == ["NAME", "STATE", "HEALTH", "LEAD", "PAGE", "WORKSPACE"]
    assert row.startswith("default ")
    assert row.endswith(str(desk.workspace))


def test_ls_of_an_instance_without_boxes(desk: Desk) -> None:
    result = desk.run("ls", "--json", "--instance", "abx-none")
    assert (result.returncode, json.loads(result.stdout)) == (0, [])


def test_logs_prints_the_container_s_log(desk: Desk, start: Start) -> None:
    write = "echo first >/proc/1/fd/1; echo second >/proc/1/fd/1"
    subprocess.run(["docker", "exec", desk.instance, "sh", "-c", write], check=True)
    assert desk.run("logs").stdout.splitlines()[-2:] == ["first", "second"]
    last = desk.run("logs", "--tail", "1")
    assert (last.returncode, last.stdout) == (0, "second\n")
    assert desk.run("logs", "--tail", "some").returncode == 2


def test_doctor_is_healthy_and_shows_where_each_value_came_from(desk: Desk, start: Start) -> None:
    result = desk.run("doctor", "--json", "--cpus", "1", MEM="800m")
    assert result.returncode == 0, result.stdout
    report = json.loads(result.stdout)
    assert report["verdict"] in ("ok", "warn")
    shown = "\n".join(check["seen"] for check in report["checks"] if check["id"] == "configuration")
    assert "memory = 800m (from environment MEM)" in shown
    assert "cpus = 1.0 (from flag --cpus)" in shown
    assert f"yolo = on (from yolo of {desk.home}/.config/agentbox/config.yml)" in shown
    assert "name = default (from default)" in shown


def test_doctor_names_a_box_that_was_asked_for_and_is_not_there(desk: Desk, start: Start) -> None:
    result = desk.run("doctor", "--name", "nope")
    assert result.returncode == 1
    assert re.search(r"^fail +nope +state +there is no box nope$", result.stdout, re.MULTILINE)


def test_a_stopped_box_is_named_and_a_shell_starts_it(desk: Desk, start: Start, engine: docker.APIClient) -> None:
    result = desk.run("stop")
    assert result.returncode == 0, result.stderr
    assert next(desk.state.rglob("TEST_TOKEN")).read_text() == HIDDEN
    assert not inspect(engine, desk)["State"]["Running"]
    with terminal(desk, "attach") as screen:
        assert screen.wait() == 1
        assert "box default is not running, it is stopped" in screen.shown
    with terminal(desk, "shell") as screen:
        screen.expect(r"\$ $", TIMEOUT)
        screen.type("echo in-$((40+2)) $PWD $TERM\r")
        screen.expect("in-42 /workspace xterm-256color")
        screen.type("exit\r")
        assert screen.wait() == 0
    found = inspect(engine, desk)
    assert found["State"]["Running"]
    assert found["HostConfig"]["Memory"] == 700 << 20  # as it was made, not as this call would make one
    assert next(desk.state.rglob("TEST_TOKEN")).read_text() == HIDDEN


@pytest.mark.full  # two runs of a playbook at once are tried in test_site
def test_two_ups_at_once_make_one_box(desk: Desk, start: Start, engine: docker.APIClient) -> None:
    assert desk.run("down").returncode == 0
    started = [
        subprocess.Popen(
            [*COMMAND, "up", "--port", str(desk.port)],
            cwd=desk.workspace,
            env=desk.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    ended = [(process.communicate(timeout=TIMEOUT)[0], process.returncode) for process in started]
    assert [code for _, code in ended] == [0, 0], ended
    assert len(engine.containers(all=True, filters={"label": f"agentbox.instance={desk.instance}"})) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_its_playbook_and_says_what_is_there(
    desk: Desk, start: Start, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [*COMMAND, "up", "--name", "second"],
        cwd=desk.workspace,
        env=desk.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "docker: " not in process.stderr.readline():
        assert process.poll() is None
    family = processes.descendants(process.pid)
    assert family
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: there is no box second. The same command goes on from there" in errors
    assert "Traceback" not in errors
    assert not [pid for pid in family if Path(f"/proc/{pid}").exists()]


def test_down_removes_the_box_keeps_its_volumes_and_succeeds_without_a_box(
    desk: Desk, start: Start, engine: docker.APIClient
) -> None:
    def volumes() -> list[str]:
        found = engine.volumes(filters={"label": f"agentbox.instance={desk.instance}"})["Volumes"]
        return sorted(volume["Name"] for volume in found or [])

    before = volumes()
    result = desk.run("down")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("removed: box default; its HOME volume stays, `")
    assert f"agentbox down --instance {desk.instance} --volumes` removes it" in result.stdout
    assert not engine.containers(all=True, filters={"label": f"agentbox.instance={desk.instance}"})
    assert volumes() == before
    again = desk.run("down", "--volumes")
    gone = "its HOME volume with logins and conversations, the caches"
    assert (again.returncode, again.stdout) == (0, f"there is no box default; removed: {gone}\n")
    assert not volumes()
    assert desk.run("down").stdout == "there is no box default, nothing to do\n"
    for command in ("stop", "attach", "shell", "logs"):
        missing = desk.run(command)
        assert missing.returncode == 1
        assert re.search(r"there is no box default\. Run: \S*agentbox up ", missing.stderr)


def wait_healthy(engine: docker.APIClient, desk: Desk) -> None:
    deadline = time.monotonic() + 90
    while inspect(engine, desk)["State"]["Health"]["Status"] != "healthy":
        assert time.monotonic() < deadline
        time.sleep(0.5)


# What is refused before anything is touched.


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        (["up", "--memory", "100m"], {}, "flag --memory is '100m': must be at least 512m"),
        (["up"], {"MEM": "much"}, "environment MEM is 'much': must be a size"),
        (["up", "--port", "http"], {}, "flag --port is 'http'"),
        (["up", "--name", "My Repo"], {}, "for example my-repo-"),
        (["up", "--agent", "foo"], {}, "flag --agent: unknown agent foo, known: claude"),
        (["up", "--workspace", "missing"], {}, "missing does not exist"),
        (["up", "--workspace", "~"], {}, "cannot be a workspace"),
        (["up", "--workspace", "/etc"], {}, "is a system directory"),
        (["up"], {"AGENTBOX_WORKSPACE": str(runs.REPOSITORY)}, "cannot be a workspace"),
    ],
)
def test_bad_input_is_refused_before_anything_is_touched(
    desk: Desk, arguments: list[str], environ: dict[str, str], message: str
) -> None:
    logs = desk.logs()
    result = desk.run(*arguments, **environ)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert desk.logs() == logs


@pytest.mark.parametrize("command", ["ls", "logs", "stop", "down", "attach"])
def test_an_engine_that_is_not_there_is_named(desk: Desk, command: str) -> None:
    result = desk.run(command, DOCKER_HOST=f"unix://{desk.directory}/no.sock")
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert f"{desk.directory}/no.sock" in line


def test_down_succeeds_where_no_engine_is(desk: Desk, place: Path) -> None:
    other = engines.new_instance_name()
    try:
        result = desk.run("down", "--instance", other, prefix=tuple(engines.without_engine(place)))
    finally:
        shutil.rmtree(Path("/var/lib/agentbox", other), ignore_errors=True)
    assert (result.returncode, result.stdout) == (0, "there is no box default, nothing to do\n"), result.stderr


def test_a_mistyped_variable_is_reported(desk: Desk) -> None:
    result = desk.run("ls", AGENTBOX_MEMROY="8g")
    assert result.returncode == 0
    assert "AGENTBOX_MEMROY has no meaning for agentbox; did you mean AGENTBOX_MEMORY?" in result.stderr


# Users who are not root. CAP_DAC_READ_SEARCH lets them read the tests' interpreter, wherever it lies; no socket opens
# to it.


def as_user(*groups: int) -> tuple[str, ...]:
    uid = (str(shutil.which("setpriv")), f"--reuid={OTHER_UID}", f"--regid={OTHER_UID}")
    member = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    reading = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")
    return (*uid, member, *reading)


@pytest.fixture
def stranger(place: Path) -> Desk:
    """A desk of a user who may not use the engine."""
    found = Desk(place, engines.new_instance_name(), free_port())
    for path in (found.home, found.workspace):
        path.mkdir()
        os.chown(path, OTHER_UID, OTHER_UID)
    return found


def double_of_sudo(directory: Path, script: str) -> str:
    """A PATH on which sudo does what ``script`` says."""
    program = directory / "bin" / "sudo"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{program.parent}:/usr/bin:/bin"


def test_a_sudo_that_would_ask_is_one_clear_error_without_a_terminal(stranger: Desk) -> None:
    path = double_of_sudo(stranger.directory, 'echo "sudo: a password is required" >&2; exit 1')
    result = stranger.run("up", prefix=as_user(), PATH=path)
    assert result.returncode == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("agentbox: error: this needs root")
    assert "sudo asks for a password without a terminal" in line


def test_without_sudo_the_error_says_so(stranger: Desk) -> None:
    result = stranger.run("up", prefix=as_user(), PATH=str(stranger.directory))
    assert result.returncode == 1
    assert "there is no sudo. Run as root" in result.stderr


def test_sudo_gets_the_command_and_the_names_of_what_root_needs(stranger: Desk) -> None:
    path = double_of_sudo(stranger.directory, '[ "$*" = "-n true" ] || printf "%s\\n" "$@"')
    result = stranger.run(
        "up", "--name", "x", prefix=as_user(), PATH=path, HTTPS_PROXY="http://u:s3cret@proxy.example", MEM="1g"
    )
    assert result.returncode == 0
    first, kept, *rest = result.stdout.splitlines()
    assert first == "-n"
    assert kept.startswith("--preserve-env=")
    assert {"HTTPS_PROXY", "MEM", "AGENTBOX_INSTANCE"} <= set(kept.partition("=")[2].split(","))
    assert rest == ["--", *COMMAND, "up", "--name", "x"]
    assert "s3cret" not in result.stdout


def test_doctor_never_becomes_root_and_reports_what_it_can_not_decide(stranger: Desk) -> None:
    path = double_of_sudo(stranger.directory, "echo called; exit 0")
    result = stranger.run("doctor", "--json", prefix=as_user(), PATH=path)
    assert result.returncode == 3, result.stdout + result.stderr
    [check] = [check for check in json.loads(result.stdout)["checks"] if check["id"] == "engine"]
    assert check["verdict"] == "unknown"
    assert "denied" in check["seen"]


def test_a_member_of_the_engine_s_group_gets_a_box_of_their_own(engine: docker.APIClient, place: Path) -> None:
    group = Path("/var/run/docker.sock").stat().st_gid
    with new_desk(engine, place) as found:
        for path in (found.home, found.workspace):
            os.chown(path, OTHER_UID, OTHER_UID)
        path = double_of_sudo(place, "echo sudo was called >&2; exit 1")
        environ = {"PATH": f"{path}:{os.environ['PATH']}"}
        result = found.run("up", "--port", str(found.port), prefix=as_user(group), **environ)
        assert result.returncode == 0, result.stderr
        assert "sudo" not in result.stderr
        state = str(found.home / ".local/state/agentbox" / found.instance)
        assert inspect(engine, found)["Config"]["Labels"]["agentbox.state_dir"] == state
        root = found.run("stop")
        assert root.returncode == 2
        assert f"belongs to another user: its state is kept in {state}" in root.stderr


@pytest.mark.full
@pytest.mark.timeout(1500)
def test_rebuild_makes_a_box_nobody_looks_at_anew_from_the_new_image(engine: docker.APIClient, place: Path) -> None:
    with new_desk(engine, place) as found:
        assert found.run("up", "--port", str(found.port)).returncode == 0
        before, image = inspect(engine, found), engine.inspect_image(f"{found.instance}:latest")["Id"]
        result = found.run("rebuild", "--port", str(found.port), "--memory", "1g", timeout=1200)
        assert result.returncode == 0, result.stderr
        assert engine.inspect_image(f"{found.instance}:latest")["Id"] != image
        after = inspect(engine, found)
        assert after["Id"] != before["Id"]
        assert after["HostConfig"]["Memory"] == 1 << 30
