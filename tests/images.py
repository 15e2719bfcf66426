"""The images that tests start boxes from: ``python -m tests.images`` builds what is missing or outdated.

``agentbox-test-claude:latest`` holds the real Claude Code, ``agentbox-test-standin:latest`` the small program of
``tests/doubles/manifests/standin.yml`` in the place of an agent. Both are built by role ``image`` like any other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
CLAUDE = "agentbox-test-claude:latest"
STANDIN = "agentbox-test-standin:latest"
STANDIN_MANIFEST = REPOSITORY / "tests/doubles/manifests/standin.yml"
INSTANCE = "agentbox-test"


def playbook() -> list[dict[str, Any]]:
    """One play that builds both images."""
    images = {STANDIN: "standin", CLAUDE: "claude"}
    standin = yaml.safe_load(STANDIN_MANIFEST.read_text(encoding="utf-8"))
    roles = [
        {"role": "agentbox.fleet.image", "vars": {"image_name": name, "image_agents": [agent]}}
        for name, agent in images.items()
    ]
    variables = {
        "ansible_python_interpreter": sys.executable,
        "agentbox_instance": INSTANCE,
        "agentbox_manifests": {"standin": standin},
    }
    return [
        {
            "name": "Build the test images",
            "hosts": "localhost",
            "gather_facts": False,
            "vars": variables,
            "roles": roles,
        }
    ]


def main() -> int:
    """Build both images; the exit status of ansible-playbook."""
    with tempfile.TemporaryDirectory(prefix="agentbox-images-") as directory:
        path = Path(directory, "images.yml")
        path.write_text(json.dumps(playbook()), encoding="utf-8")
        program = Path(sys.executable).with_name("ansible-playbook")
        environ = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections")}
        command = [str(program), "--inventory=localhost,", "--connection=local", str(path)]
        return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
