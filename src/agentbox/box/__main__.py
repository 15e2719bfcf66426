"""``python -m agentbox.box supervise|lead|probe|credentials``."""

from __future__ import annotations

import importlib
import logging
import os
import sys

from . import config

# Each has a function ``main(box) -> exit code`` and is imported only when it is the one to run: the supervisor stays
# small, and the lead starts soon.
_COMMANDS = {"supervise": ".supervisor", "lead": ".lead", "probe": ".probe", "credentials": ".credentials"}


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="agentbox: %(message)s")
    if len(arguments) != 1 or arguments[0] not in _COMMANDS:
        sys.stderr.write(f"usage: python -m agentbox.box {'|'.join(_COMMANDS)}\n")
        return os.EX_USAGE
    command = importlib.import_module(_COMMANDS[arguments[0]], __package__)
    try:
        return int(command.main(config.current()))
    except config.BoxConfigError as error:
        logging.getLogger("agentbox").error("%s", error)
        return os.EX_CONFIG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
