"""A registry for images on loopback, which engines reach without TLS: Debian's, with one user."""

from __future__ import annotations

import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import hosts

USER = "builder"
START_TIMEOUT = 30.0  # seconds
_TAG = "agentbox-test-registry:debian-12"
_DOCKERFILE = """\
ARG BASE
FROM ${BASE}
RUN apt-get -q update \\
 && apt-get -q -y install --no-install-recommends docker-registry apache2-utils \\
 && rm -rf /var/lib/apt/lists/*
"""
_SERVE = """\
until [ -s /tmp/users ]; do sleep 0.1; done
if [ -s /tmp/tls.pem ]; then
    export REGISTRY_HTTP_TLS_CERTIFICATE=/tmp/tls.pem REGISTRY_HTTP_TLS_KEY=/tmp/tls.pem
fi
export REGISTRY_AUTH_HTPASSWD_PATH=/tmp/users REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=/tmp/images
exec docker-registry serve /etc/docker/registry/config.yml
"""


@contextmanager
def registry(password: str, interface: str = "127.0.0.1", tls: Path | None = None) -> Iterator[str]:
    """A running registry that ``USER`` may use; its address, ``<interface>:<port>``. Its images go with it.

    ``tls`` is a file with its key and certificate; engines insist on one for any address but loopback's.
    """
    base = f"--build-arg=BASE={hosts.base_image('debian-12')}"
    build = ["docker", "build", "--quiet", f"--tag={_TAG}", base, "-"]
    subprocess.run(build, input=_DOCKERFILE, text=True, check=True, timeout=240)
    options = ("--detach", "--label=agentbox.test=registry", f"--publish={interface}::5000")
    name = hosts.docker("run", *options, _TAG, "sh", "-c", _SERVE).strip()
    try:
        if tls:
            _feed(name, "cat > /tmp/tls.pem", tls.read_text(encoding="ascii"))
        _feed(name, f"htpasswd -Bin {USER} > /tmp/new && mv /tmp/new /tmp/users", password)
        address = hosts.docker("port", name, "5000").split()[0]
        _wait_for(f"{'https' if tls else 'http'}://{address}/v2/", tls)
        yield address
    finally:
        hosts.remove(name)


def certificate(directory: Path, address: str) -> Path:
    """A file with a new key and a certificate for an IP address, which is its own authority."""
    path = directory / "tls.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=registry"]
    files = ["-addext", f"subjectAltName=IP:{address}", "-keyout", str(path), "-out", str(directory / "ca.pem")]
    subprocess.run([*request, *files], check=True, capture_output=True)
    with path.open("a", encoding="ascii") as stream:
        stream.write((directory / "ca.pem").read_text(encoding="ascii"))
    return path


def _feed(container: str, script: str, text: str) -> None:
    """Run a script in the container with ``text`` as its input, which no process list shows."""
    command = ["docker", "exec", "--interactive", container, "sh", "-c", script]
    subprocess.run(command, input=text, text=True, check=True, capture_output=True)


def _wait_for(url: str, authority: Path | None) -> None:
    context = ssl.create_default_context(cafile=authority) if authority else None
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            urllib.request.urlopen(url, timeout=1, context=context)  # noqa: S310
        except urllib.error.HTTPError:
            return  # it asks for a login
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
