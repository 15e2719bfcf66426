"""The one exception family of modules and CLI.

Every message says what was tried, on what, and (``hint``) what to do next.
"""

from __future__ import annotations


class AgentboxError(Exception):
    """Base of all errors that a user can do something about."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        stop = "" if self.message.endswith("?") else "."
        return f"{self.message}{stop} {self.hint}" if self.hint else self.message


class DeclarationError(AgentboxError):
    """A declaration is wrong; ``message`` starts with the path of the key, e.g. ``boxes[1].memory``."""


class StateError(AgentboxError):
    """A file of the state directory is not what it has to be (a link, a directory, another owner)."""


class SettingsError(AgentboxError):
    """A settings file of a user can't be worked on; the message goes on where the file's path ends."""


class LockedError(AgentboxError):
    """Another run works on the same instance."""


class EngineError(AgentboxError):
    """The engine answered with an error."""


class EngineUnreachableError(EngineError):
    """No answer from the engine; the subclasses say why."""

    kind = "unreachable"


class EngineAbsentError(EngineUnreachableError):
    """No engine is installed: neither a socket nor a daemon program."""

    kind = "absent"


class EngineStoppedError(EngineUnreachableError):
    """The engine is installed and nothing listens on its socket."""

    kind = "stopped"


class EngineDeniedError(EngineUnreachableError):
    """The socket exists and this user may not use it."""

    kind = "denied"


class EngineTimeoutError(EngineUnreachableError):
    """Something listens on the socket and does not answer in time."""

    kind = "timeout"


class EngineUnsupportedError(EngineError):
    """The engine or the way to reach it is not supported (too old, or a remote address)."""
