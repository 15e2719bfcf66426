"""The environment in which programs of the host are run."""

from __future__ import annotations

import os


def plain_environment() -> dict[str, str]:
    """This process's environment with English messages and the folders of system programs."""
    path = os.environ.get("PATH") or os.defpath
    return os.environ | {"LC_ALL": "C", "PATH": f"{path}:/usr/sbin:/usr/bin:/sbin:/bin"}
