"""The figures and the machine they come from, as a table."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentbox._shared import _engine

from .timing import Pair

_GIB = 1 << 30


@dataclass(frozen=True)
class Figure:
    """One row. ``least`` or ``most`` is its bar, in its ``unit``; one without a bar is only told."""

    work: str
    pair: Pair | None
    value: float
    unit: str
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    def as_dict(self) -> dict[str, Any]:
        seconds = self.pair and {"ours": self.pair.ours, "peer": self.pair.peer}
        return {
            "value": self.value,
            "unit": self.unit,
            "least": self.least,
            "most": self.most,
            "seconds": seconds,
        }

    def as_row(self) -> str:
        ours, peer = (f"{value:.2f} s" for value in self.pair.medians) if self.pair else ("", "")
        bar = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}" if self.most else ""
        told = f"{self.value:.3g} {self.unit}"
        return f"| {self.work} | {ours} | {peer} | {told if self.met else f'**{told}**'} | {bar} |"


def table(figures: Iterable[Figure]) -> str:
    """Markdown; what misses its bar is in bold."""
    return "\n".join(
        ["| work | Agentbox | peer | figure | bar |", "|---|---|---|---|---|", *(figure.as_row() for figure in figures)]
    )


def machine(runs: int) -> str:
    """One sentence about where, with what and how often was measured."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIB
    engine = _engine.identify()
    versions = ", ".join(
        (
            f"Python {platform.python_version()}",
            f"ansible-core {importlib.metadata.version('ansible-core')}",
            f"docker SDK {importlib.metadata.version('docker')}",
            f"engine {engine.version}",
        )
    )
    return (
        f"Median of {runs} runs in turn with the peer on {time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores "
        f"({_processor()}), {memory:.0f} GiB, {_system()}, kernel {platform.release()}; {versions}."
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _system() -> str:
    return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")


def write(figures: Iterable[Figure], sentence: str, directory: Path) -> None:
    """``results.md`` for people, ``results.json`` with every run's seconds."""
    told = list(figures)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "results.md").write_text(f"{table(told)}\n\n{sentence}\n", encoding="utf-8")
    rows = {figure.work: figure.as_dict() for figure in told}
    text = json.dumps({"where": sentence, "rows": rows}, indent=1)
    (directory / "results.json").write_text(text + "\n", encoding="utf-8")
