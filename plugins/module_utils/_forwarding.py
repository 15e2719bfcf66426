"""Forwarding of packets, without which containers have no network.

The daemon switches it on at its start. What switches it off later, such as a hardening role, says so in a file that
counts again whenever settings are loaded; then a file that sorts behind it keeps the daemon's need. Without such a
file nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

OWN_FILE = "/etc/sysctl.d/zz-agentbox-docker.conf"
OWN_TEXT = """\
# Managed by Ansible: agentbox.fleet, role docker.
# Another file switches this off; containers have no network then.
net.ipv4.ip_forward = 1
"""
SWITCH = Path("/proc/sys/net/ipv4/ip_forward")
# Both name one switch of the kernel.
_KEYS = frozenset({"net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding"})
# Where settings are kept, the most important first (sysctl.d(5)); /etc/sysctl.conf counts last (sysctl(8)).
_FOLDERS = ("etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d")
_SETTING = re.compile(r"\s*-?\s*([^#;\s=][^\s=]*)\s*=\s*(.*?)\s*")


def is_switched_off(texts: Iterable[str]) -> bool:
    """Whether files with settings of the kernel, in the order in which they count, switch forwarding off."""
    values = [value for text in texts for key, value in _settings(text) if key in _KEYS]
    return bool(values) and values[-1] == "0"


def _settings(text: str) -> list[tuple[str, str]]:
    found = [_SETTING.fullmatch(line) for line in text.splitlines()]
    return [(match[1].replace("/", "."), match[2]) for match in found if match]


def texts(root: Path = Path("/")) -> list[str]:
    """Contents of this host's files with settings but for our own, in the order in which they count."""
    files: dict[str, Path] = {}
    for folder in reversed(_FOLDERS):
        files.update({file.name: file for file in (root / folder).glob("*.conf")})
    files.pop(Path(OWN_FILE).name, None)
    ordered = [*(files[name] for name in sorted(files)), root / "etc/sysctl.conf"]
    return [file.read_text(encoding="utf-8", errors="replace") for file in ordered if file.is_file()]


def is_on(switch: Path = SWITCH) -> bool:
    """Whether the kernel forwards packets now."""
    return switch.read_text(encoding="ascii").strip() != "0"
