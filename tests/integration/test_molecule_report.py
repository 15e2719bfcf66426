"""What Molecule's scenarios write down about each run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.integration import runs

CALLBACKS = runs.REPOSITORY / "molecule" / "shared" / "callbacks"
PLAY = [
    {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable},
        "tasks": [
            {"name": "Look", "ansible.builtin.command": "true", "changed_when": False},
            {"name": "Touch", "ansible.builtin.command": "true", "changed_when": True, "notify": "Restart it"},
        ],
        "handlers": [{"name": "Restart it", "ansible.builtin.command": "true", "changed_when": True}],
    }
]


def test_a_handler_that_always_fires_is_named(tmp_path: Path) -> None:
    playbook = tmp_path / "converge.yml"
    playbook.write_text(json.dumps(PLAY), encoding="utf-8")
    environment = os.environ | {
        "ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS),
        "ANSIBLE_CALLBACKS_ENABLED": "runs",
        "MOLECULE_EPHEMERAL_DIRECTORY": str(tmp_path),
        "MOLECULE_SCENARIO_NAME": "made-up",
    }
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "--inventory=localhost,", playbook], env=environment, capture_output=True, text=True, check=True
    )
    assert "Changed by handler: [localhost] => Restart it" in done.stdout
    assert json.loads((tmp_path / "runs-made-up.jsonl").read_text(encoding="utf-8")) == {
        "playbook": "converge.yml",
        "check": False,
        "changed": [
            {"host": "localhost", "task": "Touch", "handler": False},
            {"host": "localhost", "task": "Restart it", "handler": True},
        ],
    }
