"""What of agents' programs is on this host. Reads only, but for running version commands as users."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import _agent_clis_users as users
from ._accounts import Account
from ._agent_clis import CURRENT, NODE, Cli, Found, Layout, Versions, Wish
from ._agent_clis_login import MARK, known_files
from ._errors import StateError
from ._state import read_file

_NODE_SCRIPT = re.compile(rb"^#!.*\bnode\b")
_THREADS = 8


def gather(layout: Layout, wanted: Wish, accounts: Mapping[str, Account]) -> Found:
    """The host as it is; programs in use are run to see whether they work."""
    node = _versions(layout.path("node"))
    agents = {name: _versions(layout.versions(name)) for name in _entries(layout.path("agents"))}
    with ThreadPoolExecutor(_THREADS) as pool:
        jobs = {
            cli.name: pool.submit(why_broken, layout, cli, str(current), accounts[wanted.first_user(cli.name)])
            for cli in wanted.clis.values()
            if (current := agents.get(cli.name, Versions()).current)
        }
        broken = {name: job.result() for name, job in jobs.items()}
    if node.current:
        broken[NODE] = _why_node_is_broken(layout)
    return Found(
        node=node,
        agents=agents,
        broken={name: why for name, why in broken.items() if why},
        launchers={name: _launcher_is_right(layout, wanted, name) for name in _entries(layout.path("bin"))},
        links={user: _links(layout.path("users", user)) for user in _entries(layout.path("users"))},
        login_files=login_file_states(layout),
        running=_running(layout),
    )


def _entries(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - names, not paths
    except FileNotFoundError:
        return []


def _versions(directory: str) -> Versions:
    present = [name for name in _entries(directory) if name != CURRENT]
    try:
        current = str(Path(directory, CURRENT).readlink())
    except OSError:
        current = ""
    return Versions(present, current if current in present else None)


def why_broken(layout: Layout, cli: Cli, version: str, account: Account, tree: str | None = None) -> str | None:
    """Why an installed agent does not run; None when it does. ``tree`` is where it lies, if not in its place."""
    place = tree or str(Path(layout.versions(cli.name), version))
    path = f"{place}/bin:{layout.node}/bin:{users.SYSTEM_PATH}"
    return users.problem_of(cli, version, users.run(account, cli.agent.version_argv, path))


def _why_node_is_broken(layout: Layout) -> str | None:
    """Files instead of a run: whatever needs Node is run anyway."""
    wrong = [name for name in ("node", "npm") if not os.access(f"{layout.node}/bin/{name}", os.X_OK)]
    return f"{wrong[0]} is missing" if wrong else None


def _links(directory: str) -> dict[str, str]:
    return {name: _target(Path(directory, name)) for name in _entries(directory)}


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # no link
        return ""


def _launcher_is_right(layout: Layout, wanted: Wish, binary: str) -> bool:
    cli = next((cli for cli in wanted.clis.values() if cli.binary == binary), None)
    path = Path(layout.path("bin", binary))
    if cli is None:
        return True  # it goes, whatever it says
    if path.is_symlink() or not os.access(path, os.X_OK):
        return False
    return read_file(str(path)) == launcher(layout, cli).encode()


def launcher(layout: Layout, cli: Cli) -> str:
    """The program that starts the version in use of an agent, also while another one is being brought into use."""
    lines = ["#!/bin/sh", f"{MARK}: starts the version in use."]
    lines.append(f"agentbox_tree=$(readlink -f {layout.versions(cli.name)}/{CURRENT}) || exit")
    for name, value in sorted(cli.environment.items()):
        lines.append(f'[ -n "${{{name}+set}}" ] || {name}={shlex.quote(value)}')
        lines.append(f"export {name}")
    node = f"{layout.node}/bin/node " if _needs_node(layout, cli) else ""
    lines.append(f'exec {node}"$agentbox_tree/bin/{cli.binary}" "$@"')
    return "\n".join(lines) + "\n"


def _needs_node(layout: Layout, cli: Cli) -> bool:
    """Whether the program is a script that would look for Node in the PATH of the user, where another one may be."""
    try:
        with Path(layout.versions(cli.name), CURRENT, "bin", cli.binary).open("rb") as stream:
            return bool(_NODE_SCRIPT.match(stream.readline(200)))
    except OSError:
        return False


def login_file_states(layout: Layout) -> dict[str, bool]:
    """The files for login shells that have something of Agentbox, and whether it is right."""
    states = {}
    for file in known_files(layout).values():
        present = read_text(file.path)
        if file.is_foreign(present):
            raise StateError(f"{file.path} is there and not Agentbox's", "Move it away")
        state = file.state(present)
        if state is not None:
            states[file.path] = state
    return states


def read_text(path: str) -> str | None:
    content = read_file(path)
    return None if content is None else content.decode("utf-8", "surrogateescape")


def _running(layout: Layout) -> Collection[str]:
    """Version directories that a process runs from: its program lies there, or a file that it was started with."""
    prefix = f"{layout.directory}/"
    paths = {path for process in Path("/proc").glob("[0-9]*") for path in _started_with(process)}
    parts = [path.removeprefix(prefix).split("/") for path in paths if path.startswith(prefix)]
    return sorted({layout.path(*part[: 2 if part[0] == "node" else 3]) for part in parts})


def _started_with(process: Path) -> Iterable[str]:
    try:
        program = str((process / "exe").readlink())
        arguments = (process / "cmdline").read_bytes().decode("utf-8", "surrogateescape").split("\0")
    except OSError:  # it ended meanwhile, or is the kernel's
        return []
    return [program, *arguments]
