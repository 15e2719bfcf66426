"""One call of the program: who calls, what was asked, and how the engine is reached for it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentbox._shared import _engine, _naming
from agentbox._shared._engine import Engine
from agentbox._shared._errors import AgentboxError, EngineAbsentError, EngineDeniedError, EngineStoppedError

from . import arguments, collection, config_file, declaration, options, privileges, seen, terminal, user
from .activity import Activity
from .config_file import ConfigFile
from .exits import RunInterruptedError, UsageError
from .options import INSTANCE, NAME, Settings, Sources
from .seen import SeenBox
from .streams import say
from .user import User

ROOT_STATE = _naming.default_state_root(0, {})
# Variables that our own parts read and a user may meet in an environment.
_INTERNAL_VARIABLES = ("AGENTBOX_ACTIVITY",)
# Tags of what only an inventory declares.
_ONLY_DECLARED = ("agent_clis", "hooks", "gitops")


@dataclass(frozen=True)
class Call:
    """Everything a command works with."""

    argv: Sequence[str]
    arguments: argparse.Namespace
    settings: Settings
    config: ConfigFile
    user: User
    environ: Mapping[str, str]

    @property
    def instance(self) -> str:
        return str(self.settings[INSTANCE])

    @property
    def name(self) -> str:
        return str(self.settings[NAME])

    @property
    def state_dir(self) -> str:
        return _naming.state_dir(str(self.user.state_root), self.instance)

    def become_root(self) -> None:
        """Start over as root; does not return."""
        secrets = [source.place for source in self.config.secrets if source.kind == "env"]
        privileges.become_root(self.argv, secrets, terminal.is_interactive())

    def engine_as_is(self) -> Engine:
        """The engine as this user reaches it."""
        return _engine.connect(None, self.environ)

    def engine(self) -> Engine:
        """The engine, as root if this user may not use it."""
        try:
            return self.engine_as_is()
        except EngineDeniedError:
            if not self.user.is_root:
                self.become_root()
            raise

    def engine_if_there(self) -> Engine | None:
        """The engine, or None where the docker role has to install or start it first; that takes root."""
        try:
            return self.engine()
        except (EngineAbsentError, EngineStoppedError):
            if not self.user.is_root:
                self.become_root()
            return None

    def find(self, engine: Engine) -> SeenBox | None:
        """The box that this call is about, if it is there."""
        return seen.find(engine, self.instance, self.name, str(self.user.state_root))

    def claim(self, box: SeenBox) -> None:
        """Make sure that ``box`` is kept in this user's state directory, else changing it would tear it in two.

        A box that root keeps is changed as root. Raises ``UsageError`` for one that somebody else keeps.
        """
        if box.state_dir == self.state_dir:
            return
        if not self.user.is_root and box.state_dir == _naming.state_dir(ROOT_STATE, self.instance):
            self.become_root()
        raise UsageError(
            f"box {box.name} belongs to another user: its state is kept in {box.state_dir}",
            "Choose another name with --name, or run as that user",
        )

    def run(
        self, name: str, variables: Mapping[str, Any], skipped: tuple[str, ...] = (), *, check: bool = False
    ) -> Activity:
        """Run a playbook of the collection for this call, without the tags ``skipped``; with ``check`` only predict.

        An interruption says what state things are in.
        """
        from . import playbook  # a box that runs is entered without any

        common = declaration.common(self.settings, self.user, self.environ.get("DOCKER_HOST") or None)
        # Who may use the engine without being root gets a box, and the host stays as it is.
        root_only = () if self.user.is_root else ("docker", "tmux", "install")
        unwanted = tuple(dict.fromkeys((*skipped, *root_only, *_ONLY_DECLARED)))
        wanted = playbook.Playbook(name, {**common, **variables}, unwanted, check)
        try:
            return playbook.run(wanted, Path(self.state_dir, "logs"), sys.stderr)
        except RunInterruptedError:
            raise RunInterruptedError(f"{self._state()}. The same command goes on from there") from None

    def _state(self) -> str:
        """What is there now, in a few words."""
        try:
            box = self.find(self.engine_as_is())
        except AgentboxError as error:
            return error.message
        return f"box {box.name} is {box.state}" if box else f"there is no box {self.name}"


def prepare(argv: Sequence[str], environ: Mapping[str, str]) -> Call:
    """Read arguments, environment and configuration. Raises ``UsageError``; exits as argparse does."""
    parsed = arguments.parse(argv)
    for warning in options.unknown_variables(environ, _INTERNAL_VARIABLES):
        say(f"warning: {warning}")
    caller = user.current(environ, os.geteuid())
    config = config_file.load(caller)
    command = arguments.BY_NAME[parsed.command]
    flags = {option.key: getattr(parsed, option.key) for option in command.options}
    settings = options.resolve(command.options, Sources(flags, environ, config.values, config.path))
    if options.AGENT in command.options:
        declaration.check_agent(settings.setting(options.AGENT), collection.agents())
    return Call(argv, parsed, settings, config, caller, environ)
