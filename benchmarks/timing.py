"""Timing two ways to do one work, in turn, so that what a machine does besides slows both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Pair:
    """Seconds of each run of ours and of the peer, in order."""

    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def medians(self) -> tuple[float, float]:
        return statistics.median(self.ours), statistics.median(self.peer)

    @property
    def slower(self) -> float:
        """How many times the peer's time ours takes."""
        ours, peer = self.medians
        return ours / peer

    @property
    def faster(self) -> float:
        """How many times our time the peer takes."""
        return 1 / self.slower


@dataclass(frozen=True)
class Side:
    """One way to do the work. What is done ``before`` and ``after`` is not timed; ``after`` gets what ``work`` gave."""

    work: Callable[[], Any]
    before: Callable[[], object] = lambda: None
    after: Callable[[Any], object] = lambda _result: None

    def seconds(self) -> float:
        self.before()
        start = time.perf_counter()
        result = self.work()
        taken = time.perf_counter() - start
        self.after(result)
        return taken


def alternate(ours: Side, peer: Side, runs: int) -> Pair:
    """``runs`` of each, in turn.

    The first of each is a warm-up that does not count: it fills the caches of disk and bytecode.
    """
    found = [(ours.seconds(), peer.seconds()) for _ in range(runs + 1)][1:]
    return Pair(tuple(pair[0] for pair in found), tuple(pair[1] for pair in found))
