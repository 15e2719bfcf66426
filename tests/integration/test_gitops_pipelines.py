"""The commands of the pipeline templates, run as a forge runs them, in a repository of a user.

What only a forge can do (its checkout, artifacts, comments) is not run; see docs/untested.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration import runs

TEMPLATES = runs.REPOSITORY / "templates/ci"
FORGE_ONLY = ("gh ", "curl ")
SITE = """---
- name: Site
  hosts: all
  gather_facts: false
  tasks:
    - name: Write the motto
      ansible.builtin.copy:
        content: "one\\n"
        dest: "{{ playbook_dir }}/motto"
        mode: "0644"

    - name: Have Git
      agentbox.fleet.packages:
        names: [git]
"""
CREDENTIALS = {"FLEET_SSH_KEY": "a key", "FLEET_KNOWN_HOSTS": "a host", "FLEET_VAULT_PASSWORD": "a phrase"}


@dataclass(frozen=True)
class Pipeline:
    """A forge's template: the script and the environment of each job, as that forge would run it."""

    scripts: Mapping[str, str]
    environments: Mapping[str, Mapping[str, str]]


def github(_directory: Path) -> Pipeline:
    template = yaml.safe_load((TEMPLATES / "github.yml").read_text(encoding="utf-8"))
    credentials = dict(zip(("KEY", "KNOWN_HOSTS", "VAULT_PASSWORD"), CREDENTIALS.values(), strict=True))
    scripts, environments = {}, {}
    for name, job in template["jobs"].items():
        steps = [step["run"] for step in job["steps"] if "run" in step and not step["run"].startswith(FORGE_ONLY)]
        # Each step is a shell of its own.
        scripts[name] = "set -e\n" + "".join(f"(\nset -e\n{step}\n)\n" for step in steps)
        environments[name] = {**template["env"], **job.get("env", {}), **credentials}
    return Pipeline(scripts, environments)


def gitlab(directory: Path) -> Pipeline:
    template = yaml.safe_load((TEMPLATES / "gitlab.yml").read_text(encoding="utf-8"))
    files = {name: str(directory / name) for name in CREDENTIALS}
    for name, path in files.items():
        Path(path).write_text(f"{CREDENTIALS[name]}\n", encoding="ascii")
    jobs = {name: job for name, job in template.items() if isinstance(job, dict) and "stage" in job}
    scripts = {
        name: "\n".join(["set -e", *flat([template["default"]["before_script"], job["script"]])])
        for name, job in jobs.items()
        if not flat(job["script"])[0].startswith(FORGE_ONLY)
    }
    return Pipeline(scripts, {name: {**template["variables"], **files} for name in scripts})


def flat(lines: Any) -> list[str]:
    """Lines of a script; GitLab flattens what anchors nest."""
    return [line for item in lines for line in flat(item)] if isinstance(lines, list) else [lines]


@dataclass(frozen=True)
class Checkout:
    directory: Path
    pipeline: Pipeline

    def run(self, job: str) -> subprocess.CompletedProcess[str]:
        own = {
            key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AGENTBOX_", "GITHUB"))
        }
        environment = {
            **own,
            **self.pipeline.environments[job],
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(self.directory / "summary.md"),
        }
        return subprocess.run(
            ["bash", "-c", self.pipeline.scripts[job]],
            cwd=self.directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )

    def file(self, name: str) -> str:
        return (self.directory / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=[github, pytest.param(gitlab, marks=pytest.mark.full)])
def checkout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    directory = tmp_path_factory.mktemp("fleet")
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {"all": {"hosts": {"ada.example": host}}}
    files = {
        "site.yml": SITE,
        "inventories/fleet/hosts.yml": "---\n" + yaml.safe_dump(inventory),
        "requirements.txt": "agentbox\nansible-lint\nyamllint\n",
    }
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    return Checkout(directory, request.param(tmp_path_factory.mktemp("files")))


def test_lint_passes(checkout: Checkout) -> None:
    done = checkout.run("lint")
    assert done.returncode == 0, done.stdout
    assert "0 failure(s), 0 warning(s) in" in done.stdout


def test_check_reports_and_changes_nothing(checkout: Checkout) -> None:
    done = checkout.run("check")
    assert done.returncode == 0, done.stdout
    assert json.loads(checkout.file("drift.json"))["counts"] == {"hosts": 1, "changed": 1, "failed": 0, "drift": 0}
    assert "| `ada.example` |  | `Write the motto` | `changed` | `ansible.builtin.copy` |" in checkout.file("drift.md")
    assert not (checkout.directory / "motto").exists()
    for name, text in zip(("key", "known_hosts", "vault"), CREDENTIALS.values(), strict=True):
        assert checkout.file(f".fleet/{name}") == f"{text}\n"
        assert (checkout.directory / ".fleet" / name).stat().st_mode & 0o777 == 0o600
        assert text not in done.stdout


def test_a_failing_check_fails_the_job_and_keeps_the_report(checkout: Checkout) -> None:
    (checkout.directory / "site.yml").write_text(SITE.replace("playbook_dir", "nowhere"), encoding="utf-8")
    done = checkout.run("check")
    (checkout.directory / "site.yml").write_text(SITE, encoding="utf-8")
    assert done.returncode != 0
    assert json.loads(checkout.file("drift.json"))["outcome"] == "failed"
    assert "`failed`" in checkout.file("drift.md")


def test_converge_converges(checkout: Checkout) -> None:
    done = checkout.run("converge")
    assert done.returncode == 0, done.stdout
    assert checkout.file("motto") == "one\n"


def test_no_expression_of_a_forge_stands_in_a_script() -> None:
    """GitHub pastes ``${{ }}`` into the script, so a branch's name could become a command."""
    template = yaml.safe_load((TEMPLATES / "github.yml").read_text(encoding="utf-8"))
    steps = [step for job in template["jobs"].values() for step in job["steps"]]
    assert not [step for step in steps if "${{" in step.get("run", "")]
