"""Record what an engine tells of boxes: ``python -m tests.record_inspect debian-12`` (or ``debian-13``).

The engine is the distribution's, in a throwaway host. It creates the containers of ``recorded_boxes.DECLARED``, of an
empty image and without starting them, from the very payloads that the module would send. What it answers is kept whole
in ``tests/unit/module_utils/recorded``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from agentbox._shared._payload import create_payload
from tests import hosts
from tests.unit.module_utils import recorded_boxes
from tests.unit.module_utils.box_samples import CONTEXT

PREPARE = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends docker.io iptables \\
    $(apt-cache search --names-only '^docker-cli$' | cut -d' ' -f1)
for _ in $(seq 60); do docker version > /dev/null 2>&1 && break; sleep 1; done
tar --create --files-from /dev/null | docker import - abx:latest
docker network create abx
docker network create lan
"""
# Runs in the host, with the payloads by name as its standard input.
CREATE = """
import http.client, json, os, socket, sys

def ask(method, path, body=None):
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect("/var/run/docker.sock")
    headers = {"Content-Type": "application/json"}
    connection.request(method, path, body and json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status < 300, (path, text)
    return json.loads(text or "null")

version = ask("GET", "/version")
found = {}
for name, payload in json.load(sys.stdin).items():
    for mount in payload["HostConfig"]["Mounts"]:
        if mount["Type"] == "bind":
            os.makedirs(mount["Source"], exist_ok=True)
    first = payload["HostConfig"]["NetworkMode"]
    networks = payload["NetworkingConfig"]["EndpointsConfig"]
    payload["NetworkingConfig"] = {"EndpointsConfig": {key: {} for key in networks if key == first}}
    created = ask("POST", f"/v{version['ApiVersion']}/containers/create?name={name}", payload)
    for network in sorted(set(networks) - {first}):
        ask("POST", f"/networks/{network}/connect", {"Container": created["Id"]})
    found[name] = ask("GET", f"/v{version['ApiVersion']}/containers/{name}/json")
json.dump({"api": version["ApiVersion"], "engine": version["Version"], "containers": found}, sys.stdout)
"""


def record(platform: str) -> dict[str, Any]:
    """Versions and containers of the engine that ``platform`` has."""
    payloads = {name: create_payload(recorded_boxes.declared(name), CONTEXT) for name in recorded_boxes.DECLARED}
    host = hosts.start(platform)
    try:
        hosts.wait_for_systemd(host)
        hosts.docker("exec", host, "sh", "-c", PREPARE)
        done = subprocess.run(
            ["docker", "exec", "-i", host, "python3", "-c", CREATE],
            input=json.dumps(payloads),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    finally:
        hosts.remove(host)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    found = record(sys.argv[1])
    path = recorded_boxes.DIRECTORY / f"api-{found['api']}.json"
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
