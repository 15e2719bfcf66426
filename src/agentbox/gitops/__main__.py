"""``python -m agentbox.gitops run`` converges this host.

The others are for pipelines: ``report`` writes a drift report, ``collections`` says where the collection lies.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agentbox._shared import _report
from agentbox._shared._errors import AgentboxError
from agentbox._shared._gitops import Places

from .playbook import write_report
from .run import run


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m agentbox.gitops", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="one run with the settings that role agentbox.fleet.gitops wrote")
    reporting = commands.add_parser("report", help="what callback agentbox.fleet.activity recorded, as a drift report")
    reporting.add_argument("activity", type=Path, metavar="FILE", help="what the callback wrote (AGENTBOX_ACTIVITY)")
    reporting.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    reporting.add_argument("--table", type=Path, metavar="FILE", help="write the report as a Markdown table")
    commands.add_parser("collections", help="print the folder for ANSIBLE_COLLECTIONS_PATH")
    arguments = parser.parse_args(argv)
    try:
        return COMMANDS[arguments.command](arguments)
    except (AgentboxError, OSError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def converge(_arguments: argparse.Namespace) -> int:
    code, line = run(Places())
    print(line, flush=True)  # noqa: T201
    return code


def collections(_arguments: argparse.Namespace) -> int:
    from agentbox.cli import collection  # a host that converges itself has no use for the command line program

    print(collection.collections_path())  # noqa: T201
    return 0


def report(arguments: argparse.Namespace) -> int:
    """Write the report where it is wanted, its sum to the output; 1 when the run that it tells of failed."""
    found = write_report(arguments.activity, arguments.json, arguments.table)
    print(f"{found['outcome']}: {_report.summary(found)}")  # noqa: T201
    return 1 if found["outcome"] == "failed" else 0


COMMANDS = {"run": converge, "report": report, "collections": collections}

if __name__ == "__main__":
    sys.exit(main())
