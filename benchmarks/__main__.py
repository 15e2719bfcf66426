"""``python -m benchmarks [--runs N] [GROUP ...]``: measure, print the table, and write it to ``.cache/bench``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping

from . import bump, fleet, one_box, peer, report
from .commands import CACHE
from .report import Figure

RUNS = 5
GROUPS: Mapping[str, Callable[[int], Iterator[Figure]]] = {
    "unchanged": fleet.unchanged_figures,
    "create": fleet.create_figures,
    "box": one_box.figures,
    "image": bump.figures,
}


def main() -> int:
    """1 when a figure misses its bar."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each side; their median counts")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; by default all")
    arguments = parser.parse_args()
    unknown = set(arguments.groups) - set(GROUPS)
    if unknown:
        parser.error(f"there is no group {', '.join(sorted(unknown))}")
    peer.fetch()
    figures = []
    for name in arguments.groups or GROUPS:
        for figure in GROUPS[name](arguments.runs):
            print(figure.as_row(), file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for
            figures.append(figure)
    sentence = report.machine(arguments.runs)
    print(f"{report.table(figures)}\n\n{sentence}")  # noqa: T201
    report.write(figures, sentence, CACHE)
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
