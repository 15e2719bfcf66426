"""The argument parser, made from the table of options and the table of commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import agentbox

from . import exits
from .exits import UsageError
from .options import ADDRESS, BOX, BUILD_NETWORK, INSTANCE, NO_CACHE, PORT, WORKSPACE, Option, suggestion

DEFAULT_COMMAND = "up"


@dataclass(frozen=True)
class Switch:
    """A flag of one command that has no variable and no key in the configuration file."""

    flag: str
    help: str
    metavar: str = ""  # empty: takes no value
    default: str | bool = False


@dataclass(frozen=True)
class Command:
    """One command of the program."""

    name: str
    help: str
    options: tuple[Option, ...]
    switches: tuple[Switch, ...] = ()
    operand: str = ""  # what it works on, one word without a flag


COMMANDS = (
    Command("up", "make the box run and attach to it (the default command)", (*BOX, *ADDRESS)),
    Command("shell", "open a shell in the box, beside the agent; starts a stopped box", (*BOX, *ADDRESS)),
    Command("rebuild", "build the image anew without cache, then do what `up` does", (*BOX, *ADDRESS)),
    Command(
        "doctor",
        "check engine, image, boxes and configuration; changes nothing",
        (*BOX, *ADDRESS),
        (Switch("--json", "print JSON"),),
    ),
    Command(
        "drift",
        "tell where the boxes differ from what they were made to be; changes nothing",
        (INSTANCE,),
        (Switch("--json", "print JSON"),),
    ),
    Command(
        "down",
        "remove the box; its volumes stay",
        ADDRESS,
        (Switch("--volumes", "remove the box's HOME volume too, with logins and conversations"),),
    ),
    Command("attach", "attach to the running box", ADDRESS),
    Command("ls", "list the boxes", (INSTANCE,), (Switch("--json", "print JSON"),)),
    Command(
        "logs",
        "show the box's log",
        ADDRESS,
        (
            Switch("--follow", "go on as the log grows"),
            Switch("--tail", "only the last N lines", metavar="N", default="all"),
        ),
    ),
    Command("stop", "stop the box; `up` starts it again", ADDRESS),
    Command(
        "export",
        "write the box's HOME and declaration into a file, without logins, secrets and workspace",
        ADDRESS,
        (
            Switch(
                "--output", "the file; by default <box>-<UTC time>.agentbox.tar.gz here", metavar="FILE", default=""
            ),
            Switch("--with-logins", "with the logins of agents: whoever has the file is logged in"),
            Switch("--with-secrets", "with the values of secrets"),
        ),
    ),
    Command(
        "import",
        "make a box from a file that `export` wrote, in this directory or --workspace, and start it",
        (WORKSPACE, PORT, BUILD_NETWORK, NO_CACHE, *ADDRESS),
        operand="FILE",
    ),
)
BY_NAME = {command.name: command for command in COMMANDS}


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse ``argv`` (without the program's name).

    Raises ``UsageError`` for a word that nothing is called, with the nearest one. Exits 0 for help and 2 for other
    wrong use, as argparse does.
    """
    words = _with_command(argv)
    if not words[0].startswith("-") and words[0] not in BY_NAME:
        raise UsageError(
            f"unknown command {words[0]}{suggestion(words[0], list(BY_NAME))}", "agentbox --help lists the commands"
        )
    parsed, unknown = _parser().parse_known_args(words)
    if unknown:
        flag = unknown[0].partition("=")[0]
        near = suggestion(flag, _flags(BY_NAME[parsed.command]))
        raise UsageError(
            f"{parsed.command}: unknown argument {flag}{near}", f"agentbox {parsed.command} --help lists the flags"
        )
    return parsed


def _flags(command: Command) -> list[str]:
    """Every flag of ``command``."""
    options = [flag for option in command.options for flag in (*option.flags, option.off) if flag]
    return [*options, *(switch.flag for switch in command.switches)]


def _with_command(argv: Sequence[str]) -> list[str]:
    """``argv`` with the default command in front when it starts with none."""
    if not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help", "--version")):
        return [DEFAULT_COMMAND, *argv]
    return list(argv)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentbox",
        description="Runs coding agents in hardened containers with a durable terminal.",
        epilog="Every option can also be set by environment and configuration file; a command's -h says how.\n\n"
        + exit_codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"agentbox {agentbox.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for command in COMMANDS:
        _add_command(commands, command)
    return parser


def _add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser], command: Command) -> None:
    parser = commands.add_parser(
        command.name,
        help=command.help,
        description=command.help[0].upper() + command.help[1:] + ".",
        epilog="A flag wins over the environment, the environment over ~/.config/agentbox/config.yml, that over the "
        "default. An empty variable counts as unset.",
        allow_abbrev=False,
    )
    for option in command.options:
        _add_option(parser, option)
    for switch in command.switches:
        _add_switch(parser, switch)
    if command.operand:
        parser.add_argument("operand", metavar=command.operand)


def _add_option(parser: argparse.ArgumentParser, option: Option) -> None:
    """Flags keep the text; it is parsed where environment and file are too, with the same messages."""
    text = f"{option.help}; environment {', '.join(option.variables)}; default: {option.shown(option.default)}"
    text = text.replace("%", "%%")
    if option.is_switch:
        parser.add_argument(*option.flags, dest=option.key, action="store_const", const="true", help=text)
        parser.add_argument(
            option.off, dest=option.key, action="store_const", const="false", help=f"opposite of {option.flags[0]}"
        )
    else:
        parser.add_argument(*option.flags, dest=option.key, metavar=option.metavar, help=text)


def _add_switch(parser: argparse.ArgumentParser, switch: Switch) -> None:
    if switch.metavar:
        parser.add_argument(switch.flag, metavar=switch.metavar, default=switch.default, help=switch.help)
    else:
        parser.add_argument(switch.flag, action="store_true", help=switch.help)


def exit_codes() -> str:
    """The exit codes as help and reference show them."""
    return "\n".join(["exit codes:", *(f"  {code:<4} {meaning}" for code, meaning in exits.MEANINGS.items())])
