"""What boxes say about themselves when they are asked; nothing here changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agentbox._shared import _health_box, _health_gather, _health_working
from agentbox._shared._engine import Engine
from agentbox._shared._health import Check
from agentbox._shared._health_ask import probe_box
from agentbox._shared._health_facts import BoxFacts, Hidden, LeadFacts, ObserverFacts, SupervisorFacts

from .seen import SeenBox

_THREADS = 8


@dataclass(frozen=True)
class Report:
    """What a box does. ``lead`` is None when it does not say; ``troubles`` are checks that are not well."""

    lead: LeadFacts | None
    troubles: tuple[Check, ...] = ()


def is_ready(engine: Engine, box: SeenBox) -> bool:
    """Whether a running box says that it is healthy."""
    report = probe_box(engine, box.container)
    if isinstance(report, Hidden):
        return False
    ready = isinstance(report.supervisor, SupervisorFacts) and report.supervisor.state == "ready"
    return ready and isinstance(report.observer, ObserverFacts) and report.observer.page


def reports(engine: Engine, boxes: Sequence[SeenBox]) -> list[Report]:
    """What the agent of each box does, as the box says, and what is wrong with the box."""
    if not boxes:
        return []
    with ThreadPoolExecutor(min(_THREADS, len(boxes))) as pool:
        return list(pool.map(lambda box: _report(engine, box), boxes))


def _report(engine: Engine, box: SeenBox) -> Report:
    if box.adopted:
        return Report(LeadFacts(None, "none", None))
    facts = _health_gather.glance(engine, box.inspect, box.state_dir)
    return Report(_lead(facts), tuple(_health_box.troubles(facts)))


def _lead(facts: BoxFacts) -> LeadFacts | None:
    """What the lead does; None when the box runs and does not say."""
    if facts.probe is None:
        return LeadFacts(None, "none", None)
    if isinstance(facts.probe, Hidden) or isinstance(facts.probe.lead, Hidden):
        return None
    return _health_working.lead_now(facts.probe.lead, facts.probe.session)
