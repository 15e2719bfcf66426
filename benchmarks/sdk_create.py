"""The least that creating and starting containers takes from Python: docker SDK and eight threads, nothing else.

``python sdk_create.py PAYLOADS NETWORK``: a file with the bodies of the requests by name, and the network to make.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker


def main(payloads: str, network: str) -> None:
    client: Any = docker.APIClient(version="auto")  # partly untyped

    def create(item: tuple[str, dict[str, Any]]) -> None:
        name, body = item
        client.start(client.create_container_from_config(body, name)["Id"])

    client.create_network(network, driver="bridge", options={"com.docker.network.bridge.enable_icc": "false"})
    bodies = json.loads(Path(payloads).read_text(encoding="utf-8"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, bodies.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
