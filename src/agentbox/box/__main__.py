"""``python -m agentbox.box supervise|lead|probe``."""

from __future__ import annotations

import json
import logging
import os
import sys

from . import config, lead, probe
from .supervisor import Supervisor
from .tmux import Tmux

_CONFIGURATION = 78  # EX_CONFIG of sysexits.h


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="agentbox: %(message)s")
    if len(arguments) != 1 or arguments[0] not in _COMMANDS:
        sys.stderr.write(f"usage: python -m agentbox.box {'|'.join(_COMMANDS)}\n")
        return os.EX_USAGE
    try:
        return _COMMANDS[arguments[0]](config.current())
    except config.BoxConfigError as error:
        sys.stderr.write(f"agentbox: {error}\n")
        return _CONFIGURATION


def _supervise(box: config.Box) -> int:
    return Supervisor(box, Tmux(box.tmux_conf)).run()


def _lead(box: config.Box) -> int:
    try:
        lead.launch(box, os.environ)
    except lead.LaunchError as error:
        sys.stderr.write(f"agentbox: {error}\n")
        return _CONFIGURATION


def _probe(box: config.Box) -> int:
    sys.stdout.write(json.dumps(probe.run(box)) + "\n")
    sys.stdout.flush()
    os._exit(0)  # a part that hangs (a dead mount) must not keep the answer from ending


_COMMANDS = {"supervise": _supervise, "lead": _lead, "probe": _probe}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
