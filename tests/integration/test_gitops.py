"""A throwaway server converges itself from a repository that it reaches by SSH on loopback, good commits and bad ones.

The tests build on each other: one host, one repository, one history.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import hosts
from tests.integration import runs

# A host with an environment of its own and a dozen runs takes minutes; what a run accepts is in tests/unit/gitops.
pytestmark = pytest.mark.full

INSTALL = "Present | Install the service"
PACKAGES = "Present | Install Git and what makes a Python environment"
NAME = "ada.example"
MOTTO = "a motto that nobody logs"
VAULT_PHRASE = "correct horse battery staple"
PREPARE = """
set -e
ssh-keygen -q -t ed25519 -N '' -f /root/signer
ssh-keygen -q -t ed25519 -N '' -f /root/deploy
cat /root/deploy.pub >> /root/.ssh/authorized_keys
printf 'ada@git.example %s\\n' "$(cat /root/signer.pub)" > /root/signers
printf '127.0.0.1 %s\\n' "$(cat /etc/ssh/ssh_host_ed25519_key.pub)" > /root/known
"""
MAKE_REPOSITORY = """
set -e
git config --global user.name Ada
git config --global user.email ada@git.example
git config --global gpg.format ssh
git config --global user.signingKey /root/signer
git config --global advice.detachedHead false
git init --quiet --bare --initial-branch=main /srv/git/fleet.git
git init --quiet --initial-branch=main /root/fleet
git -C /root/fleet remote add origin /srv/git/fleet.git
"""
INVENTORY = {"all": {"hosts": {NAME: {}, "eve.example": {}}, "vars": {"ansible_become": False}}}
SITE = """
- name: Site
  hosts: all
  gather_facts: false
  tasks:
    - name: Refuse what is too long
      ansible.builtin.assert: {{that: number < 100, fail_msg: "{{{{ number }}}} is too long"}}
      vars: {{number: {number}}}
    - name: Write the motto
      ansible.builtin.copy: {{content: "{{{{ motto }}}} {number}", dest: /etc/motto, mode: "0600"}}
      diff: false
    - name: Have Git
      agentbox.fleet.packages: {{names: [git]}}
{more}"""
ROLES = """  roles: [agentbox.fleet.docker, agentbox.fleet.tmux]
  tasks:
    - name: Become somebody else
      ansible.builtin.command: sh -c 'id -un | tee /tmp/who'
      vars:
        ansible_become: true
        ansible_become_user: nobody
        ansible_become_method: ansible.builtin.su
        ansible_become_flags: -s /bin/sh
        ansible_remote_tmp: /var/tmp/.ansible
      register: who
    - name: Remember who that was
      ansible.builtin.copy: {content: "{{ who.stdout | default() }}", dest: /etc/who, mode: "0644"}
"""
HANG = """
    - name: Hang
      ansible.builtin.command: {argv: [sleep, "300"]}
      changed_when: false
"""


@dataclass(frozen=True)
class Server:
    """A host and its repository."""

    variables: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)

    def role(self, *, check: bool = False, **changed: Any) -> runs.Run:
        done = runs.play(
            [runs.role_task("gitops", {**self.settings, **changed})], check=check, variables=self.variables
        )
        assert done.returncode == 0, done.output
        return done

    def shell(self, script: str) -> str:
        done = self.try_shell(script)
        assert done.returncode == 0, done.stdout
        return done.stdout.strip()

    def try_shell(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", "exec", "--interactive", self.variables["test_host"], "bash"],
            input=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )

    def publish(self, site: str, *, sign: bool = True, force: bool = False) -> str:
        """Commit ``site`` as the playbook and push it; the commit."""
        script = f"""
        set -e
        cd /root/fleet
        cat > site.yml <<'END'
{site}
END
        git add .
        git commit --quiet {"--gpg-sign" if sign else ""} --allow-empty --message next
        git push --quiet {"--force" if force else ""} origin HEAD:main
        git rev-parse HEAD
        """
        return self.shell(script).splitlines()[-1]

    def run(self) -> tuple[bool, dict[str, Any]]:
        """Start the service as its timer does; whether systemd calls it a success, and the status."""
        done = self.try_shell("systemctl start agentbox-gitops.service")
        return done.returncode == 0, self.status()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.shell("cat /var/lib/agentbox-gitops/status.json"))
        return found

    def motto(self) -> str:
        return self.shell("cat /etc/motto 2> /dev/null || true").removeprefix(MOTTO).strip()

    def doctor(self) -> dict[str, str]:
        task = runs.module_task("health", {"fail_on": "never"})
        [result] = runs.play([task], variables=self.variables).results
        [check] = [check for check in result["checks"] if check["id"] == "gitops"]
        return dict(check)


def site(number: int, more: str = "") -> str:
    return SITE.format(number=number, more=more)


def vaulted(directory: Path) -> str:
    """Variables of the inventory, of which one is encrypted."""
    password = directory / "vault"
    password.write_text(VAULT_PHRASE, encoding="ascii")
    program = Path(sys.executable).with_name("ansible-vault")
    command = [str(program), "encrypt_string", "--vault-password-file", str(password), "--name", "motto", MOTTO]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("gitops")
    name = hosts.start("debian-12")
    try:
        hosts.wait_for_systemd(name)
        found = Server({"test_host": name, **hosts.connection(name, directory)})
        found.shell(PREPARE)
        found.shell(f"umask 077; printf %s '{VAULT_PHRASE}' > /root/vault")
        found.settings.update(
            gitops_repository="ssh://root@127.0.0.1/srv/git/fleet.git",
            gitops_inventory="inventory",
            gitops_host=NAME,
            gitops_verify_signatures=True,
            gitops_allowed_signers=[found.shell("cat /root/signers")],
            gitops_known_hosts=[found.shell("cat /root/known")],
            gitops_deploy_key_file="/root/deploy",
            gitops_vault_password_file="/root/vault",  # noqa: S106 - a path
        )
        yield found
    finally:
        hosts.remove(name)


def test_wrong_settings_are_refused_before_anything_is_done(server: Server) -> None:
    wrong = [{"gitops_repository": ""}, {"gitops_schedule": "whenever"}]
    tasks = [runs.role_task("gitops", {**server.settings, **changed}) for changed in wrong]
    done = runs.play(tasks, check=True, variables=server.variables)
    told = [result["msg"] for result in done.results if result.get("failed")]
    assert "needs gitops_repository (it is empty)" in told[0]
    assert "systemd does not accept them" in told[-1]
    assert "whenever" in told[-1]


def test_check_mode_tells_what_would_be_done_and_does_nothing(server: Server) -> None:
    assert server.role(check=True).changed == [PACKAGES, INSTALL]
    left = "ls -d /opt/agentbox-gitops /etc/agentbox-gitops /etc/systemd/system/agentbox-gitops.* 2> /dev/null || true"
    assert server.shell(left) == ""
    assert server.try_shell("which git").returncode != 0


@pytest.mark.timeout(600)
def test_installs_once(server: Server) -> None:
    assert server.role(gitops_mode="report").changed == [PACKAGES, INSTALL]
    assert server.role(gitops_mode="report").changed == []
    assert server.shell("stat --format=%a /etc/agentbox-gitops/config.json") == "600"
    assert server.shell("systemctl is-enabled agentbox-gitops.timer; systemctl is-active agentbox-gitops.timer") == (
        "enabled\nactive"
    )
    assert server.shell("systemd-analyze verify --man=no agentbox-gitops.service agentbox-gitops.timer") == ""
    exposure = server.shell("systemd-analyze security --no-pager agentbox-gitops.service | tail -1")
    assert float(exposure.rsplit(": ", 1)[1].split()[0]) <= 6.5, exposure
    assert server.doctor()["seen"] == "no run yet"


def test_reporting_changes_nothing(server: Server, tmp_path: Path) -> None:
    server.shell(MAKE_REPOSITORY)
    files = {"hosts.json": json.dumps(INVENTORY), "group_vars/all.yml": vaulted(tmp_path)}
    for name, text in files.items():
        server.shell(
            f"mkdir -p /root/fleet/inventory/group_vars\ncat > /root/fleet/inventory/{name} <<'END'\n{text}\nEND"
        )
    server.shell("mv /root/fleet/inventory/hosts.json /root/fleet/inventory/hosts.yml")
    commit = server.publish(site(1))
    success, status = server.run()
    assert success, server.shell("journalctl --unit agentbox-gitops.service --output cat")
    assert (status["outcome"], status["commit"], status["applied"]) == ("drift", commit, None)
    assert status["counts"] == {"hosts": 1, "changed": 1, "failed": 0, "drift": 0}
    assert server.motto() == ""
    table = server.shell("cat /var/lib/agentbox-gitops/reports/check.md")
    assert f"| `{NAME}` |  | `Write the motto` | `changed` | `ansible.builtin.copy` |" in table


def test_converging_follows_the_report(server: Server) -> None:
    assert server.role().changed == [INSTALL]
    success, status = server.run()
    assert success
    assert (status["outcome"], status["applied"]) == ("ok", status["commit"])
    assert server.motto() == "1"
    journal = server.shell("journalctl --unit agentbox-gitops.service --output cat")
    assert f"ok: converge main at {status['commit'][:12]}: 1 change" in journal
    assert "Invoked with" not in journal, "modules tell what they were called with"
    everything = server.shell("journalctl --output cat")
    for place in (everything, json.dumps(status)):
        assert MOTTO not in place
        assert VAULT_PHRASE not in place


def bad(server: Server, outcome: str, reason: str) -> None:
    """A run fails with ``outcome``, says why, and leaves what was there."""
    applied = server.status()["applied"]
    success, status = server.run()
    assert not success
    assert (status["outcome"], status["applied"]) == (outcome, applied), status
    assert reason in status["reason"]
    assert server.motto() == "1"
    assert server.shell("systemctl is-failed agentbox-gitops.service") == "failed"


def test_bad_commits_leave_the_old_state_and_the_next_good_one_recovers(server: Server) -> None:
    server.publish("- name: [broken\n")
    bad(server, "failed", "check: YAML parsing failed")
    seen = server.doctor()
    assert (seen["verdict"], "YAML parsing failed" in seen["seen"]) == ("fail", True)

    server.publish(site(100))
    bad(
        server,
        "failed",
        "check: Refuse what is too long (ansible.builtin.assert) failed on ada.example: 100 is too long",
    )

    server.publish(site(3).replace("hosts: all", "hosts: eve.example"))
    bad(server, "failed", f"check: site.yml does nothing on host {NAME}")

    server.publish(site(4), sign=False)
    bad(server, "refused", "is not signed by an allowed key: it has no signature")

    server.publish(site(5))
    success, status = server.run()
    assert (success, status["outcome"], server.motto()) == (True, "ok", "5")
    assert server.doctor()["verdict"] == "ok"


def test_a_rewritten_branch_is_refused_where_signatures_are_required(server: Server) -> None:
    before = server.status()["commit"]
    server.shell("git -C /root/fleet reset --quiet --hard HEAD~2")
    server.publish(site(6), force=True)
    success, status = server.run()
    assert (success, status["outcome"], server.motto()) == (False, "refused", "5")
    assert f"does not build on {before[:12]}" in status["reason"]
    server.shell(f"git -C /root/fleet reset --quiet --hard {before}")
    server.publish(site(7), force=True)  # what comes after builds on what was accepted


@pytest.mark.full
def test_one_run_at_a_time_and_a_killed_one_harms_nothing(server: Server) -> None:
    server.publish(site(8, HANG))
    server.shell("systemctl start --no-block agentbox-gitops.service")
    deadline = time.monotonic() + 120
    while not server.shell("pgrep --full --exact 'sleep 300' || true"):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert "a run goes on" in server.doctor()["seen"]
    program = "cd /; PYTHONPATH=/opt/agentbox-gitops/collections/ansible_collections/agentbox/fleet/src"
    by_hand = server.try_shell(f"{program} /opt/agentbox-gitops/python/bin/python -m agentbox.gitops run")
    assert by_hand.returncode == 75
    assert "not run: " in by_hand.stdout

    server.shell("systemctl kill --signal=KILL agentbox-gitops.service; touch /var/lib/agentbox-gitops/work/tree/left")
    while server.try_shell("systemctl is-failed agentbox-gitops.service").returncode != 0:
        time.sleep(0.2)
    assert server.status()["outcome"] == "running"
    assert server.doctor()["verdict"] == "fail"
    server.shell("touch /var/lib/agentbox-gitops/work/repository.git/refs/heads/followed.lock")
    server.publish(site(9))
    assert server.run()[0]
    assert server.motto() == "9"
    assert server.shell("pgrep --full --exact 'sleep 300' || true") == ""


@pytest.mark.full
def test_the_time_limit_ends_a_run_and_the_status_says_so(server: Server) -> None:
    server.role(gitops_timeout="15s")
    server.publish(site(10, HANG))
    success, status = server.run()
    assert (success, status["outcome"]) == (False, "failed")
    assert "ended by SIGTERM (stopped, or over its time limit)" in status["reason"]
    server.role()
    server.publish(site(11))
    assert server.run()[0]


@pytest.mark.full
def test_a_full_disk_is_told_and_over_when_there_is_room(server: Server) -> None:
    server.shell(
        "cd /var/lib; mount -t tmpfs -o size=1m full agentbox-gitops; head -c 2M /dev/zero > agentbox-gitops/f || true"
    )
    assert server.try_shell("systemctl start agentbox-gitops.service").returncode != 0
    assert "No space left on device" in server.shell("journalctl --output cat --identifier python --lines 1")
    assert server.doctor()["verdict"] == "fail"
    server.shell("rm /var/lib/agentbox-gitops/f; umount /var/lib/agentbox-gitops")
    assert server.run()[0]


@pytest.mark.full
@pytest.mark.timeout(900)
def test_roles_work_from_within_the_hardened_unit(server: Server) -> None:
    server.publish(site(8).replace("  tasks:", ROLES))
    success, status = server.run()
    assert (success, status["outcome"]) == (True, "ok"), status
    assert server.shell("docker version --format '{{.Server.Version}}'; tmux -V")
    assert server.shell("cat /tmp/who 2> /dev/null || true") == "", "its /tmp is its own"
    assert server.shell("cat /etc/who") == "nobody"


def test_absent_leaves_nothing(server: Server) -> None:
    absent = {"gitops_state": "absent", "gitops_remove_data": True}
    assert server.role(check=True, **absent).changed == ["Absent | Remove the service"]
    assert server.role(**absent).changed == ["Absent | Remove the service"]
    assert server.role(**absent).changed == []
    left = "ls -d /opt/agentbox-gitops /etc/agentbox-gitops /var/lib/agentbox-gitops /etc/systemd/system/*gitops*"
    assert "agentbox-gitops" not in server.try_shell(f"{left} 2> /dev/null").stdout
    assert server.shell("systemctl list-units --all --plain --no-legend 'agentbox-gitops*'") == ""
    assert server.motto() != "", "what the playbook made is the playbook's"
