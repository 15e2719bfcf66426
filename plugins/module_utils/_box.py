"""One box with everything decided: its declaration resolved against facts of host, engine and image.

Pure: ``resolve()`` gets facts and returns a ``Box``, or raises a ``DeclarationError`` naming the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import _host, _naming
from ._contradictions import target_problems
from ._credentials import LoginFacts
from ._errors import DeclarationError
from ._host import Identity, Person, WorkspaceFacts
from ._naming import BoxPaths
from ._spec import BoxSpec, most_memory
from ._values import HOST_TIMEZONE

RELAY_SOCKET = "observer.sock"
RUNTIME_FILES = {"entry.sh": 0o755, "attach.sh": 0o755, "tmux.conf": 0o644}  # names and modes at /agentbox
STRICT_PROFILE = "seccomp-strict.json"
_MAX_SOCKET_PATH = 107  # bytes; sockaddr_un holds 108 with the closing NUL


@dataclass(frozen=True)
class EngineFacts:
    """What the engine offers. ``memory`` in bytes; ``runtimes`` None where the engine does not say.

    ``maps_users``: a user in a container is another one on the host.
    """

    cpus: int
    memory: int
    runtimes: tuple[str, ...] | None
    podman: bool = False
    maps_users: bool = False
    data_root: str = "/var/lib/docker"
    unenforced: frozenset[str] = frozenset()  # limits, named as in ``Limits``, that it accepts and can't enforce


@dataclass(frozen=True)
class ImageFacts:
    """An image. ``context`` is the digest of what it was built from, else its id; ``agents`` maps names to versions.

    ``id`` is empty for one that is yet to be built.
    """

    reference: str
    id: str
    context: str
    agents: Mapping[str, str]


@dataclass(frozen=True)
class Setting:
    """What all boxes of one call share."""

    instance: str
    state_dir: str
    person: Person
    engine: EngineFacts
    manifests: Mapping[str, Any]
    files: Mapping[str, str]  # artefacts of templates/box by name
    proxy: Mapping[str, str]  # environment variables, see _proxy.environment()
    identity: Identity
    timezone: str  # of the host
    protected: tuple[str, ...]


@dataclass(frozen=True)
class Login:
    """A login of the host that a box gets, see ``_credentials_host.py``. Its content is in no representation."""

    agent: str
    source: str  # on the host, links resolved
    target: str  # in the box
    content: bytes = field(repr=False)
    facts: LoginFacts


@dataclass(frozen=True)
class Box:
    """A declared box, ready to be planned. ``memory`` in bytes and ``cpus`` are capped at what the host can give."""

    spec: BoxSpec
    setting: Setting
    uid: int
    workspace: str
    workspace_missing: bool  # it is Agentbox's own default workspace and has to be made
    acl_uids: tuple[int, ...]  # who misses rights on the workspace
    memory: int
    cpus: float
    logins: tuple[Login, ...] = ()  # of the host, that it is to have

    @property
    def container(self) -> str:
        return _naming.container_name(self.setting.instance, self.spec.name)

    @property
    def paths(self) -> BoxPaths:
        return BoxPaths(self.setting.state_dir, self.spec.name)

    @property
    def target(self) -> str:
        """The workspace's path in the box."""
        return self.workspace if self.spec.workspace_target == "mirror" else self.spec.workspace_target

    @property
    def network(self) -> str:
        """Name of the engine's network, or ``none``."""
        name = self.spec.network
        return _naming.network_name(self.setting.instance) if name == "bridge" else name

    @property
    def networks(self) -> tuple[str, ...]:
        """Names of all networks of the engine that it joins, the one that rules its routes first."""
        return () if self.network == "none" else (self.network, *self.spec.networks)

    @property
    def identity(self) -> Identity:
        """Files of the person; the login of gh is a credential like those of the agents."""
        if self.spec.sealed:
            return Identity()
        found = self.setting.identity
        return replace(found, gh=None) if self.spec.credentials == "none" else found

    @property
    def proxy(self) -> Mapping[str, str]:
        """Environment variables; a proxy's address may hold a login."""
        return {} if self.spec.sealed else self.setting.proxy

    @property
    def timezone(self) -> str:
        declared = self.spec.timezone
        return self.setting.timezone if declared == HOST_TIMEZONE else declared

    @property
    def agents(self) -> dict[str, Mapping[str, Any]]:
        """The manifests of its agents."""
        return {name: self.setting.manifests[name] for name in self.spec.agents}


def workspace_path(declared: str | None, person: Person) -> str:
    """The workspace as declared, else the default one in the person's home."""
    return declared or f"{person.home.rstrip('/')}/{_host.DEFAULT_WORKSPACE}"


def chosen_uid(declared: int | None, workspace: WorkspaceFacts, person: Person) -> int:
    """The uid of the processes in a box: as declared, else the workspace's owner, else the person; never root's."""
    return declared or workspace.owner or person.uid


def resolve(spec: BoxSpec, setting: Setting, workspace: WorkspaceFacts) -> Box:
    """Decide what the declaration leaves open and refuse what can't be on this host."""
    missing = _check_workspace(spec, setting, workspace)
    uid = chosen_uid(spec.uid, workspace, setting.person)
    _check_availability(spec, setting)
    box = Box(
        # As found, so that the default, a link and the path itself are one declaration.
        spec=replace(spec, workspace=workspace.path),
        setting=setting,
        uid=uid,
        workspace=workspace.path,
        workspace_missing=missing,
        acl_uids=() if missing else _acl_uids(spec, uid, workspace),
        memory=min(spec.memory, most_memory(setting.engine.memory)),
        cpus=min(spec.cpus, float(setting.engine.cpus)),
    )
    problems = target_problems(spec, box.target, setting.manifests)  # with links resolved
    if problems:
        raise DeclarationError("; ".join(f"{spec.path}.{problem}" for problem in problems))
    socket = f"{box.paths.relay}/{RELAY_SOCKET}"
    if len(socket.encode()) > _MAX_SOCKET_PATH:
        raise DeclarationError(
            f"{spec.path}.name: {socket} is longer than the {_MAX_SOCKET_PATH} bytes of a socket's path",
            "Choose a shorter state_root, instance or name",
        )
    return box


def _check_workspace(spec: BoxSpec, setting: Setting, workspace: WorkspaceFacts) -> bool:
    """Refuse an unfit workspace; returns whether it has to be made."""
    key = f"{spec.path}.workspace"
    reason = _host.refusal(workspace.path, setting.protected)
    if reason:
        raise DeclarationError(f"{key}: {reason}", "Choose a directory of its own")
    if workspace.owner is None and spec.workspace is not None:
        raise DeclarationError(f"{key}: {spec.workspace} does not exist", "Make the directory first")
    if workspace.owner is not None and not workspace.is_directory:
        raise DeclarationError(f"{key}: {workspace.path} is no directory")
    return workspace.owner is None


def _acl_uids(spec: BoxSpec, uid: int, workspace: WorkspaceFacts) -> tuple[int, ...]:
    """Who needs an entry: the box uid, and the owner for what the box writes (root needs none)."""
    if spec.workspace_access == "none" or workspace.owner == uid:
        return ()
    if not workspace.acl.supported:
        raise DeclarationError(
            f"{spec.path}.workspace: {workspace.path} belongs to uid {workspace.owner}, the box runs as uid {uid}, and "
            "this file system keeps no access control lists",
            f"Set uid: {workspace.owner or 'to an owner other than root'}, or workspace_access: none",
        )
    wanted: Iterable[int] = [uid, *([workspace.owner] if workspace.owner else [])]
    return tuple(sorted(wanted)) if workspace.acl.lacks(wanted) else ()


def _check_availability(spec: BoxSpec, setting: Setting) -> None:
    runtimes = setting.engine.runtimes
    if spec.runtime != "runc" and runtimes is not None and spec.runtime not in runtimes:
        raise DeclarationError(
            f"{spec.path}.runtime: the engine has no runtime {spec.runtime} (it has {', '.join(runtimes)})",
            "Install and register it with the engine",
        )
    for name in (*RUNTIME_FILES, *([STRICT_PROFILE] if spec.seccomp == "strict" else [])):
        if not isinstance(setting.files.get(name), str):
            raise DeclarationError(f"files.{name}: is missing, box {spec.name} needs it")
