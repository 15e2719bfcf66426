"""What is known about a host and its boxes at one moment; gathered in one place, judged in others.

Plain data. ``None`` means that it was not looked at or could not be seen; the judging side says ``unknown`` then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ._naming import DEFAULT_INSTANCE

BoxState = Literal["started", "stopped", "absent", "adopted"]
PathKind = Literal["file", "directory", "link", "socket", "other", "missing", "unreadable"]

# Every agent's and tool's variable that names a file of certificates.
CA_VARIABLES = (
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
)


@dataclass(frozen=True)
class Limits:
    """Limits of one box. Memory in bytes; ``memory_swap`` is memory and swap together, as Docker counts."""

    memory: int | None = None
    memory_swap: int | None = None
    pids: int | None = None
    cpus: float | None = None


@dataclass(frozen=True)
class Expected:
    """A box as it should be: from its declaration, or from what it was made with."""

    name: str
    container: str
    state: BoxState
    image: str
    workspace: str | None = None  # on the host, absolute
    workspace_target: str = "/workspace"
    lead: str | None = None
    agents: tuple[str, ...] = ()
    publish: tuple[str, int] | None = None  # address and port on the host
    limits: Limits | None = None  # None when nobody says
    gpus: bool = False
    credentials: str = "auto"
    manifests: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of its agents, by name
    instance: str = DEFAULT_INSTANCE

    def command(self, name: str) -> str:
        """The command line that runs command ``name`` of the CLI for this box."""
        instance = "" if self.instance == DEFAULT_INSTANCE else f" --instance {self.instance}"
        return f"agentbox {name}{instance} --name {self.name}"


@dataclass(frozen=True)
class EngineFailure:
    """Why the engine did not answer; ``kind`` as in ``_errors``: absent, stopped, denied, timeout, ..."""

    kind: str
    message: str
    hint: str


@dataclass(frozen=True)
class EngineFacts:
    host: str
    api: str
    version: str
    podman: bool
    info: Mapping[str, Any]  # answer of GET /info


@dataclass(frozen=True)
class Space:
    """Free bytes of the file system at ``path`` for an unprivileged writer; None when it could not be read."""

    purpose: str
    path: str
    free: int | None
    error: str = ""


@dataclass(frozen=True)
class BaseFacts:
    """What an image was built on: the base's reference, and the ID that it has in the engine now, None for none."""

    reference: str
    image_id: str | None


@dataclass(frozen=True)
class ImageFacts:
    """Answer of ``inspect`` for one reference, None when the engine has no such image."""

    reference: str
    inspect: Mapping[str, Any] | None
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # its boxes need them: name -> manifest
    base: BaseFacts | None = None  # None when it was not built here


@dataclass(frozen=True)
class HostFacts:
    engine: EngineFacts | EngineFailure
    now: float  # seconds since the epoch
    images: tuple[ImageFacts, ...] = ()
    spaces: tuple[Space, ...] = ()
    proxy: Mapping[str, str] = field(default_factory=dict)  # proxy variables of the host, names as set
    ca_bundle: str | None = None  # the file the host trusts
    ca_digests: frozenset[str] = frozenset()  # sha256 of each certificate in it
    user_namespaces: Mapping[str, int] = field(default_factory=dict)  # sysctls about them that the kernel has


@dataclass(frozen=True)
class ProcessFacts:
    """Credentials of a box's first process, from ``/proc/<pid>/status`` of the host."""

    uids: tuple[int, ...]  # real, effective, saved, file system
    effective: int  # capability sets as bit masks
    permitted: int
    bounding: int
    no_new_privileges: bool
    seccomp: int  # 0 none, 1 strict, 2 filter


@dataclass(frozen=True)
class CgroupFacts:
    """Limits in force and what happened at them, from the host's cgroup files."""

    version: int
    limits: Limits  # a member is None when the kernel does not account for it or sets no limit
    unlimited: frozenset[str] = frozenset()  # names of the members of ``limits`` that have no limit
    oom_kills: int | None = None
    pids_refused: int | None = None  # how often a new process was refused
    pids_current: int | None = None
    memory_held: int | None = None  # bytes, see _health_cgroup.memory_held(); None when nobody looked


@dataclass(frozen=True)
class Hidden:
    """Something that could not be looked at, and why."""

    reason: str


@dataclass(frozen=True)
class PageFacts:
    """What holds a published address. ``taken`` is None when it is free, else a sentence naming the holder."""

    taken: str | None
    container: str | None = None  # the container that publishes it
    ours: bool = False  # a box Observer answers there
    healthy: bool | None = None
    reason: str = ""


@dataclass(frozen=True)
class Pane:
    window: str
    id: str
    dead: bool
    status: int | None
    command: str


@dataclass(frozen=True)
class LeadFacts:
    agent: str | None
    state: Literal["running", "exited", "none"]
    code: int | None


@dataclass(frozen=True)
class CredentialFacts:
    present: bool
    kind: str | None


@dataclass(frozen=True)
class SupervisorFacts:
    state: Literal["starting", "ready", "parked"]
    reason: str
    notes: tuple[str, ...] = ()  # what it could not put right in HOME


@dataclass(frozen=True)
class SessionFacts:
    windows: tuple[str, ...]
    panes: tuple[Pane, ...]


@dataclass(frozen=True)
class ObserverFacts:
    page: bool
    hooks: bool
    reason: str


@dataclass(frozen=True)
class HookFacts:
    ok: bool
    seconds: float | None
    reason: str


@dataclass(frozen=True)
class ProbeFacts:
    """A box's own report. All of it is the word of an untrusted party; a part it could not tell is ``Hidden``."""

    supervisor: SupervisorFacts | Hidden
    session: SessionFacts | Hidden
    observer: ObserverFacts | Hidden
    lead: LeadFacts | Hidden
    hook: HookFacts | Hidden
    credentials: Mapping[str, CredentialFacts] | Hidden
    versions: Mapping[str, str | None] | Hidden
    writable: Mapping[str, str] | Hidden  # directory in the box -> why the agent can't write there, empty if it can


@dataclass(frozen=True)
class MountFacts:
    """One bind mount of a container, and what its source on the host is now."""

    source: str
    target: str
    kind: PathKind
    # Whether the box still sees this very source: one that was made anew on the host is dead in a running box.
    same: bool | None = None


@dataclass(frozen=True)
class StateFile:
    """A file or directory of the state directory and what it really is."""

    path: str
    wanted: PathKind
    kind: PathKind


@dataclass(frozen=True)
class HookSettings:
    """Hook settings of one agent: what Agentbox renders and what lies on the host."""

    agent: str
    path: str
    wanted: Mapping[str, Any]
    found: Any | None  # parsed JSON; None when there is no readable, valid file
    problem: str = ""


@dataclass(frozen=True)
class BoxFacts:
    expected: Expected
    inspect: Mapping[str, Any] | None  # answer of ``inspect``, None when there is no such container
    process: ProcessFacts | Hidden | None = None
    cgroup: CgroupFacts | Hidden | None = None
    probe: ProbeFacts | Hidden | None = None
    page: PageFacts | None = None
    workspace_kind: PathKind | None = None
    mounts: tuple[MountFacts, ...] = ()
    state_files: tuple[StateFile, ...] = ()
    hooks: tuple[HookSettings, ...] = ()
    ca_files: Mapping[str, frozenset[str] | None] = field(default_factory=dict)  # path in the box -> digests
