"""Facts of the host that a plan needs: who runs, the workspace, identity files, and who holds a port.

Reads only. Nothing here asks the engine.
"""

from __future__ import annotations

import errno
import os
import pwd
import socket
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import _acl
from ._acl import AclFacts
from ._errors import DeclarationError
from ._ports import HostPort

DEFAULT_WORKSPACE = "agentbox-workspace"  # below the home
FALLBACK_UID = 1000
# Never a workspace, and nothing below them either.
_SYSTEM_TREES = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
# Never mounted: the kernel's interfaces and the sockets of the host's services.
_UNMOUNTABLE = ("/dev", "/proc", "/run", "/sys", "/var/run")
# Never a workspace themselves; directories below them may be.
_SYSTEM_DIRECTORIES = ("/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/lib", "/var/tmp")  # noqa: S108
# Of a socket that waits for others, as the kernel's tables name it: TCP_LISTEN, and TCP_CLOSE for one not connected.
_LISTENING = {"tcp": "0A", "udp": "07"}


@dataclass(frozen=True)
class Person:
    """For whom the run works. ``uid`` is the uid of a box whose workspace says nothing better; never 0."""

    home: str
    uid: int
    euid: int  # of this process


@dataclass(frozen=True)
class WorkspaceFacts:
    """A workspace on disk. ``path`` has all symbolic links resolved; ``owner`` is None when it does not exist."""

    path: str
    owner: int | None
    is_directory: bool
    acl: AclFacts


@dataclass(frozen=True)
class Identity:
    """Files of the person's home that boxes may read: git's configuration, the gh tool's directory."""

    gitconfig: str | None = None
    gh: str | None = None


def person(home: str | None, environ: Mapping[str, str] = os.environ) -> Person:
    """Who runs this, seen through sudo: ``home`` (default: that person's) and the uid for their boxes."""
    euid = os.geteuid()
    sudo_uid = int(environ["SUDO_UID"]) if environ.get("SUDO_UID", "").isdigit() else 0
    uid = euid or sudo_uid
    if not home:
        try:
            home = pwd.getpwuid(uid).pw_dir
        except KeyError:
            home = environ.get("HOME", "/")
    return Person(home, uid or FALLBACK_UID, euid)


def timezone(root: Path = Path("/")) -> str:
    """Name of the host's time zone as /etc/localtime or /etc/timezone says, ``Etc/UTC`` where neither does."""
    _, found, name = os.path.realpath(root / "etc/localtime").partition("/zoneinfo/")
    if not found:
        with suppress(OSError, UnicodeDecodeError):
            name = (root / "etc/timezone").read_text(encoding="ascii").strip()
    return name or "Etc/UTC"


def workspace_facts(path: str) -> WorkspaceFacts:
    """Facts of ``path``, whether it exists or not."""
    real = os.path.realpath(path)
    try:
        found = Path(real).stat()
    except (FileNotFoundError, NotADirectoryError):
        return WorkspaceFacts(real, None, False, AclFacts(True, {}, {}))
    except OSError as error:
        raise DeclarationError(f"workspace {path} can't be read: {error.strerror}") from error
    is_directory = stat.S_ISDIR(found.st_mode)
    acl = _acl.read(real) if is_directory else AclFacts(True, {}, {})
    return WorkspaceFacts(real, found.st_uid, is_directory, acl)


def refusal(workspace: str, protected: Iterable[str]) -> str | None:
    """Why ``workspace`` (links resolved) must not be given to an agent; None when it may be.

    ``protected`` are directories whose content rules what the host runs: Agentbox's code, configuration and state.
    """
    if workspace in _SYSTEM_DIRECTORIES or any(_holds(tree, workspace) for tree in _SYSTEM_TREES):
        return f"{workspace} is a system directory"
    for directory in protected:
        if _holds(directory, workspace) or _holds(workspace, directory):
            return f"{workspace} holds or lies in {directory}, with which an agent could change what this host runs"
    return None


def exposure(source: str, writable: Iterable[str]) -> str | None:
    """Why a box must not get ``source`` (links resolved) because of ``writable``, directories that agents write to.

    An agent can put a link to any place of the host where ``source`` is, and the engine follows it at the next start
    of the box that has it, which the agent in that box can bring about.
    """
    for directory in writable:
        if source != directory and _holds(directory, source):
            return f"{source} lies in {directory}, where the agent of a box can put a link to anywhere in its place"
    return None


def foreign_link(path: str) -> str | None:
    """A symbolic link on the way to ``path`` that belongs neither to root nor to the owner of what is there.

    Its owner could have any directory of the host given to a box, with the rights of who runs this.
    """
    try:
        trusted = {0, os.geteuid(), Path(path).stat().st_uid}
    except OSError:
        return None
    return next((link for link, owner in _links(path) if owner not in trusted), None)


def _links(path: str) -> Iterator[tuple[str, int]]:
    """The symbolic links on the way to an existing ``path``, with their owners."""
    place, waiting = "/", path.split("/")[::-1]
    while waiting:
        place = os.path.normpath(f"{place}/{waiting.pop()}")  # what was passed holds no link any more
        found = os.lstat(place)
        if stat.S_ISLNK(found.st_mode):
            yield place, found.st_uid
            target = str(Path(place).readlink())
            waiting += target.split("/")[::-1]
            place = "/" if target.startswith("/") else str(Path(place).parent)


def mount_problem(source: str, protected: Iterable[str]) -> str | None:
    """Why ``source`` must not be mounted into a box; None when it may be."""
    real = os.path.realpath(source)
    if not Path(real).exists():
        return f"{source} does not exist"
    if stat.S_ISSOCK(Path(real).stat().st_mode):
        return f"{source} is a socket; a box gets no door to programs of its host"
    for directory in (*_UNMOUNTABLE, *protected):
        if _holds(directory, real) or _holds(real, directory):
            return f"{source} holds or lies in {directory}, which no box gets"
    return None


def _holds(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def identity(home: str, *, git: bool, gh: bool) -> Identity:
    """Identity files that exist and belong to the home's owner; others are not given to a box."""
    try:
        owner = Path(home).stat().st_uid
    except OSError:
        return Identity()
    return Identity(
        gitconfig=_owned(f"{home}/.gitconfig", owner, stat.S_ISREG) if git else None,
        gh=_owned(f"{home}/.config/gh", owner, stat.S_ISDIR) if gh else None,
    )


def _owned(path: str, owner: int, is_kind: object) -> str | None:
    real = os.path.realpath(path)
    try:
        found = os.lstat(real)
    except OSError:
        return None
    return real if callable(is_kind) and is_kind(found.st_mode) and found.st_uid == owner else None


def port_problem(wanted: HostPort) -> str | None:
    """Why nothing can listen on an address and port now, naming the program that does; None when it is free."""
    family = socket.AF_INET6 if ":" in wanted.address else socket.AF_INET
    stream = wanted.protocol == "tcp"
    with socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM) as probe:
        try:
            if stream:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((wanted.address, wanted.port))
            if stream:
                probe.listen(1)
        except OSError as error:
            if error.errno == errno.EACCES and not _inodes(wanted):
                return None  # a low port, which the engine may use and this user may not
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return f"{wanted} is taken by {_listener(wanted) or 'another program'}"
            return f"nothing can listen on {wanted}: {error.strerror}"
    return None


def _listener(wanted: HostPort) -> str | None:
    """Name and pid of the process that listens on a port; None where /proc does not show it to this user."""
    inodes = {f"socket:[{inode}]" for inode in _inodes(wanted)}
    for process in Path("/proc").glob("[0-9]*"):
        if inodes & set(_open_files(process)):
            with suppress(OSError):
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
    return None


def _open_files(process: Path) -> Iterator[str]:
    """What the descriptors of a process point to. One that is closed meanwhile hides none of the others."""
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                yield str(descriptor.readlink())


def _inodes(wanted: HostPort) -> list[str]:
    """Inodes of the sockets that listen on a port, on whatever address."""
    tables = (wanted.protocol, f"{wanted.protocol}6")
    return [inode for table in tables for inode in _listening_inodes(table, wanted.port, _LISTENING[wanted.protocol])]


def _listening_inodes(table: str, port: int, listening: str) -> list[str]:
    local_address, state, inode = 1, 3, 9  # columns of /proc/net/tcp and /proc/net/udp
    try:
        rows = [line.split() for line in Path("/proc/net", table).read_text().splitlines()[1:]]
    except OSError:
        return []
    return [
        row[inode] for row in rows if row[state] == listening and int(row[local_address].rpartition(":")[2], 16) == port
    ]
