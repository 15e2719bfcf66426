"""Boxes as they were seen on a real engine, to be changed by one thing per test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentbox._shared._health_facts import (
    BoxFacts,
    CgroupFacts,
    CredentialFacts,
    EngineFacts,
    Expected,
    HookFacts,
    HostFacts,
    ImageFacts,
    LeadFacts,
    Limits,
    ObserverFacts,
    Pane,
    ProbeFacts,
    ProcessFacts,
    SessionFacts,
    SupervisorFacts,
)

SOCKET = "/var/run/docker.sock"
IMAGE_ID = "sha256:c543255b40ed12e0b6624e70e4b762eba4ab92b19a60c02293e7b7e527778d4a"
CONTAINER_ID = "d5cd123cc3481241758328c14443b7245c9bdd0f9b986d37bb787b7c2c9911b6"
LIMITS = Limits(memory=268435456, memory_swap=268435456, pids=100, cpus=1.0)
MANIFEST = {
    "title": "Claude Code",
    "package": {"version": "2.1.332"},
    "credentials": {"login": "claude auth login"},
}
EXPECTED = Expected(
    name="web",
    container="agentbox-web",
    state="started",
    image="agentbox:latest",
    workspace="/srv/code/web",
    lead="claude",
    agents=("claude",),
    limits=LIMITS,
    manifests={"claude": MANIFEST},
)
PROCESS = ProcessFacts(
    uids=(1000, 1000, 1000, 1000), effective=0, permitted=0, bounding=0, no_new_privileges=True, seccomp=2
)
CGROUP = CgroupFacts(version=1, limits=LIMITS, oom_kills=0, pids_refused=0, pids_current=12)
PROBE = ProbeFacts(
    supervisor=SupervisorFacts("ready", ""),
    session=SessionFacts(
        ("main", "observer"),
        (Pane("main", "%0", False, None, "claude"), Pane("observer", "%1", False, None, "python")),
    ),
    observer=ObserverFacts(page=True, hooks=True, reason=""),
    lead=LeadFacts("claude", "running", None),
    hook=HookFacts(ok=True, seconds=0.02, reason=""),
    credentials={"claude": CredentialFacts(True, "secret")},
    versions={"claude": "2.1.332", "tmux": "3.3a"},
    writable={"/workspace": "", "/home/agent": ""},
)
HOST = HostFacts(
    engine=EngineFacts(f"unix://{SOCKET}", "1.41", "20.10.24", False, {}),
    now=1_796_000_000.0,
    images=(ImageFacts("agentbox:latest", {"Id": IMAGE_ID}),),
    ca_digests=frozenset({"a", "b"}),
)


def inspect(
    host: Mapping[str, Any] | None = None, config: Mapping[str, Any] | None = None, **state: Any
) -> dict[str, Any]:
    """The answer of ``inspect`` for a running box; ``host`` and ``config`` are laid over HostConfig and Config."""
    return {
        "Id": CONTAINER_ID,
        "Name": "/agentbox-web",
        "Image": IMAGE_ID,
        "RestartCount": 0,
        "State": {
            "Status": "running",
            "Pid": 15092,
            "ExitCode": 0,
            "OOMKilled": False,
            "Error": "",
            "Health": {"Status": "healthy", "Log": []},
            **state,
        },
        "HostConfig": {
            "NetworkMode": "agentbox",
            "PortBindings": {},
            "CapAdd": None,
            "CapDrop": ["ALL"],
            "IpcMode": "private",
            "PidMode": "",
            "UTSMode": "",
            "UsernsMode": "",
            "Privileged": False,
            "SecurityOpt": ["no-new-privileges"],
            "Runtime": "runc",
            "Memory": 268435456,
            "MemorySwap": 268435456,
            "NanoCpus": 1000000000,
            "CpuQuota": 0,
            "CpuPeriod": 0,
            "PidsLimit": 100,
            "Devices": [],
            **(host or {}),
        },
        "Config": {
            "User": "1000:0",
            "Image": "agentbox:latest",
            "Env": ["PATH=/usr/bin:/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
            "Labels": {"agentbox.instance": "agentbox", "agentbox.box": "web", "agentbox.workspace": "/srv/code/web"},
            **(config or {}),
        },
        "Mounts": [{"Type": "bind", "Source": "/srv/code/web", "Destination": "/workspace"}],
    }


def box(**changed: Any) -> BoxFacts:
    """A healthy box with some facts changed."""
    healthy = BoxFacts(
        expected=EXPECTED,
        inspect=inspect(),
        process=PROCESS,
        cgroup=CGROUP,
        probe=PROBE,
        workspace_kind="directory",
        ca_files={"/etc/ssl/certs/ca-certificates.crt": frozenset({"a", "b"})},
    )
    return replace(healthy, **changed)


def expected(**changed: Any) -> Expected:
    return replace(EXPECTED, **changed)


def probe(**changed: Any) -> ProbeFacts:
    return replace(PROBE, **changed)
