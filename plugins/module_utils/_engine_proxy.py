"""The daemon's proxy: one environment file that only root reads, and what makes the daemon read it. Pure.

The password would be plain to every user in a unit (systemd tells its ``Environment=`` to whoever asks) and in
``/etc/default/docker``, which everyone may read. So both only name the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ._errors import DeclarationError

FILE = "/etc/docker/agentbox-proxy.env"
DROP_IN = "/etc/systemd/system/docker.service.d/agentbox-proxy.conf"
DEFAULTS = "/etc/default/docker"
DROP_IN_TEXT = f"""\
# Managed by Ansible: agentbox.fleet, role docker.
[Service]
EnvironmentFile=-{FILE}
"""
# Both the package's init script and the docker role's own start read the file it stands in, as a shell does.
_BLOCK = f"""\
# BEGIN agentbox.fleet, role docker
if [ -r {FILE} ]; then set -a; . {FILE}; set +a; fi
# END agentbox.fleet, role docker
"""
# What single quotes can't hold, for the shell and for systemd alike.
_UNQUOTABLE = re.compile(r"['\x00-\x1f\x7f]")
_LOGIN = re.compile(r"[^'/\s]*@")


def environment_file(variables: Mapping[str, str]) -> str:
    """Content of the file, which both a shell and systemd read; empty without variables.

    Raises ``DeclarationError`` naming the variable, and not its value, for one that no file can hold.
    """
    for name, value in variables.items():
        if _UNQUOTABLE.search(value):
            raise DeclarationError(f"proxy.{name.lower()}: holds a quote or control character, write %27 for it")
    return "".join(f"{name}='{value}'\n" for name, value in variables.items())


def with_block(text: str, wanted: bool) -> str:
    """``text`` of ``/etc/default/docker`` with or without the lines that read the file."""
    without = text.replace(_BLOCK, "")
    if not wanted:
        return without
    return text if _BLOCK in text else (without + ("\n" if without and not without.endswith("\n") else "")) + _BLOCK


def shown(text: str) -> str:
    """``text`` of the file without users and passwords."""
    return _LOGIN.sub("***@", text)
