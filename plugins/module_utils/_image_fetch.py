"""Converging an image that another host has built: from a registry by its digest, or from an archive by its checksum.

The tag moves last, as it does after a build: only an image that says it is this instance's, fits the machine and runs
its programs gets it.
"""

from __future__ import annotations

import os

from . import _archive, _image_plan, _image_use, _image_verify, _registry
from ._engine import Engine
from ._errors import AgentboxError, DeclarationError
from ._image_guard import check_room, locked
from ._image_plan import Live, Record
from ._image_types import Image, Request, Result, action
from ._image_verify import VerificationError
from ._progress import Report

_VERBS = {"registry": "pull", "archive": "load"}
_AWAITED = "what the builder is yet to make"


def converge(engine: Engine | None, request: Request, *, check: bool, report: Report) -> Result:
    """Have the image as requested. ``engine`` None predicts for an engine that is yet to be installed."""
    if engine is None:
        _image_plan.machine(os.uname().machine)
        return _predicted(request, None, _AWAITED if request.awaited else _stated(request))
    architecture = _image_plan.machine(str(engine.info().get("Architecture", "")))
    if check:
        return _Fetch(engine, request, architecture, report).predict()
    with locked(request, report):
        return _Fetch(engine, request, architecture, report).apply()


def _stated(request: Request) -> str:
    """What is wanted, as far as it is known without an engine that could ask the registry."""
    if request.source == "archive":
        return _checksum(request)
    return _registry.pinned(request.repository, request.digest) if request.digest else request.repository


def _checksum(request: Request) -> str:
    if not request.checksum:
        raise DeclarationError("checksum: is empty, nobody has saved an archive yet; run the builder first")
    return request.checksum


def _predicted(request: Request, before: Live | None, wanted: str) -> Result:
    versions = {agent.name: agent.version for agent in request.agents}
    return Result(
        Image.of(before),
        Image(agents=versions),
        [action(_VERBS[request.source], wanted), action("tag", request.name)],
    )


class _Fetch:
    """One run over one image."""

    def __init__(self, engine: Engine, request: Request, architecture: str, report: Report) -> None:
        self._engine = engine
        self._request = request
        self._architecture = architecture
        self._report = report
        self._record = _image_use.read_record(request, request.name)
        self._live = _image_use.live(engine, request.name)
        _image_use.require_own(self._live, request.name)

    def predict(self) -> Result:
        wanted = _AWAITED if self._request.awaited else self._wanted()
        if self._live and self._is_current(self._live, wanted):
            return self._unchanged(self._live)
        check_room(self._engine, self._request, f"a {_VERBS[self._request.source]}")
        return _predicted(self._request, self._live, wanted)

    def apply(self) -> Result:
        request, wanted = self._request, self._wanted()
        if self._live and self._is_current(self._live, wanted):
            return self._unchanged(self._live)
        check_room(self._engine, request, f"a {_VERBS[request.source]}")
        self._report(f"image: {_VERBS[request.source]} {wanted}")
        image = self._get(wanted)
        used = _image_use.put_into_use(
            self._engine, request, image.image_id, self._live, self._new_record(image, wanted)
        )
        self._report(f"image: {request.name} is ready")
        actions = [
            action(_VERBS[request.source], wanted),
            action("verify", f"{len(request.agents)} agents, {len(request.commands)} programs"),
            *used,
        ]
        return Result(Image.of(self._live), Image.of(image), actions)

    def _wanted(self) -> str:
        """``repository@digest``, or the archive's checksum."""
        request = self._request
        if request.source == "archive":
            return _checksum(request)
        digest = request.digest or _registry.resolve(self._engine, request.repository, request.login)
        if not digest:
            raise _registry.RegistryError(
                f"there is no image {request.repository} in its registry", "Run the builder first"
            )
        return _registry.pinned(request.repository, digest)

    def _is_current(self, image: Live, wanted: str) -> bool:
        return wanted in image.digests or (self._record.origin == wanted and self._record.image_id == image.image_id)

    def _unchanged(self, image: Live) -> Result:
        self._require_fit(image)
        return Result(Image.of(image), Image.of(image))

    def _get(self, wanted: str) -> Live:
        """The image in the engine, verified and without a tag; nothing of it is left when it does not pass."""
        image_id = self._image_id(wanted)
        try:
            image = _image_use.live(self._engine, image_id)
            if image is None:
                raise VerificationError(f"image {image_id} vanished from the engine")
            self._require_fit(image)
            checks = _image_verify.checks(self._request.agents, image.agents, self._request.commands)
            _image_verify.run(self._engine, image_id, self._request.instance, checks, self._report)
        except AgentboxError:
            _image_use.discard(self._engine, image_id)
            raise
        return image

    def _image_id(self, wanted: str) -> str:
        request = self._request
        if request.source == "archive":
            if not request.archive:
                raise DeclarationError("archive: is needed, the image is not there yet")
            return _archive.load(self._engine, request.archive, wanted, self._report)
        _registry.pull(self._engine, wanted, request.login, lambda line: self._report(f"pull: {line}"))
        found = self._engine.inspect_image(wanted)
        if found is None:
            raise _registry.RegistryError(f"pull {wanted}: the engine has no image of that digest")
        return str(found["Id"])

    def _require_fit(self, image: Live) -> None:
        request = self._request
        if found := _image_plan.objections(image, request.instance, request.agents, self._architecture):
            raise VerificationError(
                f"the image that was built elsewhere is not what is declared here: {'; '.join(found)}; it was not put "
                "into use",
                "Let the builder build it from the same declaration",
            )

    def _new_record(self, image: Live, wanted: str) -> Record:
        return Record(
            name=self._request.name,
            context=image.context,
            base_id=image.base,
            agents=image.agents,
            image_id=image.image_id,
            origin=wanted,
        )
