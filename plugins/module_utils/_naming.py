"""Names, paths and labels: everything that is derived from an instance and a box name.

Pure functions; the only place where these spellings stand.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from pathlib import PurePosixPath

DEFAULT_INSTANCE = "agentbox"
DEFAULT_BOX = "default"
NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,40}$"
_NAME = re.compile(NAME_PATTERN)
_MAX_NAME = 41
_DIGEST_CHARS = 8

TMUX_SOCKET = "agentbox"
TMUX_SESSION = "agentbox"
WINDOW_LEAD = "main"
WINDOW_OBSERVER = "observer"

BOX_USER = "agent"
BOX_GID = 0
BOX_HOME = "/home/agent"
BOX_MOUNT = "/agentbox"
BOX_RELAY = "/run/agentbox"
BOX_RUNTIME = "/dev/shm/agentbox"  # noqa: S108 - a path in the box
PAGE_PORT = 4317
HOOK_PORT = 4318
# What the hook sink is told beside the payload: the pane an agent runs in and, where a process is spawned, whose it is.
PANE_HEADER = "X-Agentbox-Pane"
PID_HEADER = "X-Agentbox-Pid"

LABEL_MANAGED = "agentbox.managed"
LABEL_INSTANCE = "agentbox.instance"
LABEL_BOX = "agentbox.box"
LABEL_SPEC = "agentbox.spec"
LABEL_SCHEMA = "agentbox.schema"
LABEL_YOLO = "agentbox.yolo"
LABEL_WORKSPACE = "agentbox.workspace"
LABEL_CONTEXT = "agentbox.context"
LABEL_AGENTS = "agentbox.agents"
LABEL_STATE_DIR = "agentbox.state_dir"
LABEL_BASE = "agentbox.base"  # of images
LABEL_UID = "agentbox.uid"  # of volumes: who they were made for
LABEL_MARK = "agentbox.mark"  # of volumes: which one of that name

# Below HOME; each is a volume shared by the boxes of one instance and uid.
CACHES = {"npm": ".npm", "pip": ".cache/pip", "cargo": ".cargo/registry"}


def is_name(value: str) -> bool:
    """Whether ``value`` may name an instance or a box."""
    return bool(_NAME.fullmatch(value))


def slug(text: str) -> str:
    """A valid, stable box name for any text, e.g. a directory's name.

    Text that is a valid name already stays as it is. Everything else gets a digest of the exact text, so that two
    texts which look alike after folding ("My Repo", "my-repo") never share a name.
    """
    if is_name(text):
        return text
    folded = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    readable = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_CHARS]
    head = readable[: _MAX_NAME - _DIGEST_CHARS - 1].strip("-") or "box"
    return f"{head}-{digest}"


def container_name(instance: str, box: str) -> str:
    """The instance's own name for box ``default``, else ``<instance>-<box>``."""
    return instance if box == DEFAULT_BOX else f"{instance}-{box}"


def attach_command(container: str) -> str:
    """What a person types to attach to a box without Agentbox."""
    return f"docker exec -it {container} bash {BOX_MOUNT}/attach.sh"


def home_volume(instance: str, box: str) -> str:
    return f"{instance}-{box}-home"


def cache_volume(instance: str, cache: str, uid: int) -> str:
    """One volume per uid: a cache that another uid can write is one it can poison."""
    return f"{instance}-cache-{cache}-{uid}"


def is_own_volume(instance: str, volume: str) -> bool:
    """Whether ``volume`` is or may become a HOME or a cache of ``instance``."""
    below = volume.removeprefix(f"{instance}-")
    return below != volume and (below.endswith("-home") or below.startswith("cache-"))


def network_name(instance: str) -> str:
    return instance


def image_tag(instance: str) -> str:
    return f"{instance}:latest"


def default_state_root(euid: int, environ: dict[str, str]) -> str:
    """``/var/lib/agentbox`` for root, else the XDG state directory."""
    if euid == 0:
        return "/var/lib/agentbox"
    base = environ.get("XDG_STATE_HOME") or PurePosixPath(environ.get("HOME", "/"), ".local/state")
    return str(PurePosixPath(base, "agentbox"))


@dataclass(frozen=True)
class BoxPaths:
    """Where the files of one box lie on its host. All absolute. Asked for fifty times per box, so plain text."""

    state_dir: str  # <state root>/<instance>
    box: str

    @property
    def directory(self) -> str:
        """Mode 0711; holds the record and the directories mounted into the box."""
        return f"{self.state_dir}/boxes/{self.box}"

    @property
    def record(self) -> str:
        """JSON without secrets, mode 0600."""
        return f"{self.directory}/record.json"

    @property
    def mount(self) -> str:
        """Mounted read-only at /agentbox: entry.sh, attach.sh, tmux.conf, box.json, passwd, secrets/."""
        return f"{self.directory}/mount"

    @property
    def passwd(self) -> str:
        return f"{self.mount}/passwd"

    @property
    def secrets(self) -> str:
        """One file per secret, mode 0400, owned by the box uid; the directory is 0500 of the box uid."""
        return f"{self.mount}/secrets"

    def agent_settings(self, agent: str) -> str:
        """Settings of an agent (hooks), mounted read-only where its manifest says."""
        return f"{self.directory}/{agent}"

    @property
    def relay(self) -> str:
        """Directory of the link's socket, mounted read-only at /run/agentbox; never re-created."""
        return f"{self.state_dir}/relay/{self.box}"


def state_dir(state_root: str, instance: str) -> str:
    return str(PurePosixPath(state_root, instance))


def lock_path(state_dir_: str) -> str:
    return str(PurePosixPath(state_dir_, "lock"))
