"""Write the reference pages docs/boxes.md and docs/cli.md from the tables that the program itself reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from agentbox._shared._options import OPTIONS
from agentbox.cli import exits
from agentbox.cli.arguments import COMMANDS
from agentbox.cli.options import TABLE

DOCS = Path(__file__).resolve().parent.parent / "docs"
GENERATED = "<!-- Written by tools/reference.py (make reference) from the tables that the program reads. -->"


def pages() -> dict[Path, str]:
    """Every generated page and its text."""
    return {DOCS / "boxes.md": boxes(), DOCS / "cli.md": cli()}


def boxes() -> str:
    rows = [
        (f"`{option.name}`", kind(option.kind, option.choices), default(option.default), plain(option.description))
        for option in OPTIONS
    ]
    return "\n".join(
        [
            GENERATED,
            "# The declaration of a box",
            "",
            "`agentbox_boxes` is a list; each item declares one box. Unknown keys, wrong types and duplicates are",
            "errors that name the path of the key. `secrets` is a mapping of names to values in the inventory (from a",
            "vault); the values are split off before anything is logged.",
            "",
            *table(("key", "type", "default", "meaning"), rows),
            "",
        ]
    )


def cli() -> str:
    commands = [(f"`agentbox {command.name}`", cell(command.help)) for command in COMMANDS]
    options = [
        (
            ", ".join(f"`{flag}`" for flag in (*option.flags, option.off) if flag),
            ", ".join(f"`{variable}`" for variable in option.variables),
            f"`{option.key}`",
            cell(option.shown(option.default)),
            cell(option.help),
        )
        for option in TABLE
    ]
    switches = [
        (f"`agentbox {command.name}`", f"`{switch.flag}`", cell(switch.help))
        for command in COMMANDS
        for switch in command.switches
    ]
    codes = [(f"{code}", cell(meaning)) for code, meaning in exits.MEANINGS.items()]
    return "\n".join(
        [
            GENERATED,
            "# The command line",
            "",
            *table(("command", "what it does"), commands),
            "",
            "## Options",
            "",
            "A flag wins over the environment (variables in the order given; an empty one counts as unset), that",
            "over `~/.config/agentbox/config.yml`, that over the default. `agentbox doctor` shows where each is from.",
            "",
            *table(("flag", "environment", "file", "default", "meaning"), options),
            "",
            "Flags of single commands:",
            "",
            *table(("command", "flag", "meaning"), switches),
            "",
            "## Exit codes",
            "",
            *table(("code", "meaning"), codes),
            "",
        ]
    )


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = (head, tuple("---" for _ in head), *rows)
    return [f"| {' | '.join(line)} |" for line in lines]


def kind(name: str, choices: tuple[str, ...]) -> str:
    return " \\| ".join(f"`{choice}`" for choice in choices) if choices else name


def default(value: object) -> str:
    if value is None:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def plain(text: str) -> str:
    """Ansible's semantic markup as Markdown."""
    return cell(re.sub(r"[CVO]\(([^)]*)\)", r"`\1`", text))


def cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
