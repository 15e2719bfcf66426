"""What is wanted of an image, and what a run over it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._archive import Archive
from ._image_plan import Live, previous_name
from ._manifests import Agent
from ._registry import NOBODY, Login

Action = Mapping[str, str]  # holds "action" and "detail"


@dataclass(frozen=True)
class Request:
    """What is wanted. ``environ`` is the environment of the host, whose settings a build takes over."""

    name: str
    instance: str
    state_dir: str
    dockerfile: str = ""
    snippet: str = ""  # the user's own lines in it
    files: Mapping[str, str] = field(default_factory=dict)
    agents: Sequence[Agent] = ()
    commands: Sequence[Sequence[str]] = ()
    base: str = "debian:bookworm-slim"
    base_source: str = "auto"
    build_args: Mapping[str, str] = field(default_factory=dict)
    network: str | None = None
    no_cache: bool = False
    refresh: bool = False  # ask anew what the latest versions are
    min_free: int = 0  # bytes
    ca_file: str | None = None
    keep: int = 1  # images that were in use before
    source: str = "build"  # or "registry", "archive"
    repository: str = ""  # with a tag; where a built image goes, or where an image comes from
    login: Login = NOBODY
    digest: str = ""  # of the image in the registry, empty for what the tag means there
    save: bool = False  # a built image as an archive
    archive: str = ""  # path of the archive that an image comes from
    checksum: str = ""  # of that archive
    awaited: bool = False  # another host is yet to make the image; concerns predictions only
    proxy: Mapping[str, str] = field(default_factory=dict, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def previous(self) -> str:
        """The tag of the image that was in use before."""
        return previous_name(self.name)

    @property
    def archive_path(self) -> str:
        """Where a built image is saved."""
        return f"{self.state_dir}/image-{_file_name(self.name)}.tar.gz"

    @property
    def archive_note(self) -> str:
        """Which image the archive holds."""
        return f"{self.archive_path}.json"

    def record_path(self, name: str) -> str:
        """Where the record of ``name`` or ``previous`` is."""
        return record_path(self.state_dir, name)


def record_path(state_dir: str, name: str) -> str:
    """Where what is known of a tag's image is; one record per tag."""
    return f"{state_dir}/image-{_file_name(name)}.json"


def _file_name(tag: str) -> str:
    return tag.replace("/", "_").replace(":", "_")


@dataclass(frozen=True)
class Image:
    """An image before or after a run; empty texts and 0 where it is not known yet."""

    image_id: str = ""
    context: str = ""
    base: str = ""
    agents: Mapping[str, str] = field(default_factory=dict)
    size: int = 0  # bytes
    digest: str = ""  # in the registry
    archive: Archive | None = None

    @classmethod
    def of(cls, live: Live | None) -> Image | None:
        """What the engine has, None for nothing."""
        return cls(live.image_id, live.context, live.base, live.agents, live.size) if live else None

    def shown(self) -> dict[str, Any]:
        """What a diff tells of it."""
        return {"context": self.context, "base": self.base, "agents": dict(self.agents)}


@dataclass(frozen=True)
class Result:
    """What a run did, or would do."""

    before: Image | None
    after: Image | None
    actions: Sequence[Action] = ()
    warnings: Sequence[str] = ()

    @property
    def changed(self) -> bool:
        return bool(self.actions)

    @property
    def superseded(self) -> str:
        """ID of the image that lost the tag in this run; empty when none did."""
        lost = self.before is not None and (self.after is None or self.before.image_id != self.after.image_id)
        return self.before.image_id if self.before and lost else ""


def action(kind: str, detail: str) -> Action:
    """One entry of ``Result.actions``."""
    return {"action": kind, "detail": detail}
