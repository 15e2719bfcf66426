"""What the end-to-end tests share: sites to converge, boxes as their users see them, the double of the vendor."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from agentbox._shared import _naming

REPOSITORY = Path(__file__).resolve().parents[2]
DOUBLE = REPOSITORY / "tests" / "doubles" / "messages_api.py"
COMMAND_TIMEOUT = 280.0  # seconds for one playbook or CLI call
# Variables of a developer's shell that must not reach a test.
FOREIGN = ("AGENTBOX_", "ANSIBLE_", "ANTHROPIC_", "CLAUDE_", "DOCKER_")
# A terminal program takes an Enter that comes with the text for a line break of pasted text.
TYPING_PAUSE = 0.3
PROMPT_SIGN = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"

Json = dict[str, Any]
T = TypeVar("T")


def wait_for(what: str, probe: Callable[[], T], timeout: float = 30.0) -> T:
    """The first true value of ``probe``, asked several times a second; fails naming ``what`` and the last value."""
    deadline = time.monotonic() + timeout
    while True:
        value = probe()
        if value:
            return value
        assert time.monotonic() < deadline, f"no {what} within {timeout:.0f} s; last seen: {value!r}"
        time.sleep(0.2)


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit status, its output as a user sees it and how long it took in seconds."""

    returncode: int
    output: str
    seconds: float

    def succeeded(self) -> Outcome:
        """Itself, after the check that it worked."""
        assert self.returncode == 0, self.output
        return self


def run(*command: str | Path, cwd: Path, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run a command of the project's own environment as a pipeline does: no terminal, closed stdin."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    start = time.monotonic()
    done = subprocess.run(
        [Path(sys.executable).with_name(str(command[0])), *command[1:]],
        cwd=cwd,
        env={**own, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_TIMEOUT,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, time.monotonic() - start)


def docker(*arguments: str, check: bool = True) -> str:
    """Standard output of the docker CLI, which is how a user looks at the engine."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert not check or done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class MessagesApi:
    """A running double of the Messages API."""

    url: str
    log: Path

    def requests(self) -> list[Json]:
        """The bodies of all requests for a message so far, in order."""
        entries = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
        return [entry["body"] for entry in entries if entry["path"].startswith("/v1/messages?")]

    def presented_keys(self) -> set[str]:
        """The credentials that were presented."""
        return {json.loads(line)["key"] for line in self.log.read_text(encoding="utf-8").splitlines()}


@contextmanager
def messages_api(address: str, log: Path) -> Iterator[MessagesApi]:
    """The double, listening on a free port of ``address``."""
    process = subprocess.Popen([sys.executable, DOUBLE, f"{address}:0", log], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield MessagesApi(process.stdout.readline().strip(), log)
    finally:
        process.terminate()
        process.wait(timeout=10)


def bridge_address() -> str:
    """The address of this machine that every container on a bridge network reaches."""
    (network,) = json.loads(docker("network", "inspect", "bridge"))
    config = network["IPAM"]["Config"][0]
    # An engine that chose the subnet itself does not name the gateway: it is the first address.
    return str(config.get("Gateway") or next(ipaddress.ip_network(config["Subnet"]).hosts()))


@dataclass(frozen=True)
class Site:
    """An inventory that declares one machine, this one."""

    instance: str
    inventory: Path

    @classmethod
    def declare(cls, instance: str, directory: Path, variables: Mapping[str, Any]) -> Site:
        """Write the inventory; ``variables`` are the ``agentbox_*`` variables of the machine."""
        inventory = directory / "inventory"
        inventory.mkdir()
        machine = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "agentbox_instance": instance,
            **variables,
        }
        hosts = inventory / "hosts.json"
        hosts.touch(mode=0o600)
        hosts.write_text(json.dumps({"all": {"hosts": {"workstation": machine}}}), encoding="utf-8")
        return cls(instance, inventory)

    def converge(self, *options: str) -> Outcome:
        """``ansible-playbook site.yml``, from a working directory that is not the clone."""
        return run(
            "ansible-playbook", "-i", self.inventory, *options, REPOSITORY / "site.yml", cwd=self.inventory.parent
        )

    def agentbox(self, *arguments: str) -> Outcome:
        """The ``agentbox`` command for this instance."""
        return run(
            "agentbox",
            *arguments,
            cwd=self.inventory.parent,
            environment={"AGENTBOX_INSTANCE": self.instance},
        )

    def box(self, name: str, port: int | None = None) -> Box:
        """A box of this site, whose page is published on ``port``."""
        return Box(_naming.container_name(self.instance, name), f"http://127.0.0.1:{port}")


@dataclass(frozen=True)
class Box:
    """A running box: its terminal through the engine, its page through HTTP."""

    container: str
    page: str

    def exec(self, *command: str, check: bool = True) -> str:
        return docker("exec", self.container, *command, check=check)

    def tmux(self, *arguments: str) -> str:
        return self.exec("tmux", "-L", _naming.TMUX_SOCKET, *arguments)

    def screen(self, window: str = _naming.WINDOW_LEAD) -> str:
        """What a window shows."""
        return self.tmux("capture-pane", "-p", "-t", f"{_naming.TMUX_SESSION}:{window}")

    def wait_for_screen(self, text: str, timeout: float = 30.0) -> str:
        """The screen of the lead once it shows ``text``."""

        def shown() -> str:
            screen = self.screen()
            return screen if text in screen.replace("\N{NO-BREAK SPACE}", " ") else ""

        try:
            return wait_for(f"{text!r} on the lead's screen", shown, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.screen()}") from None

    def type(self, text: str) -> None:
        """Type a line into the lead's pane as a user does: look whether it stands there, then press Enter."""
        target = f"{_naming.TMUX_SESSION}:{_naming.WINDOW_LEAD}"
        self.tmux("send-keys", "-t", target, "-l", text)
        self.wait_for_screen(f"{PROMPT_SIGN} {text}")
        time.sleep(TYPING_PAUSE)
        self.tmux("send-keys", "-t", target, "Enter")

    def get(self, path: str) -> Any:
        """A JSON document of the box's page, asked for from the host."""
        return httpx.get(f"{self.page}{path}", timeout=5).raise_for_status().json()
