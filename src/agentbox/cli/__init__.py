"""The command line: ``agentbox up|shell|rebuild|doctor|down|attach|ls|logs|stop|export|import``.

It resolves options, runs the collection's playbooks and hands the terminal over to a box; it never changes a
container itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from agentbox._shared._errors import AgentboxError

from . import commands, exits
from .call import prepare
from .exits import RunInterruptedError, UsageError
from .streams import give_up, say


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        call = prepare(words, os.environ)
        return commands.HANDLERS[call.arguments.command](call)
    except UsageError as error:
        say(f"error: {error}")
        return exits.USAGE
    except AgentboxError as error:
        say(f"error: {error}")
        return exits.FAILED
    except (RunInterruptedError, KeyboardInterrupt) as error:
        say(f"interrupted{': ' if str(error) else ''}{error}")
        return exits.INTERRUPTED
    except BrokenPipeError:  # whoever read our output has gone
        give_up()
        return exits.OK
