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
from pathlib import Path

from . import _base, _build, _image_plan, _image_use, _image_verify, _sources, _state, _trust
from ._base import Base
from ._build import Build, Builder
from ._engine import Engine
from ._errors import AgentboxError, EngineError, LockedError
from ._image_plan import Inputs, Record
from ._image_types import Action, Image, Request, Result, action
from ._manifests import LATEST, Agent
from ._naming import LABEL_AGENTS, LABEL_BASE, LABEL_CONTEXT, LABEL_INSTANCE, LABEL_MANAGED
from ._progress import Report

LOCK_SECONDS = 1800.0  # as long as another run's build may take
_LOCK_TURN = 8.0
_LATEST_FILE = "/latest"


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


def restore(engine: Engine | None, request: Request, *, check: bool, report: Report) -> Result:
    """Put the image into use that was in use before, see ``_image_use.restore``."""
    if engine is None or check:
        return _image_use.restore(engine, request, check=check)
    with _locked(request, report):
        return _image_use.restore(engine, request, check=False)


class _Convergence:
    """One run over one image: facts first, then a decision, then the work."""

    def __init__(self, engine: Engine, request: Request, architecture: str, report: Report) -> None:
        self._engine = engine
        self._request = request
        self._architecture = architecture
        self._report = report
        self._environ = {**request.environ, **request.proxy}
        self._record = _image_use.read_record(request, request.name)
        self._live = _image_use.live(engine, request.name)
        _image_use.require_own(self._live, request.name)
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
        return _predicted(self._request.name, Image.of(self._live), after, reasons)

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
        made = Image(image_id, inputs.digest(), base_id, versions)
        actions = [*self._actions(base, reasons), *self._put_into_use(made, base, inputs)]
        after = Image.of(_image_use.live(self._engine, self._request.name))
        return Result(Image.of(self._live), after, actions, warnings)

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
            _image_use.discard(self._engine, image_id)

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
                _image_use.discard(self._engine, image_id)
            raise

    def _put_into_use(self, image: Image, base: Base, inputs: Inputs) -> list[Action]:
        request = self._request
        record = Record(request.name, image.context, base, image.base, image.agents, inputs.fingerprints())
        actions = _image_use.put_into_use(self._engine, request, image.image_id, self._live, record)
        self._report(f"image: {request.name} is ready")
        return actions

    def _check_disk(self) -> None:
        check_disk(str(self._engine.info().get("DockerRootDir", "")), self._request.min_free)

    def _unchanged(self) -> Result:
        image = Image.of(self._live)
        return Result(image, image)

    def _actions(self, base: Base, reasons: Sequence[str]) -> list[Action]:
        return [
            action("build", f"from {base.reference}: {', '.join(reasons)}"),
            action("verify", f"{len(self._request.agents)} agents, {len(self._request.commands)} programs"),
        ]


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


def _predicted(name: str, before: Image | None, after: Image, reasons: Sequence[str]) -> Result:
    return Result(before, after, [action("build", ", ".join(reasons)), action("tag", name)])


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
