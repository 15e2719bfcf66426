"""A host whose only way out is a proxy that wants a password, beside servers that only a private authority vouches for.

The proxy is Debian's tinyproxy. It stands in a network without a way out, together with the host.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import hosts
from tests.images import STANDIN_MANIFEST
from tests.integration import runs

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

CANARY = "canary-8fb2c1"
NAME = "files.example"
ORIGIN = f"https://{NAME}:8443"
GREETING = "hello through the proxy"
WHEEL = "tiny-1.0-py3-none-any.whl"
TINYPROXY = f"""User tinyproxy
Group tinyproxy
Port 8888
Listen 0.0.0.0
LogFile "/srv/log/requests"
LogLevel Connect
BasicAuth fleet {CANARY}
"""
SERVER = """
import http.server, ssl
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/srv/tls/server.crt", "/srv/tls/server.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
# Where the people who use the box live.
PLACE = {"timezone": "Asia/Tokyo", "locale": "de_DE.UTF-8"}
# Each has to say what the server holds, in the box of the agent.
FETCHES = {
    "curl": f"curl -fsS {ORIGIN}/greeting",
    "python": f"python3 -c 'import urllib.request as r; print(r.urlopen(\"{ORIGIN}/greeting\").read().decode())'",
    "node": f"node -e 'fetch(\"{ORIGIN}/greeting\").then(r => r.text()).then(console.log)'",
    "git": f"rm -rf /tmp/r && git clone -q {ORIGIN}/repository.git /tmp/r && cat /tmp/r/greeting",
    "pip": f"cd /tmp && python3 -m pip download -q --no-deps {ORIGIN}/{WHEEL} && unzip -p {WHEEL} tiny.py",
    "npm": f"npm view --registry {ORIGIN}/npm tiny description",
}


@dataclass(frozen=True)
class Enclosed:
    """The host, the proxy, and what Ansible said while it made the host a place for boxes."""

    host: str
    proxy: str
    run: subprocess.CompletedProcess[str]

    def on_host(self, script: str) -> str:
        return hosts.docker("exec", self.host, "bash", "-c", script)

    def in_box(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ["docker", "exec", self.host, "docker", "exec", "agentbox", "bash", "-c", script]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def asked(self) -> str:
        """Requests that the proxy let through."""
        return hosts.docker("exec", self.proxy, "cat", "/srv/log/requests")


@pytest.fixture(scope="module")
def enclosed(module_place: Path) -> Iterator[Enclosed]:
    network = f"abx{secrets.token_hex(4)}-enclosed"
    hosts.docker("network", "create", "--internal", f"--label={hosts.LABEL}", network)
    started: list[str] = []
    try:
        authority(module_place)
        started.append(proxy := start_proxy(network, module_place))
        started.append(host := start_host(network, module_place))
        inventory = write_inventory(
            module_place, host, address_in(network, host), f"http://fleet:{CANARY}@{address_in(network, proxy)}:8888"
        )
        yield Enclosed(host, proxy, converge(inventory))
    finally:
        for name in started:
            hosts.remove(name)
        hosts.docker("network", "rm", network)


def authority(place: Path) -> None:
    """A private authority, and the certificate that it gave the server."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=place, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl(*new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=Test authority")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE")
    subject = ("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}")
    openssl(*new, *signed, "-keyout", "server.key", "-out", "server.crt", *subject)


def start_proxy(network: str, place: Path) -> str:
    """tinyproxy and the server, in a container that stands in both networks."""
    name = hosts.start("debian-12", "--init", f"--add-host={NAME}:127.0.0.1", command=("sleep", "infinity"))
    install = "apt-get -q update && apt-get -q -y install --no-install-recommends tinyproxy git"
    hosts.docker("exec", "--env=DEBIAN_FRONTEND=noninteractive", name, "sh", "-c", f"{install} >/dev/null 2>&1")
    serve = place / "served"
    content(serve)
    hosts.docker("exec", name, "mkdir", "-p", "/srv/tls")
    for file in ("server.crt", "server.key"):
        hosts.docker("cp", str(place / file), f"{name}:/srv/tls/{file}")
    hosts.docker("cp", str(serve), f"{name}:/srv/served")
    make_repository = (
        "git init -q /srv/work && cd /srv/work && cp /srv/served/greeting . && git add greeting && "
        "git -c user.name=t -c user.email=t@t.example commit -qm x && "
        "git clone -q --bare . /srv/served/repository.git && git -C /srv/served/repository.git update-server-info"
    )
    hosts.docker("exec", name, "sh", "-c", make_repository)
    write(name, "/etc/tinyproxy/tinyproxy.conf", TINYPROXY)
    write(name, "/srv/server.py", SERVER)
    hosts.docker("exec", name, "install", "--directory", "--owner=tinyproxy", "/srv/log")
    hosts.docker("network", "connect", network, name)
    hosts.docker("exec", "--detach", "--workdir=/srv/served", name, "python3", "/srv/server.py")
    hosts.docker("exec", "--detach", name, "tinyproxy", "-d", "-c", "/etc/tinyproxy/tinyproxy.conf")
    return name


def content(directory: Path) -> None:
    """What the server holds: a text, a Python package, an npm registry's answer."""
    (directory / "npm").mkdir(parents=True)
    (directory / "greeting").write_text(f"{GREETING}\n", encoding="utf-8")
    with zipfile.ZipFile(directory / WHEEL, "w") as wheel:
        wheel.writestr("tiny.py", f"# {GREETING}\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    version = {"name": "tiny", "version": "1.0.0", "description": GREETING}
    packument = {**version, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (directory / "npm" / "tiny").write_text(json.dumps(packument), encoding="utf-8")


def start_host(network: str, place: Path) -> str:
    """The host trusts the authority, as its administrator made it."""
    name = hosts.start("debian-12", "--init", f"--network={network}", command=("sleep", "infinity"))
    hosts.docker("cp", str(place / "ca.crt"), f"{name}:/usr/local/share/ca-certificates/test.crt")
    trust = "cat /usr/local/share/ca-certificates/test.crt >> /etc/ssl/certs/ca-certificates.crt"
    hosts.docker("exec", name, "sh", "-c", f"{trust}; mkdir -p /run/sshd /srv/code; /usr/sbin/sshd")
    return name


def write(name: str, path: str, text: str) -> None:
    subprocess.run(["docker", "exec", "-i", name, "sh", "-c", f"cat > {path}"], input=text, text=True, check=True)


def address_in(network: str, name: str) -> str:
    return hosts.docker(
        "inspect", f'--format={{{{(index .NetworkSettings.Networks "{network}").IPAddress}}}}', name
    ).strip()


def write_inventory(place: Path, host: str, address: str, proxy: str) -> Path:
    variables: dict[str, Any] = {
        **hosts.connection(host, place),
        "ansible_host": address,
        "agentbox_become": False,
        "agentbox_agents": ["standin"],
        "agentbox_manifests": {"standin": yaml.safe_load(STANDIN_MANIFEST.read_text(encoding="utf-8"))},
        "agentbox_proxy": {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": ".internal.example"},
        "agentbox_image_base_source": "debootstrap",
        "agentbox_image_packages": ["unzip"],
        "agentbox_image_locales": ["de_DE.UTF-8"],
        "agentbox_image_snippet": f"RUN curl -fsS {ORIGIN}/greeting > /greeting",
        "agentbox_boxes": [
            {"name": "default", "workspace": "/srv/code", "lead": "standin", "agents": ["standin"], **PLACE}
        ],
    }
    inventory = place / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"enclosed": variables}}}), encoding="utf-8")
    inventory.chmod(0o600)
    return inventory


def converge(inventory: Path) -> subprocess.CompletedProcess[str]:
    """The site, as talkative as it gets."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTBOX_", "ANSIBLE_"))}
    return subprocess.run(
        [runs.PROGRAM, "site.yml", f"--inventory={inventory}", "--diff", "-vvv"],
        cwd=runs.REPOSITORY,
        env=own,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_engine_base_image_and_box_are_made_through_the_proxy(enclosed: Enclosed) -> None:
    assert enclosed.run.returncode == 0, (enclosed.run.stdout + enclosed.run.stderr)[-4000:]
    assert f"CONNECT {NAME}:8443" in enclosed.asked(), "the image's own build lines"


@pytest.mark.parametrize("tool", FETCHES)
def test_tools_in_a_box_work_through_the_proxy_and_trust_the_authority(enclosed: Enclosed, tool: str) -> None:
    fetched = enclosed.in_box(FETCHES[tool])
    assert GREETING in fetched.stdout, fetched.stderr


def test_the_box_has_the_declared_time_zone_and_locale(enclosed: Enclosed) -> None:
    said = enclosed.in_box("date -d @0 '+%H %Z'; locale; printf '%.1f\\n' 1,5")
    assert said.stdout.splitlines()[0] == "09 JST"
    assert 'LC_TIME="de_DE.UTF-8"' in said.stdout
    assert said.stdout.splitlines()[-1] == "1,5", said.stderr


def test_the_engine_pulls_through_the_proxy(enclosed: Enclosed) -> None:
    before = enclosed.asked().count(f"CONNECT {NAME}:8443")
    enclosed.on_host(f"docker pull {NAME}:8443/nothing || true")
    assert enclosed.asked().count(f"CONNECT {NAME}:8443") > before


def test_loopback_and_exempt_names_do_not_reach_the_proxy(enclosed: Enclosed) -> None:
    assert enclosed.in_box("curl -fsS http://127.0.0.1:4317/healthz").returncode == 0
    assert enclosed.in_box("curl -sS -m 3 http://a.internal.example/").returncode != 0
    assert "127.0.0.1:43" not in enclosed.asked()
    assert "internal.example" not in enclosed.asked()


def test_the_password_is_in_no_output_log_or_image(enclosed: Enclosed) -> None:
    encoded = base64.b64encode(f"fleet:{CANARY}".encode()).decode()
    for secret in (CANARY, encoded):
        assert secret not in enclosed.run.stdout + enclosed.run.stderr
        assert secret not in enclosed.on_host(
            "docker history --no-trunc agentbox:latest; docker inspect agentbox:latest"
        )
        assert not enclosed.on_host(f"grep -rlF {secret} /var/log || true")
    kept = enclosed.on_host(f"grep -rlF {CANARY} /etc /var/lib/agentbox || true").split()
    modes = enclosed.on_host(f"stat -c '%a %U' {' '.join(kept)}").splitlines() if kept else []
    assert set(modes) <= {"600 root"}, dict(zip(kept, modes, strict=True))
