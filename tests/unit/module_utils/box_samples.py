"""Facts and declarations from which unit tests of boxes start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentbox._shared._acl import AclFacts
from agentbox._shared._box import Box, EngineFacts, ImageFacts, Setting, resolve
from agentbox._shared._host import Identity, Person, WorkspaceFacts
from agentbox._shared._payload import create_payload
from agentbox._shared._spec import BoxSpec, parse_boxes

GIB = 1 << 30
UID = 1234
STATE_DIR = "/state/abx"
WORKSPACE = "/srv/code/web"
CONTEXT = "sha256:" + "c" * 64
NO_LISTS: Mapping[int, int] = {}

MANIFESTS: dict[str, Any] = {
    "claude": {
        "name": "claude",
        "config": {"directory": ".claude", "variable": "CLAUDE_CONFIG_DIR"},
        "credentials": {"variables": ["ANTHROPIC_API_KEY"]},
        "environment": {"DISABLE_AUTOUPDATER": "1"},
        "launch": {"permission_modes": ["default", "plan"], "yolo": ["--yolo"]},
        "hooks": {
            "mechanism": "claude-managed-settings",
            "mount": "/etc/claude-code",
            "file": "managed-settings.d/50-agentbox.json",
            "timeout": 3,
            "http": ["Stop"],
            "command": [],
        },
    },
    "plain": {"name": "plain", "launch": {"argv": ["plain"]}},
}

SETTING = Setting(
    timezone="Europe/Berlin",
    instance="abx",
    state_dir=STATE_DIR,
    person=Person(home="/home/dev", uid=1000, euid=0),
    engine=EngineFacts(cpus=4, memory=8 * GIB, runtimes=("runc",)),
    manifests=MANIFESTS,
    files={"entry.sh": "", "attach.sh": "", "tmux.conf": "", "seccomp-strict.json": '{"defaultAction": "x"}'},
    proxy={},
    identity=Identity(),
    protected=(STATE_DIR, "/opt/agentbox"),
)
IMAGE = ImageFacts("abx:latest", "sha256:" + "1" * 64, CONTEXT, {"claude": "2.1.332"})


def spec(**declared: Any) -> BoxSpec:
    """A parsed declaration."""
    raw = {"name": "web", "workspace": WORKSPACE, **declared}
    return parse_boxes([raw], instance="abx", manifests=MANIFESTS)[0]


def workspace(owner: int | None = UID, **facts: Any) -> WorkspaceFacts:
    return replace(WorkspaceFacts(WORKSPACE, owner, owner is not None, AclFacts(True, {}, {})), **facts)


def box(*, setting: Setting = SETTING, facts: WorkspaceFacts | None = None, **declared: Any) -> Box:
    """A resolved box."""
    return resolve(spec(**declared), setting, facts or workspace())


def inspected(wanted: Box, context: str = CONTEXT, status: str = "running") -> dict[str, Any]:
    """What an engine tells of the container that was created for ``wanted``, in Docker 20.10's spelling."""
    payload = create_payload(wanted, context)
    host = payload["HostConfig"]
    return {
        "Id": "f" * 64,
        "Name": f"/{wanted.container}",
        "Image": IMAGE.id,
        "RestartCount": 0,
        "State": {"Status": status, "Running": status in ("running", "paused", "restarting"), "ExitCode": 0},
        "Config": {
            **{key: payload[key] for key in ("Image", "User", "WorkingDir", "Cmd", "Labels", "Healthcheck")},
            "Entrypoint": None,
            "Env": [*payload["Env"], "PATH=/usr/bin"],
        },
        "HostConfig": {
            **host,
            "CapAdd": None,
            "Devices": [],
            "DeviceRequests": host["DeviceRequests"] or None,
            "GroupAdd": None,
            "PidMode": "",
            "UTSMode": "",
            "UsernsMode": "",
            "RestartPolicy": {"Name": "unless-stopped", "MaximumRetryCount": 0},
            "PublishAllPorts": False,
            "Runtime": host.get("Runtime", "runc"),
        },
        "NetworkSettings": {"Networks": {name: {} for name in wanted.networks or ("none",)}},
    }
