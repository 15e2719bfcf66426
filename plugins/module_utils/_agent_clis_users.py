"""The users who get agents, and what their login shells make of them.

Programs run with all rights of the user and none of root's: a profile or an agent may do what its user may.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ._accounts import Account, account
from ._agent_clis import Cli
from ._errors import DeclarationError
from ._image_verify import COMMAND_SECONDS, Check, Outcome, parse, quoted, script

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_THREADS = 8
_PROFILE_SECONDS = 30  # what a user's profile may take on top of the commands
_OUTPUT_BYTES = 1 << 20
_QUOTED_LINES = 5  # of each problem; many users may have one
_TIMED_OUT = 124  # as timeout(1) says it


@dataclass(frozen=True)
class Problem:
    """Why an agent is not what it has to be for a user."""

    user: str
    agent: str
    message: str


def accounts(names: Iterable[str]) -> dict[str, Account]:
    """The accounts of ``names``; ``DeclarationError`` names all that are unknown, or that can't log in."""
    found = {name: account(name) for name in names}
    unknown = [name for name, account in found.items() if account is None]
    if unknown:
        raise DeclarationError(f"users: there is no user {', '.join(unknown)} on this host")
    known = {name: account for name, account in found.items() if account}
    barred = [f"{name} ({account.shell})" for name, account in known.items() if not account.can_log_in]
    if barred:
        raise DeclarationError(
            f"users: no login shell: {', '.join(barred)}", "Give them a shell (chsh), or take them out of the list"
        )
    return known


def run(account: Account, argv: Sequence[str], path: str, seconds: float = COMMAND_SECONDS) -> Outcome:
    """Run a program as ``account``, without a shell, with ``path`` for its PATH."""
    return _run(account, argv, argv[0], path, seconds)


def run_in_login_shell(account: Account, commands: str, seconds: float) -> Outcome:
    """Run POSIX shell ``commands`` in what the user's login shell, whichever that is, makes of the environment."""
    name = Path(account.shell).name
    command = f"exec /bin/sh -c {shlex.quote(commands)}"
    # A minus before its name is what login(1) and su(1) tell a shell by that it is one to log in with.
    return _run(account, [f"-{name}", "-c", command], account.shell, SYSTEM_PATH, seconds)


def _run(account: Account, argv: Sequence[str], program: str, path: str, seconds: float) -> Outcome:
    environment = {
        "HOME": account.home,
        "LANG": "C.UTF-8",
        "LOGNAME": account.name,
        "PATH": path,
        "SHELL": account.shell,
        "TERM": "dumb",
        "USER": account.name,
    }
    # A file, not a pipe: what a profile leaves running in the background would keep a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv,
                executable=_found(program, path),
                cwd="/",
                env=environment,
                user=account.uid,
                group=account.gid,
                extra_groups=account.groups,
                umask=0o022,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            return Outcome(127, f"{program}: {error.strerror}")
        status = _wait(process, seconds)
        output.seek(0)
        return Outcome(status, output.read(_OUTPUT_BYTES).decode("utf-8", "replace"))


def _found(program: str, path: str) -> str:
    """Where ``path`` (not this process's own) leads to ``program``; the name itself when it leads nowhere."""
    folders = [] if "/" in program else path.split(":")
    return next((f"{folder}/{program}" for folder in folders if os.access(f"{folder}/{program}", os.X_OK)), program)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int:
    """The exit status; at the end of its time a process and what it started in its session are killed."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return _TIMED_OUT


def problem_of(cli: Cli, version: str, outcome: Outcome) -> str | None:
    """Why the version command did not show ``version``; None when it did."""
    command = shlex.join(cli.agent.version_argv)
    if outcome.status == _TIMED_OUT:
        return f"{command} did not end within {COMMAND_SECONDS} s"
    if outcome.status != 0:
        return f"{command} failed with status {outcome.status}{quoted(outcome.output, _QUOTED_LINES)}"
    seen = cli.agent.read_version(outcome.output)
    if seen is None:
        return f"{command} named no version{quoted(outcome.output, _QUOTED_LINES)}"
    return None if seen == version else f"{command} says {seen} instead of {version}"


@dataclass(frozen=True)
class Expected:
    """What a user's login shell has to lead to."""

    cli: Cli
    path: str  # of the user's link
    version: str


def verify(account: Account, expected: Sequence[Expected]) -> list[Problem]:
    """Ask the user's login shell for its agents; what is wrong, in order."""
    wheres = [Check(("sh", "-c", 'command -v "$1"', "sh", item.cli.binary)) for item in expected]
    commands = script([*wheres, *(Check(item.cli.agent.version_argv) for item in expected)])
    answer = run_in_login_shell(account, commands, COMMAND_SECONDS * len(expected) + _PROFILE_SECONDS)
    outcomes = parse(answer.output)
    problems = []
    for number, item in enumerate(expected):
        where, ran = outcomes.get(number), outcomes.get(len(expected) + number)
        if where is None or ran is None:
            why: str | None = (
                f"the login shell ended with status {answer.status} early{quoted(answer.output, _QUOTED_LINES)}"
            )
        else:
            why = _misled(item, where) or problem_of(item.cli, item.version, ran)
        if why:
            problems.append(Problem(account.name, item.cli.name, why))
    return problems


def _misled(expected: Expected, where: Outcome) -> str | None:
    """Why the login shell does not find the user's link; None when it does."""
    directory = Path(expected.path).parent
    if where.status != 0:
        return (
            f"{expected.cli.binary} is not in the PATH of the login shell. Let its profile read "
            f"/etc/profile.d/agentbox.sh, or put {directory} into its PATH"
        )
    if where.output != expected.path:
        return (
            f"the login shell finds {where.output} before {expected.path}. Remove that program, put {directory} "
            "to the front of PATH, or take the user out of the list"
        )
    return None


def verify_all(expected: Mapping[str, Sequence[Expected]], known: Mapping[str, Account]) -> list[Problem]:
    """``verify()`` for many users at a time, in their order."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return [
            problem
            for found in pool.map(lambda user: verify(known[user], expected[user]), expected)
            for problem in found
        ]
