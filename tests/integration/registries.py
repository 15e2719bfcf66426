"""A registry for images on loopback, which engines reach without TLS: Debian's, with one user."""

from __future__ import annotations

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

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
_SERVE = (
    "until [ -s /tmp/users ]; do sleep 0.1; done;"
    " REGISTRY_AUTH_HTPASSWD_PATH=/tmp/users REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=/tmp/images"
    " exec docker-registry serve /etc/docker/registry/config.yml"
)
_ADD_USER = f"htpasswd -Bin {USER} > /tmp/new && mv /tmp/new /tmp/users"


@contextmanager
def registry(password: str) -> Iterator[str]:
    """A running registry that ``USER`` may use; its address, ``127.0.0.1:<port>``. Its images go with it."""
    base = f"--build-arg=BASE={hosts.base_image('debian-12')}"
    subprocess.run(
        ["docker", "build", "--quiet", f"--tag={_TAG}", base, "-"],
        input=_DOCKERFILE,
        text=True,
        check=True,
        timeout=240,
    )
    options = ("--detach", "--label=agentbox.test=registry", "--publish=127.0.0.1::5000")
    name = hosts.docker("run", *options, _TAG, "sh", "-c", _SERVE).strip()
    try:
        add_user = ["docker", "exec", "--interactive", name, "sh", "-c", _ADD_USER]
        subprocess.run(add_user, input=password, text=True, check=True, capture_output=True)
        address = hosts.docker("port", name, "5000").split()[0]
        _wait_for(f"http://{address}/v2/")
        yield address
    finally:
        hosts.remove(name)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            urllib.request.urlopen(url, timeout=1)  # noqa: S310
        except urllib.error.HTTPError:
            return  # it asks for a login
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
