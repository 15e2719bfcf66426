"""Agents for users of a host: a real npm program on a throwaway host, with the real registry and without any."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import hosts
from tests.integration import runs

ROOT = Path(__file__).resolve().parents[2]
NODE = (ROOT / "requirements" / "node.txt").read_text(encoding="utf-8")
STANDIN: dict[str, Any] = yaml.safe_load((ROOT / "tests/doubles/manifests/standin.yml").read_text(encoding="utf-8"))
OLD, NEW = "0.28.1", "0.28.2"
# Settings under which npm says that all went well and agents do not run.
SKIPPING = "printf 'ignore-scripts=true\\nomit=optional\\n' > /root/.npmrc"
OFFLINE = "printf 'registry=http://127.0.0.1:9/\\n' > /root/.npmrc"
TREES = "/opt/agentbox/agents/standin"

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Host:
    variables: dict[str, Any]

    def shell(self, command: str) -> str:
        argv = ["docker", "exec", self.variables["test_host"], "sh", "-c", command]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def version_for(self, user: str) -> str:
        return self.shell(f"su --login {user} --command 'esbuild --version'")

    def run(self, *tasks: runs.Task) -> list[runs.Result]:
        results = runs.play(tasks, variables=self.variables).results
        assert len(results) == len(tasks)
        return results


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A host with users, pip, and version OLD of the stand-in for one of them."""
    with hosts.host_without_systemd() as variables:
        host = Host(variables)
        host.shell(f"useradd -m -s /bin/bash dev; useradd -m -s /bin/sh ops; {SKIPPING}")
        pip = runs.module_task("packages", {"names": ["ca-certificates", "python3-pip"]})
        host.run(pip)
        [result] = host.run(clis(OLD))
        assert ("install", f"standin {OLD}") in actions(result)
        yield host


def clis(version: str = OLD, *, check: bool = False, **options: Any) -> runs.Task:
    """A task that gives user dev the stand-in in a version; other ``options`` of the module replace these."""
    given = {
        "users": ["dev"],
        "agents": ["standin"],
        "manifests": {"standin": manifest(version)},
        "node_requirements": NODE,
    }
    return runs.module_task("agent_clis", given | options, check_mode=check)


def manifest(version: str, **keys: Any) -> dict[str, Any]:
    return {**STANDIN, "package": {**STANDIN["package"], "version": version}, **keys}


def actions(result: runs.Result) -> list[tuple[str, str]]:
    assert not result.get("failed"), result["msg"]
    assert result["changed"] is bool(result["actions"])
    return [(action["action"], action["subject"]) for action in result["actions"]]


def test_a_moved_pin_is_one_change_and_what_runs_is_left_to_run(host: Host) -> None:
    assert host.version_for("dev") == OLD
    host.shell("su --login dev --command 'sleep 300 | esbuild' > /dev/null 2>&1 &")
    predicted, moved, again = host.run(clis(NEW, check=True), clis(NEW), clis(NEW))
    assert actions(predicted) == actions(moved) == [("install", f"standin {NEW}")]
    assert moved["agents"] == {"standin": NEW}
    assert moved["diff"] == predicted["diff"]
    assert actions(again) == []
    assert host.version_for("dev") == NEW
    assert host.shell(f"ls {TREES}").split() == [OLD, NEW, "current"]

    host.shell("pkill -u dev -x sleep")
    later, settled = host.run(clis(NEW), clis(NEW))
    assert actions(later) == [("prune", f"{TREES}/{OLD}")]
    assert actions(settled) == []
    host.run(clis(OLD))


def test_without_a_registry_what_is_there_stays(host: Host) -> None:
    host.shell(OFFLINE)
    more = {"users": ["dev", "ops"]}
    latest = clis("latest", upgrade=True)
    predicted, kept, asked, unasked, shared = host.run(
        clis(NEW, check=True), clis(NEW), latest, clis("latest"), clis(NEW, **more)
    )
    for result in (predicted, kept):
        assert actions(result) == []
        assert result["drift"] == [{"name": "standin", "wanted": NEW, "version": OLD}]
        assert "ECONNREFUSED" in result["warnings"][0]
    assert actions(asked) == []
    assert [item["wanted"] for item in asked["drift"]] == ["latest"]
    assert actions(unasked) == unasked["drift"] == []
    assert actions(shared) == [("link", "/opt/agentbox/users/ops/esbuild")]
    assert host.version_for("ops") == OLD

    other = {"standin": manifest(OLD), "other": {**manifest(NEW), "name": "other", "binary": "other"}}
    [half] = host.run(clis(manifests=other, agents=["other", "standin"], **more))
    assert half["failed"]
    assert half["msg"].startswith("the registry for other 0.28.2 can't be reached")
    assert half["agents"] == {"standin": OLD}

    # What does not run any more can't be kept, and can't be repaired now.
    host.shell(f"find {TREES} -type f -name esbuild -delete")
    [lost] = host.run(clis())
    assert "can't be reached" in lost["msg"]
    host.shell(SKIPPING)
    predicted, repaired, quiet = host.run(clis(check=True), clis(), clis())
    assert actions(predicted) == actions(repaired)
    assert ("install", f"standin {OLD}") in actions(repaired)
    assert actions(quiet) == []
    assert host.version_for("dev") == OLD


def test_a_program_of_the_user_is_named_and_stays(host: Host) -> None:
    own = "/home/dev/.local/bin/esbuild"
    host.shell(f"su dev -c 'mkdir -p ~/.local/bin; echo echo mine > {own}; chmod +x {own}'")
    checked, ran = host.run(clis(check=True), clis())
    host_says = host.shell(f"cat {own}")
    host.shell(f"rm {own}")
    for result in (checked, ran):
        assert f"standin of dev: the login shell finds {own} before /opt/agentbox/users/dev/esbuild" in result["msg"]
    assert host_says == "echo mine"


def test_what_was_installed_and_does_not_run_is_not_put_into_use(host: Host) -> None:
    silent = {**manifest(NEW), "name": "silent", "version": {"argv": ["silent", "--version"], "pattern": "(.*)"}}
    silent["binary"] = "silent"
    both = {"standin": manifest(OLD), "silent": silent}
    host.shell(f"mkdir {TREES}/.new")  # as an interrupted run leaves it
    [result] = host.run(clis(manifests=both, agents=["silent", "standin"]))
    assert "silent 0.28.2 was installed and does not run: silent --version failed with status 127" in result["msg"]
    assert "npm neither ignores scripts (ignore-scripts) nor omits optional packages" in result["msg"]
    assert host.shell("ls -A /opt/agentbox/agents").split() == ["standin"]
    assert host.shell(f"ls -A {TREES}").split() == [OLD, "current"]
    assert host.version_for("dev") == OLD


def test_users_who_can_not_have_agents_are_refused_by_name(host: Host) -> None:
    host.shell("useradd -s /usr/sbin/nologin service")
    unknown, barred = host.run(clis(users="dev, nobody-here, not-here"), clis(users=["service", "dev"]))
    assert unknown["msg"] == "users: there is no user nobody-here, not-here on this host"
    assert barred["msg"].startswith("users: no login shell: service (/usr/sbin/nologin).")


@pytest.mark.full
def test_many_users_with_other_shells_and_then_nobody(host: Host) -> None:
    install = "DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y zsh fish"
    host.shell(f"apt-get -qq update; {install}; cp /etc/zsh/zprofile /root/zprofile")
    shells = ["/bin/bash", "/usr/bin/zsh", "/usr/bin/fish"] * 4
    names = [f"user{number}" for number in range(len(shells))]
    host.shell("; ".join(f"useradd -m -s {shell} {name}" for name, shell in zip(names, shells, strict=True)))
    given, again = host.run(clis(users=names), clis(users=names))
    assert given["users"] == {name: ["esbuild"] for name in names}
    assert actions(again) == []
    assert [host.version_for(name) for name in names[:3]] == [OLD] * 3

    host.shell("touch /opt/agentbox/foreign")
    absent, gone = host.run(clis(state="absent"), clis(state="absent"))
    assert absent["changed"]
    assert actions(gone) == []
    assert host.shell("ls -A /opt/agentbox") == "foreign"
    assert host.shell("ls /etc/profile.d/agentbox.sh /etc/fish/conf.d/agentbox.fish") == ""
    assert host.shell("cmp /etc/zsh/zprofile /root/zprofile && echo same") == "same"
    assert [host.version_for(name) for name in names[:2]] == [""] * 2


@pytest.mark.full
def test_the_real_agents() -> None:
    with hosts.host_without_systemd() as variables:
        host = Host(variables)
        host.shell("useradd -m -s /bin/bash dev; useradd -m -s /bin/bash ops")
        users = ["dev", {"name": "ops", "agents": ["claude", "codex"]}]
        role = runs.role_task("agent_clis", {"agent_clis_users": users})
        first, second = (runs.play([role], variables=variables) for _ in range(2))
        assert first.returncode == 0, first.output
        assert second.changed == []
        versions = {name: pinned(name) for name in ("claude", "codex")}
        assert versions["claude"] in host.shell("su --login dev --command 'claude --version'")
        assert versions["codex"] in host.shell("su --login ops --command 'codex --version'")
        assert host.shell("su --login dev --command 'command -v codex'") == ""


def pinned(agent: str) -> str:
    version: str = yaml.safe_load((ROOT / "agents" / f"{agent}.yml").read_text(encoding="utf-8"))["package"]["version"]
    return version
