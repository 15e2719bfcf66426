"""One pass over a host: gather, plan, install, the rest of the plan, and the proof in every user's login shell."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _agent_clis as plan
from . import _agent_clis_install as installing
from ._accounts import Account
from ._agent_clis import Action, Found, Install, Layout, Wish
from ._agent_clis_host import gather, read_text
from ._agent_clis_install import write_launcher
from ._agent_clis_login import LoginFile, known_files, wanted_files
from ._agent_clis_users import Expected, verify_all
from ._errors import AgentboxError, StateError
from ._progress import Report
from ._state import Directory, File, ensure_directory, locked, remove_file, remove_tree, replace_link, write_file

_LOCK = "/run/agentbox-agent-clis"  # a directory of root's; gone with the next boot


@dataclass(frozen=True)
class Request:
    """What is asked for, and with what means."""

    wish: Wish
    accounts: Mapping[str, Account]
    sources: installing.Sources
    keep_running: bool  # versions that processes run from stay for a later run
    lock_timeout: float  # seconds
    layout: Layout = field(default_factory=Layout)


@dataclass
class Result:
    """What a run did, or in check mode would do."""

    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    actions: list[dict[str, str]] = field(default_factory=list)
    drift: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def converge(request: Request, *, check: bool, report: Report) -> Result:
    """Do it, or predict it. What can't be done for an agent or a user is in ``errors``; the others are served.

    Raises ``AgentboxError`` where nothing can be done at all.
    """
    if os.geteuid() != 0:
        raise AgentboxError("only root can install agents for the users of a host", "Run as root or with become: true")
    if check:
        return _Run(request, report, check=True).result()
    ensure_directory(Directory(_LOCK, 0o700))
    with _explained(), installing.readable_by_all(), locked(_LOCK, "install agents", request.lock_timeout):
        return _Run(request, report, check=False).result()


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(f"cannot change {error.filename or 'the host'}: {error.strerror or error}") from error


class _Run:
    """One run; holds what it found out and did on the way."""

    def __init__(self, request: Request, report: Report, *, check: bool) -> None:
        self._request = request
        self._layout = request.layout
        self._wish = request.wish
        self._report = report
        self._check = check
        self._outcome = Result()
        self._installer = installing.Installer(request.layout, request.sources, report)

    def result(self) -> Result:
        shells = [self._request.accounts[user].shell for user in self._wish.users]
        files = wanted_files(self._layout, shells, os.path.isdir)
        found = self._gather()
        self._outcome.before = plan.shown(found)
        found = self._install(found)
        for action in plan.remaining(self._layout, self._wish, found, files, self._request.keep_running):
            if not self._check:
                self._apply(action, files)
            self._record(action.action, action.subject, action.detail)
        if not self._check and not self._wish.clis:
            self._remove_empty_directories()
        self._outcome.after = plan.shown_after(self._wish, found, files)
        if not (self._check and self._outcome.actions):
            self._verify(found)
        return self._outcome

    def _gather(self) -> Found:
        return gather(self._layout, self._wish, self._request.accounts)

    def _record(self, action: str, subject: str, detail: str) -> None:
        self._outcome.actions.append({"action": action, "subject": subject, "detail": detail})

    def _install(self, found: Found) -> Found:
        """Install what has to be; what is on the host then, or in check mode would be."""
        node = plan.node_install(self._wish, found)
        agents = plan.agent_installs(self._wish, found)
        done = [self._attempt(found, node, self._install_node)] if node else []
        done += [self._attempt(found, wanted, self._install_agent) for wanted in agents]
        if done and not self._check:
            return self._gather()  # also what failed may have left something
        return plan.predicted(self._wish, found, [install for install in done if install])

    def _attempt(
        self, found: Found, wanted: Install, step: Callable[[Found, Install], Install | None]
    ) -> Install | None:
        """What was installed, or would be; None for nothing. Without what is missing a version that works stays."""
        try:
            done = step(found, wanted)
        except installing.InstallError as error:
            self._keep(found, wanted, error)
            return None
        if done:
            self._record("install", f"{done.name} {done.version}", done.detail)
        return done

    def _keep(self, found: Found, wanted: Install, error: installing.InstallError) -> None:
        """Go on with the version in use. That it is another one is a warning where only the network is at fault."""
        versions = {plan.NODE: found.node.current, **{name: found.current(name) for name in found.agents}}
        current = versions.get(wanted.name)
        if current is None or wanted.name in found.broken or not isinstance(error, installing.UnreachableError):
            self._outcome.errors.append(str(error))
            return
        self._outcome.warnings.append(f"{wanted.name} stays at {current}, {wanted.version} was wanted: {error}")
        self._outcome.drift.append({"name": wanted.name, "wanted": wanted.version, "version": current})

    def _install_node(self, _found: Found, wanted: Install) -> Install:
        if not self._check:
            self._installer.install_node(wanted.version)
        return wanted

    def _install_agent(self, found: Found, wanted: Install) -> Install | None:
        """Ask the registry first, also in check mode, so that it tells what a run could do."""
        if not self._installer.has_npm():
            if self._check:
                return wanted
            raise installing.InstallError(f"{wanted.name} can't be installed without Node")
        cli = self._wish.clis[wanted.name]
        install = plan.resolved(wanted, self._installer.ask_version(cli, wanted.version), found)
        if install and not self._check:
            account = self._request.accounts[self._wish.first_user(cli.name)]
            self._installer.install_agent(cli, install.version, account)
        return install

    def _apply(self, action: Action, files: Mapping[str, LoginFile]) -> None:
        path = Path(action.subject)
        match action.action:
            case "launch":
                cli = next(cli for cli in self._wish.clis.values() if cli.binary == path.name)
                write_launcher(self._layout, cli)
            case "link":
                for directory in (path.parent.parent, path.parent):
                    ensure_directory(Directory(str(directory), 0o755))
                replace_link(path, self._layout.link_target(path.name))
            case "write":
                self._write_login_file(files[action.subject])
            case "unlink" if login_file := self._login_file(action.subject):
                self._remove_login_file(login_file)
            case _:
                remove_tree(action.subject)

    def _login_file(self, path: str) -> LoginFile | None:
        return next((file for file in known_files(self._layout).values() if file.path == path), None)

    def _write_login_file(self, file: LoginFile) -> None:
        content = file.with_text(read_text(file.path))
        self._replace(file.path, content)

    def _remove_login_file(self, file: LoginFile) -> None:
        """What others wrote into a file stays, and so does the file where it was theirs."""
        if file.block:
            self._replace(file.path, file.without_text(read_text(file.path)))
        else:
            remove_file(file.path)

    def _replace(self, path: str, content: str) -> None:
        Path(path).parent.mkdir(mode=0o755, exist_ok=True)
        write_file(File(path, content.encode("utf-8", "surrogateescape"), 0o644))

    def _remove_empty_directories(self) -> None:
        for part in ("agents", "bin", "node", "users", ""):
            with suppress(OSError):  # not empty, or not there
                Path(self._layout.path(part)).rmdir()

    def _verify(self, found: Found) -> None:
        """The proof, for all users of agents that are installed."""
        expected = {user: self._expected(user, found) for user in self._wish.users}
        expected = {user: items for user, items in expected.items() if items}
        if expected:
            self._report(f"verify the agents of {len(expected)} users")
        for problem in verify_all(expected, self._request.accounts):
            self._outcome.errors.append(f"{problem.agent} of {problem.user}: {problem.message}")

    def _expected(self, user: str, found: Found) -> list[Expected]:
        clis = [self._wish.clis[agent] for agent in self._wish.users[user]]
        return [
            Expected(cli, self._layout.path("users", user, cli.binary), version)
            for cli in clis
            if (version := found.current(cli.name))
        ]
