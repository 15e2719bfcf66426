"""A signed repository of packages on the loopback of a throwaway host, with an engine under its vendor's names."""

from __future__ import annotations

import subprocess
from pathlib import Path

PORT = 8765
URL = f"http://127.0.0.1:{PORT}/linux/debian"
KEY = f"{URL}/gpg"
_PROGRAM = Path(__file__).with_name("make_repository.py")


def serve(host: str, *, engine: bool) -> None:
    """Make the repository on the host and serve it; with an engine, or with packages that only have their names."""
    script = f"cat > /root/make_repository.py && python3 /root/make_repository.py {PORT} {'engine' if engine else ''}"
    subprocess.run(
        ["docker", "exec", "-i", host, "sh", "-c", script],
        input=_PROGRAM.read_text(encoding="utf-8"),
        text=True,
        check=True,
        timeout=240,
    )


def stop(host: str) -> None:
    """Stop serving and forget the repository; nobody answers at its address any more."""
    script = "kill $(cat /srv/packages.pid); rm -rf /srv/packages /srv/work"
    subprocess.run(["docker", "exec", host, "sh", "-c", script], check=True)
