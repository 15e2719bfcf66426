"""One real box: the whole of ``site.yml`` over it, reaching its screen, and stopping it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from agentbox._shared import _naming
from tests import images
from tests.integration import engines

from . import commands
from .commands import PLAYBOOKS, BenchError
from .report import Figure
from .timing import Side, alternate

_NAME = "bench"
_READY_SECONDS = 120.0
_SCREEN_SECONDS = 30.0
_ESCAPE = b"\x1b"  # the first byte of all that tmux draws; nothing before it has one
_DETACH = b"\x02d"  # Ctrl-b d
_CHANGED = re.compile(r"changed=[1-9]")


@dataclass(frozen=True)
class Site:
    """One instance with one box, as an inventory declares it."""

    engine: docker.APIClient
    place: Path
    instance: str

    @property
    def container(self) -> str:
        return _naming.container_name(self.instance, _NAME)

    @property
    def variables(self) -> Mapping[str, Any]:
        return {
            "agentbox_instance": self.instance,
            "agentbox_state_root": str(self.place / "state"),
            "agentbox_become": False,
            "agentbox_boxes": [
                {"name": _NAME, "workspace": str(self.place / "workspace"), "lead": "none", "memory": "2g"}
            ],
        }

    def prepare(self) -> None:
        workspace = self.place / "workspace"
        workspace.mkdir()
        os.chown(workspace, 1000, 1000)
        # The tests' image has the same layers, so that building is a matter of seconds.
        images.main()
        self.converge()

    def converge(self, *words: str) -> str:
        path = commands.write_variables(self.place / "variables.json", self.variables)
        return commands.playbook("agentbox.fleet.site", path, *words)

    def converge_unchanged(self) -> None:
        output = self.converge()
        if _CHANGED.search(output):
            raise BenchError(f"a run that had nothing to do changed something:\n{output}")

    def module_runs(self) -> int:
        """How many modules a run that has nothing to do starts on the host, as Ansible tells of each."""
        return self.converge("-vvv").count("Using module file ")

    def up(self) -> Screen:
        """Until ``agentbox up`` shows the box's screen."""
        words = ("up", "--name", _NAME, "--instance", self.instance, "--workspace", str(self.place / "workspace"))
        return Screen.of([commands.program("agentbox"), *words])

    def attach_directly(self) -> Screen:
        """Until tmux shows it to somebody who knows what to type."""
        tmux = ("tmux", "-u", "-L", _naming.TMUX_SOCKET, "attach", "-t", _naming.TMUX_SESSION)
        return Screen.of(
            ["docker", "exec", "--interactive", "--tty", "--env", "TERM=xterm-256color", self.container, *tmux]
        )

    def start(self) -> None:
        """Until the box has its session, whose end is what takes time."""
        self.engine.start(self.container)
        deadline = time.monotonic() + _READY_SECONDS
        state = ["docker", "exec", self.container, "tmux", "-L", _naming.TMUX_SOCKET, "has-session"]
        while subprocess.run(state, capture_output=True, check=False).returncode:
            if time.monotonic() > deadline:
                raise BenchError(f"container {self.container} has no session after {_READY_SECONDS:.0f} s")
            time.sleep(0.5)

    def start_idle(self) -> None:
        """A container with nothing but an init and a program that waits."""
        self.engine.start(self.idle)

    @property
    def idle(self) -> str:
        return f"{self.container}-idle"

    def create_idle(self) -> None:
        init = self.engine.create_host_config(init=True)
        labels = {_naming.LABEL_INSTANCE: self.instance}
        image = f"{self.instance}:latest"
        self.engine.create_container(
            image, ["sleep", "infinity"], name=self.idle, entrypoint=[], labels=labels, host_config=init
        )


@dataclass(frozen=True)
class Screen:
    """A program that has drawn on a terminal of its own."""

    pid: int
    terminal: int

    @classmethod
    def of(cls, command: Sequence[str]) -> Screen:
        """Start ``command`` and wait for the first byte that it draws."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(command[0], list(command), {**commands.environment(), "TERM": "xterm-256color"})  # noqa: S606
        seen = b""
        while _ESCAPE not in seen:
            if not select.select([terminal], [], [], _SCREEN_SECONDS)[0]:
                raise BenchError(f"{' '.join(command)} drew nothing, it said: {seen.decode(errors='replace')}")
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                raise BenchError(f"{' '.join(command)} ended, it said: {seen.decode(errors='replace')}") from None
        return cls(pid, terminal)

    def leave(self) -> None:
        """Detach as a person does, and wait for the program's end."""
        os.write(self.terminal, _DETACH)
        with suppress(OSError):  # how a terminal ends
            while os.read(self.terminal, 4096):
                pass
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def figures(runs: int) -> Iterator[Figure]:
    """The rows about one real box."""
    with site() as box:
        empty = PLAYBOOKS / "empty.yml"
        pair = alternate(Side(box.converge_unchanged), Side(lambda: commands.playbook(empty)), runs)
        yield Figure("whole `site.yml` unchanged, against an empty play", pair, pair.slower, "x the time", most=10)
        yield Figure("modules that it runs", None, box.module_runs(), "", most=15)
        pair = alternate(Side(box.up, after=Screen.leave), Side(box.attach_directly, after=Screen.leave), runs)
        work = (
            "`agentbox up` on a running box to the first byte of its screen, against `docker exec -it ... tmux attach`"
        )
        yield Figure(work, pair, pair.slower, "x the time", most=4)
        box.create_idle()
        pair = alternate(
            Side(lambda: commands.run(["docker", "stop", box.container]), box.start),
            Side(lambda: commands.run(["docker", "stop", box.idle]), box.start_idle),
            runs,
        )
        yield Figure(
            "stop a box, against `docker stop` of an idle `--init` container", pair, pair.slower, "x the time", most=2
        )


@contextmanager
def site() -> Iterator[Site]:
    engine, instance = engines.client(), engines.new_instance_name()
    with engines.short_directory() as place:
        made = Site(engine, place, instance)
        try:
            made.prepare()
            yield made
        finally:
            engines.remove_instance(engine, instance)
            engines.remove_images(engine, instance)
            engine.close()
