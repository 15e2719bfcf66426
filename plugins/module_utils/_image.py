"""Converging an instance's image: look, compare, and only then base, build, proof, tag, record.

The tag moves last: whatever fails before leaves the previous image in use.
"""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _base, _build, _image_plan, _image_verify, _sources, _state, _trust
from ._base import Base
from ._build import Build, Builder
from ._engine import Engine
from ._errors import AgentboxError, EngineError, LockedError
from ._image_plan import Inputs, Live, Record
from ._manifests import LATEST, Agent
from ._naming import LABEL_AGENTS, LABEL_BASE, LABEL_CONTEXT, LABEL_INSTANCE, LABEL_MANAGED
from ._progress import Report

LOCK_SECONDS = 1800.0  # as long as another run's build may take
_LOCK_TURN = 8.0
_LATEST_FILE = "/latest"


@dataclass(frozen=True)
class Request:
    """What is wanted. ``environ`` is the environment of the host, whose settings a build takes over."""

    name: str
    instance: str
    state_dir: str
    dockerfile: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    agents: Sequence[Agent] = ()
    commands: Sequence[Sequence[str]] = ()
    base: str = "debian:bookworm-slim"
    base_source: str = "auto"
    build_args: Mapping[str, str] = field(default_factory=dict)
    network: str | None = None
    no_cache: bool = False
    min_free: int = 0  # bytes
    ca_file: str | None = None
    proxy: Mapping[str, str] = field(default_factory=dict, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def record_path(self) -> str:
        """One record per tag."""
        return f"{self.state_dir}/image-{self.name.replace('/', '_').replace(':', '_')}.json"


@dataclass(frozen=True)
class Image:
    """An image before or after a run; empty texts where it is not known yet."""

    image_id: str = ""
    context: str = ""
    base: str = ""
    agents: Mapping[str, str] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        return {"context": self.context, "base": self.base, "agents": dict(self.agents)}


@dataclass(frozen=True)
class Result:
    """What a run did, or would do. Each action holds ``action`` and ``detail``."""

    before: Image | None
    after: Image | None
    actions: Sequence[Mapping[str, str]] = ()
    warnings: Sequence[str] = ()

    @property
    def changed(self) -> bool:
        return bool(self.actions)


def converge(engine: Engine | None, request: Request, *, check: bool, report: Report) -> Result:
    """Have the image as requested. ``engine`` None predicts for an engine that is yet to be installed."""
    if engine is None:
        _image_plan.machine(os.uname().machine)
        versions = {agent.name: agent.version for agent in request.agents}
        return _predicted(request.name, None, Image(agents=versions), ["there is no image of that name"])
    architecture = _image_plan.machine(str(engine.info().get("Architecture", "")))
    if check:
        return _Convergence(engine, request, architecture, report).predict()
    with _locked(request, report):
        return _Convergence(engine, request, architecture, report).apply()


def remove(engine: Engine | None, request: Request, *, check: bool) -> Result:
    """Remove the image of this instance with its record; an image of another maker is left alone."""
    live = _live(engine, request.name) if engine else None
    if engine is None or live is None:
        return Result(None, None)
    before = _as_image(live)
    if live.instance != request.instance:
        warning = f"image {request.name} was not made by instance {request.instance} and is left alone"
        return Result(before, before, warnings=[warning])
    if not check:
        with engine.doing(f"remove image {request.name}"):
            engine.client.remove_image(request.name)
        if Path(request.state_dir).is_dir():
            _state.remove_file(request.record_path)
    return Result(before, None, [_action("remove", request.name)])


class _Convergence:
    """One run over one image: facts first, then a decision, then the work."""

    def __init__(self, engine: Engine, request: Request, architecture: str, report: Report) -> None:
        self._engine = engine
        self._request = request
        self._architecture = architecture
        self._report = report
        self._environ = {**request.environ, **request.proxy}
        self._record = Record.from_json(_state.read_json(request.record_path))
        self._live = _live(engine, request.name)
        self._sources = _sources.read(_base.suite_of(request.base), request.environ)
        self._files = {
            **request.files,
            "host/ca-bundle.crt": _trust.read_bundle(request.ca_file, request.environ),
            "host/apt.list": self._sources.apt,
        }

    def predict(self) -> Result:
        reasons, versions = self._reasons()
        if not reasons:
            return self._unchanged()
        self._check_disk()
        base_id = self._known_base_id()
        inputs = self._inputs(base_id, versions) if base_id and LATEST not in versions.values() else None
        after = Image(context=inputs.digest() if inputs else "", base=base_id or "", agents=versions)
        return _predicted(self._request.name, _as_image(self._live), after, reasons)

    def apply(self) -> Result:
        reasons, _ = self._reasons()
        if not reasons:
            return self._unchanged()
        self._check_disk()
        self._report(f"image: building {self._request.name}: {', '.join(reasons)}")
        base, base_id = _base.obtain(self._engine, self._ways(), self._sources.debian, self._environ, self._report)
        builder = _build.find_builder(self._engine, self._environ)
        versions, warnings = self._resolved_versions(builder, base)
        inputs = self._inputs(base_id, versions)
        image_id = builder.build(self._build(inputs, base, versions), self._report)
        self._verify(image_id, versions)
        after = Image(image_id, inputs.digest(), base_id, versions)
        self._put_into_use(after, base, inputs)
        return Result(_as_image(self._live), after, self._actions(base, reasons, image_id), warnings)

    def _reasons(self) -> tuple[list[str], dict[str, str]]:
        """Why a build is needed, and the versions as far as they are known without one."""
        versions = self._known_versions()
        base_id = self._known_base_id()
        inputs = self._inputs(base_id, versions) if base_id else None
        return _image_plan.reasons(self._live, inputs, self._record, self._request.no_cache), versions

    def _known_versions(self) -> dict[str, str]:
        recorded = {**(self._live.agents if self._live else {}), **(self._record.agents or {})}
        return {
            agent.name: agent.version if agent.version != LATEST else recorded.get(agent.name, LATEST)
            for agent in self._request.agents
        }

    def _ways(self) -> list[Base]:
        request, recorded = self._request, self._record.base
        present = {recorded.reference} if recorded and self._engine.inspect_image(recorded.reference) else set()
        return _base.ways(request.base, request.base_source, recorded, present)

    def _known_base_id(self) -> str | None:
        """The base that a build would start from, None when it has to be had first.

        A recorded base that somebody removed from the engine is no reason to build an image that stands.
        """
        ways = self._ways()
        image = self._engine.inspect_image(ways[0].reference)
        if image is not None:
            return str(image["Id"])
        return self._record.base_id if self._record.base in ways else None

    def _inputs(self, base_id: str, versions: Mapping[str, str]) -> Inputs:
        arguments = {**self._request.build_args, **self._sources.arguments}
        arguments |= {agent.build_argument: versions[agent.name] for agent in self._request.agents}
        return Inputs(self._request.dockerfile, self._files, arguments, base_id, self._architecture)

    def _resolved_versions(self, builder: Builder, base: Base) -> tuple[dict[str, str], list[str]]:
        """Versions as numbers; what stands for ``latest`` is asked for on a rebuild or when it was never known."""
        versions, warnings = self._known_versions(), []
        for agent in self._request.agents:
            if agent.version == LATEST and (self._request.no_cache or versions[agent.name] == LATEST):
                try:
                    versions[agent.name] = self._latest(builder, base, agent)
                except AgentboxError as error:
                    if versions[agent.name] == LATEST:
                        raise
                    warnings.append(
                        f"{agent.name} stays at {versions[agent.name]}, its latest version is unknown: {error}"
                    )
        return versions, warnings

    def _latest(self, builder: Builder, base: Base, agent: Agent) -> str:
        self._report(f"image: asking for the latest version of {agent.name}")
        arguments = {**self._request.build_args, **self._sources.arguments, "BASE": base.reference}
        build = Build(
            self._request.dockerfile,
            self._files,
            arguments={**arguments, "ASKED": f"{time.time():.0f}"},
            labels=self._owner_labels(),
            proxy=self._request.proxy,
            secrets=self._sources.secrets,
            network=self._request.network,
            target=f"latest-{agent.name}",
        )
        image_id = builder.build(build, self._report)
        try:
            return _read_from_image(self._engine, image_id, _LATEST_FILE)
        finally:
            _discard(self._engine, image_id)

    def _build(self, inputs: Inputs, base: Base, versions: Mapping[str, str]) -> Build:
        return Build(
            inputs.dockerfile,
            inputs.files,
            arguments={**inputs.arguments, "BASE": base.reference},
            labels={
                **self._owner_labels(),
                LABEL_CONTEXT: inputs.digest(),
                LABEL_AGENTS: _image_plan.agents_label(versions),
                LABEL_BASE: inputs.base_id,
            },
            proxy=self._request.proxy,
            secrets=self._sources.secrets,
            network=self._request.network,
            no_cache=self._request.no_cache,
        )

    def _owner_labels(self) -> dict[str, str]:
        return {LABEL_MANAGED: "true", LABEL_INSTANCE: self._request.instance}

    def _verify(self, image_id: str, versions: Mapping[str, str]) -> None:
        checks = _image_verify.checks(self._request.agents, versions, self._request.commands)
        try:
            _image_verify.run(self._engine, image_id, self._request.instance, checks, self._report)
        except AgentboxError:
            if self._live is None or self._live.image_id != image_id:
                _discard(self._engine, image_id)
            raise

    def _put_into_use(self, image: Image, base: Base, inputs: Inputs) -> None:
        request = self._request
        repository, _, tag = request.name.rpartition(":")
        with self._engine.doing(f"tag {request.name}"):
            self._engine.client.tag(image.image_id, repository, tag, force=True)
        record = Record(request.name, image.context, base, image.base, image.agents, inputs.fingerprints())
        _state.write_file(_state.json_file(request.record_path, record.as_json(), 0o600))
        _prune(self._engine, request.instance)
        self._report(f"image: {request.name} is ready")

    def _check_disk(self) -> None:
        check_disk(str(self._engine.info().get("DockerRootDir", "")), self._request.min_free)

    def _unchanged(self) -> Result:
        image = _as_image(self._live)
        return Result(image, image)

    def _actions(self, base: Base, reasons: Sequence[str], image_id: str) -> list[dict[str, str]]:
        actions = [
            _action("build", f"from {base.reference}: {', '.join(reasons)}"),
            _action("verify", f"{len(self._request.agents)} agents, {len(self._request.commands)} programs"),
            _action("tag", self._request.name),
        ]
        superseded = self._live is not None and self._live.image_id != image_id
        return [*actions, _action("prune", "the image before")] if superseded else actions


def check_disk(data_root: str, min_free: int) -> None:
    """Refuse to build on a disk that is too full; a data root that can't be seen from here is not judged."""
    place = Path(data_root or "/nonexistent")
    if not place.is_dir():
        return
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    if free < min_free:
        raise EngineError(
            f"{place} has {_gib(free)} free, a build needs {_gib(min_free)} (min_free)",
            "Free space there, e.g. `docker system prune`, or move the engine's data root",
        )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


@contextmanager
def _locked(request: Request, report: Report) -> Iterator[None]:
    """The instance's lock; says who holds it while waiting."""
    _state.ensure_directory(_state.instance_directory(request.state_dir))
    deadline = time.monotonic() + LOCK_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(_state.locked(request.state_dir, "build the image", _LOCK_TURN))
                break
            except LockedError as error:
                if time.monotonic() >= deadline:
                    raise
                report(f"image: {error.message}")
        yield


def _live(engine: Engine, name: str) -> Live | None:
    return Live.from_inspect(engine.inspect_image(name))


def _as_image(live: Live | None) -> Image | None:
    return Image(live.image_id, live.context, live.base, live.agents) if live else None


def _action(action: str, detail: str) -> dict[str, str]:
    return {"action": action, "detail": detail}


def _predicted(name: str, before: Image | None, after: Image, reasons: Sequence[str]) -> Result:
    return Result(before, after, [_action("build", ", ".join(reasons)), _action("tag", name)])


def _read_from_image(engine: Engine, image_id: str, path: str) -> str:
    """Content of a small file of an image, without running anything in it."""
    with engine.doing(f"read {path} of a new image"):
        container = engine.client.create_container(image_id, command=["true"])["Id"]
        try:
            chunks, _ = engine.client.get_archive(container, path)
            archive = io.BytesIO(b"".join(chunks))
        finally:
            engine.client.remove_container(container, force=True, v=True)
    with tarfile.open(fileobj=archive) as tar:
        stream = tar.extractfile(tar.next() or tarfile.TarInfo())
        return stream.read().decode().strip() if stream else ""


def _discard(engine: Engine, image_id: str) -> None:
    """Remove an untagged image; ``noprune`` keeps what later builds find in the cache. One that is in use stays."""
    import docker.errors

    with engine.doing(f"remove image {image_id}"):
        try:
            engine.client.remove_image(image_id, noprune=True)
        except docker.errors.APIError as error:
            if error.status_code not in (404, 409):
                raise


def _prune(engine: Engine, instance: str) -> None:
    """Remove this instance's images that lost their tag and that no container uses."""
    labels = [f"{LABEL_MANAGED}=true", f"{LABEL_INSTANCE}={instance}"]
    with engine.doing("look for superseded images"):
        images = engine.client.images(filters={"dangling": True, "label": labels})
    for image in images:
        _discard(engine, image["Id"])
