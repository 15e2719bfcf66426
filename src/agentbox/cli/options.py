"""The one table of options; flags, environment, configuration file, help and reference are made from it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentbox._shared import _naming

from . import values
from .exits import UsageError

PREFIX = "AGENTBOX_"
DEFAULT = "default"  # the source of what nobody set


@dataclass(frozen=True)
class Option:
    """One thing a user can set.

    ``key`` names it in the configuration file. ``flags`` and ``variables`` stand in order of precedence;
    ``off`` is the flag that sets a switch to false. ``default`` None means: left to what the box declares.
    """

    key: str
    flags: tuple[str, ...]
    variables: tuple[str, ...]
    parse: Callable[[str], Any]
    help: str
    metavar: str = ""
    default: Any = None
    default_text: str = ""
    off: str = ""

    @property
    def is_switch(self) -> bool:
        return self.parse is values.switch

    def shown(self, value: Any) -> str:
        """A value as people read it."""
        if self.is_switch:
            return "on" if value else "off"
        return self.default_text if value is None else str(value)


NAME = Option(
    "name", ("--name",), ("AGENTBOX_NAME",), values.name, "which box", "NAME", _naming.DEFAULT_BOX
)  # fmt: skip
INSTANCE = Option(
    "instance",
    ("--instance",),
    ("AGENTBOX_INSTANCE",),
    values.name,
    "which set of boxes on this engine",
    "NAME",
    _naming.DEFAULT_INSTANCE,
)
WORKSPACE = Option(
    "workspace",
    ("--workspace",),
    ("AGENTBOX_WORKSPACE", "WORKSPACE"),
    values.path,
    "directory the agent works in",
    "PATH",
    default_text="the current directory; in Agentbox's own clone ~/agentbox-workspace",
)
MEMORY = Option(
    "memory", ("--memory",), ("AGENTBOX_MEMORY", "MEM"), values.memory, "memory limit of the box", "SIZE", "4g"
)
CPUS = Option(
    "cpus", ("--cpus",), ("AGENTBOX_CPUS", "CPUS"), values.cpus, "processors the box may use", "N", 4
)  # fmt: skip
PORT = Option(
    "port",
    ("--port",),
    ("AGENTBOX_PORT",),
    values.port,
    "port of the box's page on 127.0.0.1",
    "N",
    default_text=f"{_naming.PAGE_PORT} for the default box, none for others",
)
BUILD_NETWORK = Option(
    "build_network",
    ("--build-network", "--network"),
    ("AGENTBOX_BUILD_NETWORK", "DOCKER_NETWORK"),
    values.word,
    "network of the image's build, for example host",
    "MODE",
    default_text="the engine's own",
)
GPUS = Option(
    "gpus", ("--gpus",), ("AGENTBOX_GPUS",), values.gpus, "GPUs the box may use, for example all", "GPUS", "none"
)
YOLO = Option(
    "yolo",
    ("--yolo",),
    ("AGENTBOX_YOLO",),
    values.switch,
    "let the agent act without asking",
    default=False,
    off="--no-yolo",
)
NO_CACHE = Option(
    "no_cache",
    ("--no-cache",),
    ("AGENTBOX_NO_CACHE",),
    values.switch,
    "build the image without the engine's build cache",
    default=False,
    off="--cache",
)
AGENT = Option(
    "agent", ("--agent",), ("AGENTBOX_AGENT",), values.name, "the agent that leads the box, or none", "NAME", "claude"
)

ADDRESS = (NAME, INSTANCE)
BOX = (WORKSPACE, MEMORY, CPUS, PORT, BUILD_NETWORK, GPUS, YOLO, NO_CACHE, AGENT)
TABLE = (*BOX, *ADDRESS)


@dataclass(frozen=True)
class Setting:
    """A resolved value and where it came from."""

    value: Any
    source: str

    @property
    def asked(self) -> bool:
        """Whether somebody set it."""
        return self.source != DEFAULT


class Settings:
    """Resolved options, addressed by the option itself."""

    def __init__(self, settings: Mapping[Option, Setting]) -> None:
        self._settings = dict(settings)

    def __getitem__(self, option: Option) -> Any:
        return self._settings[option].value

    def setting(self, option: Option) -> Setting:
        return self._settings[option]

    def having(self, option: Option, value: Any, source: str) -> Settings:
        """The same with one value in place of what was resolved."""
        return Settings({**self._settings, option: Setting(value, source)})

    def report(self) -> dict[str, dict[str, str]]:
        """``{key: {value, source}}``, as the health check shows it."""
        return {
            option.key: {"value": option.shown(item.value), "source": item.source}
            for option, item in self._settings.items()
        }


@dataclass(frozen=True)
class Sources:
    """Everything that can set an option, strongest first."""

    flags: Mapping[str, str | None]
    environ: Mapping[str, str]
    file: Mapping[str, Any]
    file_path: Path


def resolve(options: Iterable[Option], sources: Sources) -> Settings:
    """Flag, else environment, else configuration file, else default. An empty variable counts as unset.

    Raises ``UsageError`` that names every wrong value.
    """
    settings, problems = {}, []
    for option in options:
        try:
            settings[option] = _resolve(option, sources)
        except UsageError as error:
            problems.append(error.message)
    if problems:
        raise UsageError("\n".join(problems))
    return Settings(settings)


def _resolve(option: Option, sources: Sources) -> Setting:
    flag = sources.flags.get(option.key)
    if flag is not None:
        return _parsed(option, flag, f"flag {option.flags[0]}")
    for variable in option.variables:
        if sources.environ.get(variable):
            return _parsed(option, sources.environ[variable], f"environment {variable}")
    if option.key in sources.file:
        written = _as_text(option, sources.file[option.key], sources.file_path)
        return _parsed(option, written, f"{option.key} of {sources.file_path}")
    return Setting(option.default, DEFAULT)


def _parsed(option: Option, written: str, source: str) -> Setting:
    try:
        return Setting(option.parse(written), source)
    except ValueError as error:
        raise UsageError(f"{source} is {written!r}: {error}") from None


def _as_text(option: Option, value: Any, path: Path) -> str:
    """What stands in the file, as the text that a flag would carry. Guessing between types is refused."""
    if isinstance(value, bool) is not option.is_switch or not isinstance(value, str | int | float):
        expected = "true or false" if option.is_switch else "text or a number"
        raise UsageError(f"file {path}: {option.key}: {expected} expected")
    return str(value)


def unknown_variables(environ: Mapping[str, str], known: Iterable[str] = ()) -> list[str]:
    """A sentence for every variable that looks like one of ours and is none."""
    names = {*known, *(variable for option in TABLE for variable in option.variables)}
    return [
        f"environment {variable} has no meaning for agentbox{suggestion(variable, sorted(names))}"
        for variable in sorted(environ)
        if variable.startswith(PREFIX) and variable not in names
    ]


def suggestion(wrong: str, known: Sequence[str]) -> str:
    """``; did you mean x?`` when one of ``known`` is near, else nothing."""
    near = difflib.get_close_matches(wrong, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
