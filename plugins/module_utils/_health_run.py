"""One examination of a host and its boxes, and waiting until what is starting has started."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._engine import connect
from ._errors import EngineError
from ._health import Check, settled
from ._health_box import box_checks, unreachable_box_checks
from ._health_expected import Capacity, expected_from_spec
from ._health_facts import EngineFailure, HostFacts
from ._health_gather import (
    Request,
    engine_facts,
    engine_failure,
    expected_boxes,
    gather_boxes,
    gather_host,
    gather_images,
)
from ._health_gitops import gather_gitops, gitops_checks
from ._health_host import host_checks, unreachable
from ._progress import Report

_FIRST_PAUSE = 1.0  # seconds between two looks while waiting; doubles up to the longest
_LONGEST_PAUSE = 5.0


@dataclass(frozen=True)
class Examination:
    """How to look, and what is only shown: ``configuration`` maps a key to ``value`` and ``source``."""

    request: Request
    docker_host: str | None
    configuration: Mapping[str, Mapping[str, Any]]
    image_context: str | None  # digest the image should have been built from
    predicting: bool  # what is missing would be made by the run this is part of


@dataclass(frozen=True)
class Findings:
    """The checklist, the boxes' part by name."""

    host: list[Check]
    boxes: Mapping[str, list[Check]] = field(default_factory=dict)

    @property
    def checks(self) -> list[Check]:
        return [*self.host, *(check for checks in self.boxes.values() for check in checks)]

    @property
    def unsettled(self) -> list[str]:
        """Names of boxes that time may still cure."""
        return [name for name, checks in self.boxes.items() if not settled(checks)]


def examine(examination: Examination, known: Mapping[str, list[Check]] | None = None) -> Findings:
    """Look at everything once. Boxes in ``known`` are not asked again, their checks are taken from it."""
    request = examination.request
    try:
        engine = connect(examination.docker_host, request.environ)
    except EngineError as error:
        return _without_engine(examination, engine_failure(error))
    try:
        facts = engine_facts(engine)
        boxes = expected_boxes(engine, request, facts.info)
        host = gather_host(facts, request, gather_images(engine, request, boxes))
        kept = known or {}
        found = gather_boxes(engine, [box for box in boxes if box.name not in kept], request)
    except EngineError as error:
        return _without_engine(examination, engine_failure(error))
    finally:
        engine.close()
    socket = facts.host.removeprefix("unix://")
    fresh = {box.expected.name: box_checks(box, host, socket, examination.predicting) for box in found}
    return Findings(_host_part(examination, host), {box.name: fresh.get(box.name) or kept[box.name] for box in boxes})


def _host_part(examination: Examination, host: HostFacts) -> list[Check]:
    checks = host_checks(
        host,
        examination.configuration,
        examination.image_context,
        examination.predicting,
    )
    return [*checks, *gitops_checks(gather_gitops(), host.now)]


def _without_engine(examination: Examination, failure: EngineFailure) -> Findings:
    request = examination.request
    reason = unreachable(failure)
    boxes = [expected_from_spec(spec, request.instance, request.manifests, Capacity()) for spec in request.specs or ()]
    return Findings(
        _host_part(examination, gather_host(failure, request, ())),
        {box.name: unreachable_box_checks(box, reason) for box in boxes},
    )


def wait_until_settled(
    look: Callable[[Mapping[str, list[Check]]], Findings],
    seconds: float,
    report: Report,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Findings:
    """Look again and again until waiting can change nothing, or ``seconds`` have passed; the last findings.

    ``look`` gets the checks of the boxes that need no further look.
    """
    start, pause = clock(), _FIRST_PAUSE
    findings = look({})
    while findings.unsettled and (left := seconds - (clock() - start)) > 0:
        report(_progress(findings, clock() - start, seconds))
        sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE)
        unsettled = findings.unsettled
        findings = look({name: checks for name, checks in findings.boxes.items() if name not in unsettled})
    return findings


def _progress(findings: Findings, passed: float, seconds: float) -> str:
    waiting = "; ".join(f"{name} ({_reason(findings.boxes[name])})" for name in findings.unsettled)
    return f"waiting for {waiting}, {passed:.0f} s of at most {seconds:.0f} s"


def _reason(checks: list[Check]) -> str:
    """The first thing that still settles: the checklist goes from causes to consequences."""
    first = next(check for check in checks if check.settling and check.verdict in ("fail", "unknown"))
    return f"{first.id}: {first.seen}"
