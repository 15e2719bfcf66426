"""Proof that an image works: its programs run as its user, in a login shell, in a throwaway container."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import _lines
from ._engine import Engine
from ._errors import AgentboxError
from ._manifests import LATEST, Agent
from ._naming import BOX_USER, LABEL_INSTANCE, LABEL_MANAGED
from ._progress import Report

COMMAND_SECONDS = 60
_OUTPUT_LINES = 12
_BEGIN, _END = "@agentbox-begin", "@agentbox-end"
_NOT_FOUND = 127
_TIMED_OUT = 124


class VerificationError(AgentboxError):
    """A freshly built image does not do what it is for; it was not put into use."""


@dataclass(frozen=True)
class Check:
    """A command that has to succeed; of an agent also its version has to be ``wanted``."""

    argv: tuple[str, ...]
    agent: Agent | None = None
    wanted: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    output: str


def checks(agents: Sequence[Agent], versions: Mapping[str, str], commands: Sequence[Sequence[str]]) -> list[Check]:
    """All that an image with ``agents`` is asked; ``versions`` are the wanted ones by agent."""
    own = [Check(agent.version_argv, agent, versions.get(agent.name, LATEST)) for agent in agents]
    return [Check(tuple(command)) for command in commands] + own


def script(wanted: Sequence[Check]) -> str:
    """A shell script that runs the commands one after the other, each between markers."""
    parts = []
    for number, check in enumerate(wanted):
        command = shlex.join(["timeout", str(COMMAND_SECONDS), *check.argv])
        parts.append(
            f'echo "{_BEGIN} {number}"; {command} 2>&1 </dev/null; status=$?; echo; echo "{_END} {number} $status"'
        )
    return "\n".join(parts)


def parse(output: str) -> dict[int, Outcome]:
    """The outcomes in the output of ``script``, by number of the check."""
    pattern = re.compile(rf"^{_BEGIN} (\d+)\n(.*?)\n?^{_END} \1 (\d+)$", re.MULTILINE | re.DOTALL)
    return {int(number): Outcome(int(status), text.strip()) for number, text, status in pattern.findall(output)}


def judge(wanted: Sequence[Check], outcomes: Mapping[int, Outcome]) -> dict[str, str]:
    """The agents' versions; raises ``VerificationError`` for the first command that did not do its part."""
    versions: dict[str, str] = {}
    for number, check in enumerate(wanted):
        outcome = outcomes.get(number)
        if outcome is None:
            raise VerificationError(f"the new image ended before it ran {shlex.join(check.argv)}")
        if outcome.status != 0:
            raise _failed(check, outcome)
        if check.agent:
            versions[check.agent.name] = _version(check, check.agent, outcome)
    return versions


def _failed(check: Check, outcome: Outcome) -> VerificationError:
    how = {
        _NOT_FOUND: "is not there",
        _TIMED_OUT: f"did not end within {COMMAND_SECONDS} s",
    }.get(outcome.status, f"failed with status {outcome.status}")
    hint = "Look at the image's packages and its own Dockerfile lines"
    if check.agent:
        hint = (
            f"Its package {check.agent.package} was installed incompletely: see that npm neither ignores scripts "
            "(ignore-scripts) nor omits optional packages (omit=optional), then rebuild"
        )
    return VerificationError(
        f"in the new image {shlex.join(check.argv)} {how}{quoted(outcome.output)}; the previous image stays in use",
        hint,
    )


def _version(check: Check, agent: Agent, outcome: Outcome) -> str:
    version = agent.read_version(outcome.output)
    if version is None:
        raise VerificationError(
            f"in the new image {shlex.join(check.argv)} named no version that matches "
            f"{agent.version_pattern!r}{quoted(outcome.output)}; the previous image stays in use",
            f"Correct version.pattern in the manifest of {agent.name}",
        )
    if check.wanted not in (LATEST, version):
        raise VerificationError(
            f"the new image holds {agent.name} {version} instead of {check.wanted}; the previous image stays in use",
            "Rebuild without cache",
        )
    return version


def quoted(output: str, most: int = _OUTPUT_LINES) -> str:
    """The last ``most`` lines of ``output`` as the end of a message; empty when there is nothing to tell."""
    lines = output.strip().splitlines()[-most:]
    return ": " + "\n".join(lines) if lines else ""


def run(engine: Engine, image_id: str, instance: str, wanted: Sequence[Check], report: Report) -> dict[str, str]:
    """Verify an image; the versions of its agents. Leaves nothing behind."""
    report("verify: running the image's programs")
    config = {
        "Image": image_id,
        "User": BOX_USER,
        "Entrypoint": [],
        "Cmd": ["bash", "-lc", script(wanted)],
        "Labels": {LABEL_MANAGED: "true", LABEL_INSTANCE: instance},
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Init": True,
        },
    }
    with engine.doing("run the new image's programs"):
        container = engine.client.create_container_from_config(config)["Id"]
        try:
            engine.client.start(container)
            output: list[bytes] = []
            chunks = engine.client.logs(container, stream=True, follow=True)
            _lines.pump(chunks, output.append, lambda: report("verify: its programs are still running"))
        finally:
            engine.client.remove_container(container, force=True, v=True)
    return judge(wanted, parse(b"".join(output).decode("utf-8", "replace")))
