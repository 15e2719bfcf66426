"""``python -m agentbox.observer``: the process of window ``observer``."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from agentbox.box import config

from .server import serve


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    os.umask(0o077)
    try:
        asyncio.run(serve(config.current()))
    except (config.BoxConfigError, OSError) as error:
        logging.getLogger("agentbox").error("the box Observer can't run: %s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
