"""Converging an instance's image: look, compare, and only then base, build, proof, tag, record.

The tag moves last: whatever fails before leaves the previous image in use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from . import _base, _build, _image_plan, _image_publish, _image_use, _image_verify, _registry, _sources, _trust
from ._base import Base
from ._build import Build, Builder, Built
from ._buildlog import BuildError
from ._engine import Engine
from ._errors import AgentboxError
from ._image_guard import check_room, locked
from ._image_plan import Inputs, Record
from ._image_read import read_files
from ._image_types import Action, Image, Request, Result, action
from ._manifests import LATEST, Agent, agents_label
from ._naming import LABEL_AGENTS, LABEL_BASE, LABEL_CONTEXT, LABEL_INSTANCE, LABEL_MANAGED
from ._progress import Report

_LATEST_FILE = "/latest"


def converge(engine: Engine | None, request: Request, *, check: bool, report: Report) -> Result:
    """Have the image as requested. ``engine`` None predicts for an engine that is yet to be installed."""
    if engine is None:
        _image_plan.machine(os.uname().machine)
        versions = {agent.name: agent.version for agent in request.agents}
        result = _predicted(request.name, None, Image(agents=versions), ["there is no image of that name"])
        return _image_publish.predicted(request, result)
    architecture = _image_plan.machine(str(engine.info().get("Architecture", "")))
    if check:
        result = _Convergence(engine, request, architecture, report).predict()
        return _image_publish.publish(engine, request, result, check=True, report=report)
    with locked(request, report):
        result = _Convergence(engine, request, architecture, report).apply()
        return _image_publish.publish(engine, request, result, check=False, report=report)


def restore(engine: Engine | None, request: Request, *, check: bool, report: Report) -> Result:
    """Put the image into use that was in use before, see ``_image_use.restore``."""
    if engine is None or check:
        return _image_use.restore(engine, request, check=check)
    with locked(request, report):
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
            unasked = [f"check mode does not ask whether there is a newer {name}" for name in self._asked()]
            return replace(self._unchanged(), warnings=unasked)
        check_room(self._engine, self._request, "a build")
        base_id = self._known_base_id()
        inputs = self._inputs(base_id, versions) if base_id and LATEST not in versions.values() else None
        after = Image(context=inputs.digest() if inputs else "", base=base_id or "", agents=versions)
        return _predicted(self._request.name, Image.of(self._live), after, reasons)

    def apply(self) -> Result:
        reasons, _ = self._reasons()
        if not reasons and not self._asked():
            return self._unchanged()
        check_room(self._engine, self._request, "a build")
        base, base_id = self._obtain_base()
        builder = _build.find_builder(self._engine, self._environ)
        versions, warnings = self._resolved_versions(builder, base)
        inputs = self._inputs(base_id, versions)
        reasons = reasons or _image_plan.reasons(self._live, inputs, self._record, no_cache=False)
        if not reasons:
            return replace(self._unchanged(), warnings=warnings)
        self._report(f"image: building {self._request.name}: {', '.join(reasons)}")
        built = builder.build(self._build(inputs, base, versions), self._report)
        self._verify(built.image_id, versions)
        record = self._new_record(built, base, versions, inputs)
        used = _image_use.put_into_use(self._engine, self._request, built.image_id, self._live, record)
        self._report(f"image: {self._request.name} is ready")
        after = Image.of(_image_use.live(self._engine, self._request.name))
        return Result(Image.of(self._live), after, [*self._actions(base, reasons), *used], warnings)

    def _reasons(self) -> tuple[list[str], dict[str, str]]:
        """Why a build is needed, and the versions as far as they are known without one."""
        versions = self._known_versions()
        base_id = self._known_base_id()
        inputs = self._inputs(base_id, versions) if base_id else None
        return _image_plan.reasons(self._live, inputs, self._record, self._request.no_cache), versions

    def _asked(self) -> list[str]:
        """Agents whose latest version is asked for although one is known."""
        anew = self._request.refresh or self._request.no_cache
        return [agent.name for agent in self._request.agents if anew and agent.version == LATEST]

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

    def _obtain_base(self) -> tuple[Base, str]:
        request = self._request
        own_registry = bool(request.repository) and _registry.same_host(request.base, request.repository)
        login = request.login if own_registry else _registry.NOBODY
        debian = self._sources.debian
        base, base_id = _base.obtain(self._engine, self._ways(), debian, self._environ, self._report, login=login)
        _base.require_apt(self._engine, base_id, base.reference)
        return base, base_id

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
        """Versions as numbers; what stands for ``latest`` is asked for if that is wanted or it was never known."""
        versions, warnings = self._known_versions(), []
        for agent in self._request.agents:
            if agent.name in self._asked() or versions[agent.name] == LATEST:
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
        image_id = builder.build(build, self._report).image_id
        try:
            found = read_files(self._engine, image_id, [_LATEST_FILE])
        finally:
            _image_use.discard(self._engine, image_id)
        if _LATEST_FILE not in found:
            raise BuildError(f"stage latest-{agent.name} left no {_LATEST_FILE}")
        return found[_LATEST_FILE].strip()

    def _build(self, inputs: Inputs, base: Base, versions: Mapping[str, str]) -> Build:
        return Build(
            inputs.dockerfile,
            inputs.files,
            arguments={**inputs.arguments, "BASE": base.reference},
            labels={
                **self._owner_labels(),
                LABEL_CONTEXT: inputs.digest(),
                LABEL_AGENTS: agents_label(versions),
                LABEL_BASE: inputs.base_id,
            },
            proxy=self._request.proxy,
            secrets=self._sources.secrets,
            network=self._request.network,
            no_cache=self._request.no_cache,
            snippet=self._request.snippet,
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

    def _new_record(self, built: Built, base: Base, versions: Mapping[str, str], inputs: Inputs) -> Record:
        return Record(
            name=self._request.name,
            context=inputs.digest(),
            base=base,
            base_id=inputs.base_id,
            agents=versions,
            inputs=inputs.fingerprints(),
            image_id=built.image_id,
            stages=tuple(built.stages),
        )

    def _unchanged(self) -> Result:
        image = Image.of(self._live)
        return Result(image, image)

    def _actions(self, base: Base, reasons: Sequence[str]) -> list[Action]:
        return [
            action("build", f"from {base.reference}: {', '.join(reasons)}"),
            action("verify", f"{len(self._request.agents)} agents, {len(self._request.commands)} programs"),
        ]


def _predicted(name: str, before: Image | None, after: Image, reasons: Sequence[str]) -> Result:
    return Result(before, after, [action("build", ", ".join(reasons)), action("tag", name)])
