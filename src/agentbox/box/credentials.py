"""Which agents of this box have a login: for ``agentbox up``, which people wait for and asks nothing else."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from agentbox import agents

from .config import Box


def main(box: Box) -> int:
    """Print the answer."""
    sys.stdout.write(json.dumps(found(box)) + "\n")
    return os.EX_OK


def found(box: Box) -> dict[str, Any]:
    """By agent what ``agents.credentials()`` says of it."""
    return {
        name: agents.credentials(
            manifest, agents.config_directory(manifest, box.home, os.environ), os.environ, box.secrets
        )
        for name, manifest in box.manifests.items()
    }
