"""The configuration file ``~/.config/agentbox/config.yml``: options of the table, and where secrets come from.

It is never looked for in a workspace, because the agent can write there. It names secrets and holds none::

    memory: 8g
    secrets:
      ANTHROPIC_API_KEY: {env: ANTHROPIC_API_KEY}     # or {file: ~/keys/anthropic}
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import options
from .exits import UsageError
from .user import User

SECRETS = "secrets"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class SecretSource:
    """Where the value of one secret is read when a box is made: ``kind`` is ``env`` or ``file``."""

    name: str
    kind: str
    place: str


@dataclass(frozen=True)
class ConfigFile:
    """The file's content; empty when there is no file."""

    path: Path
    values: Mapping[str, Any] = field(default_factory=dict)
    secrets: tuple[SecretSource, ...] = ()


def load(user: User) -> ConfigFile:
    """Read and check the file of ``user``. Raises ``UsageError`` naming the key."""
    path = user.config_file
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ConfigFile(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    return _checked(path, _parsed(path, content))


def _parsed(path: Path, content: str) -> Mapping[str, Any]:
    import yaml  # only for who has such a file

    try:
        data = yaml.safe_load(content)
    except yaml.YAMLError as error:
        # The library's own text quotes the line, which may hold what nobody should read in a log.
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UsageError(f"{path} is not valid YAML{where}: {getattr(error, 'problem', 'unreadable')}") from None
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise UsageError(f"{path}: a mapping of option names to values expected")
    return data


def _checked(path: Path, data: Mapping[str, Any]) -> ConfigFile:
    known = [*(option.key for option in options.TABLE), SECRETS]
    unknown = [f"{path}: unknown key {key!r}{options.suggestion(key, known)}" for key in data if key not in known]
    if unknown:
        raise UsageError("\n".join(unknown))
    values = {key: value for key, value in data.items() if key != SECRETS}
    return ConfigFile(path, values, _secrets(path, data.get(SECRETS)))


def _secrets(path: Path, section: Any) -> tuple[SecretSource, ...]:
    if section is None:
        return ()
    if not isinstance(section, dict):
        raise UsageError(f"{path}: {SECRETS}: a mapping of variable names to {{env: ...}} or {{file: ...}} expected")
    return tuple(_secret(f"{path}: {SECRETS}.{name}", name, source) for name, source in section.items())


def _secret(where: str, name: Any, source: Any) -> SecretSource:
    """No message here shows ``source``: somebody may have written the value itself."""
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise UsageError(f"{where}: the name of an environment variable expected")
    if not isinstance(source, dict) or len(source) != 1:
        raise UsageError(f"{where}: {{env: VARIABLE}} or {{file: PATH}} expected, never the value itself")
    [(kind, place)] = source.items()
    if kind not in ("env", "file") or not isinstance(place, str) or not place:
        raise UsageError(f"{where}: {{env: VARIABLE}} or {{file: PATH}} expected, never the value itself")
    return SecretSource(name, kind, place)


def read_secrets(config: ConfigFile, user: User, environ: Mapping[str, str]) -> dict[str, str]:
    """The values, read where the file says. Raises ``UsageError`` for one that isn't there."""
    return {source.name: _value(config.path, source, user, environ) for source in config.secrets}


def _value(path: Path, source: SecretSource, user: User, environ: Mapping[str, str]) -> str:
    where = f"{path}: {SECRETS}.{source.name}"
    if source.kind == "env":
        value = environ.get(source.place, "")
        if not value:
            raise UsageError(f"{where}: environment variable {source.place} is not set")
        return value
    return _private_file(where, user.expand(source.place))


def _private_file(where: str, path: Path) -> str:
    try:
        if path.stat().st_mode & _OTHERS:
            raise UsageError(f"{where}: {path} can be read by others", f"Run: chmod 600 {path}")
        value = path.read_text(encoding="utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: cannot read {path}: {error}") from error
    if not value:
        raise UsageError(f"{where}: {path} is empty")
    return value
