"""``python -m agentbox.gitops run`` converges this host; ``... report FILE`` writes a drift report for a pipeline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agentbox._shared import _report
from agentbox._shared._gitops import Places

from .run import run


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m agentbox.gitops", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="one run with the settings that role agentbox.fleet.gitops wrote")
    report = commands.add_parser("report", help="what callback agentbox.fleet.activity recorded, as a drift report")
    report.add_argument("activity", type=Path, metavar="FILE", help="what the callback wrote (AGENTBOX_ACTIVITY)")
    report.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    report.add_argument("--table", type=Path, metavar="FILE", help="write the report as a Markdown table")
    arguments = parser.parse_args(argv)
    if arguments.command == "run":
        code, line = run(Places())
        print(line, flush=True)  # noqa: T201
        return code
    return write_report(arguments.activity, arguments.json, arguments.table)


def write_report(activity: Path, as_json: Path | None, table: Path | None) -> int:
    """Write the report where it is wanted, its sum to the output; 1 when the run that it tells of failed."""
    with activity.open(encoding="utf-8", errors="replace") as lines:
        found = _report.report(_report.parse(lines))
    if as_json:
        as_json.write_text(_report.as_json(found), encoding="utf-8")
    if table:
        table.write_text(_report.table(found), encoding="utf-8")
    print(f"{found['outcome']}: {_report.summary(found)}")  # noqa: T201
    return 1 if found["outcome"] == "failed" else 0


if __name__ == "__main__":
    sys.exit(main())
