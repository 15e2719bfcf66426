"""Role docker on a host without systemd, where the package's init script cannot work and starts are forbidden.

The tests go on from each other's engine, because installing one takes long; each can run alone.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests import hosts
from tests.integration import repositories, runs

START = "Start the engine and wait until it answers"
FORBID_STARTS = "printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d"
# Kills the engine as a crash would, and gives its numbers to another program.
CRASH = """
pkill -KILL -x dockerd; pkill -KILL -x containerd
while pgrep -x dockerd || pgrep -x containerd; do sleep 0.1; done
sleep 600 & other=$!
for file in /run/docker.pid /run/docker-ssd.pid /run/docker/containerd/containerd.pid; do echo $other > $file; done
"""
SOURCE = "Get the engine's packages from upstream"
CANARY = "canary-password"
DAEMON_FILE = "/etc/docker/daemon.json"
# As an administrator wrote it: not our spelling, and one key that we want to be otherwise.
FOREIGN = '{"log-level":   "warn",\n\t"log-opts": {"max-size": "1m"}}\n'
# An image that sleeps, from the host's own files.
SLEEPER = """
tar --create --dereference --directory=/ usr/bin/sleep lib64/ld-linux-x86-64.so.2 lib/x86_64-linux-gnu/libc.so.6 |
    docker import - sleeper
docker run --detach --name sleeper sleeper /usr/bin/sleep infinity
"""
SOURCES = "/etc/apt/sources.list.d"


@dataclass(frozen=True)
class Host:
    variables: dict[str, Any]

    @property
    def name(self) -> str:
        name: str = self.variables["test_host"]
        return name

    def role(self, *, check: bool = False, **variables: Any) -> runs.Run:
        return runs.play([runs.role_task("docker", variables)], check=check, variables=self.variables)

    def play(self, *tasks: runs.Task, **keywords: Any) -> list[runs.Result]:
        return runs.play(tasks, variables=self.variables, **keywords).results

    def configure(self, *calls: dict[str, Any], **keywords: Any) -> list[runs.Result]:
        """Results of calls of module engine_config with these options, one after the other."""
        return self.play(*(runs.module_task("engine_config", options) for options in calls), **keywords)

    def shell(self, command: str) -> str:
        done = subprocess.run(
            ["docker", "exec", self.name, "sh", "-c", command], capture_output=True, text=True, check=False
        )
        return done.stdout

    def inspect(self, field: str) -> str:
        return self.shell(f"docker inspect --format '{{{{{field}}}}}' sleeper").strip()

    def info(self, field: str) -> Any:
        return json.loads(self.shell(f"docker info --format '{{{{json .{field}}}}}'"))


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with hosts.host_without_systemd() as variables:
        yield Host(variables)


@pytest.fixture
def fresh(host: Host) -> Iterator[Host]:
    """With an engine that runs and that nobody configured."""
    if not host.shell("docker version"):
        installed = host.role()
        assert installed.returncode == 0, installed.output
    yield host
    host.shell(f"docker rm --force sleeper; rm -f {DAEMON_FILE} /etc/docker/agentbox.json")


def changed(run: runs.Run) -> list[str]:
    assert run.returncode == 0, run.output
    assert not [result for result in run.results if result.get("failed")], run.output
    return run.changed


def failures(run: runs.Run) -> list[str]:
    return [result["msg"] for result in run.results if result.get("failed")]


def failure(run: runs.Run) -> str:
    """The message of the first task that failed, before which nothing was changed."""
    first = next(index for index, result in enumerate(run.results) if result.get("failed"))
    assert not [result["task"] for result in run.results[:first] if result.get("changed")]
    message: str = run.results[first]["msg"]
    return message


def test_a_platform_that_is_not_known_is_refused_before_anything_is_done(host: Host) -> None:
    host.shell("cp /etc/os-release /root/os-release; sed -i 's/debian/plan9/gI' /etc/os-release")
    refused = host.role(check=True, docker_source="upstream")
    host.shell("cat /root/os-release > /etc/os-release")
    known = "Debian 12, Debian 13, Ubuntu 22, Ubuntu 24"
    assert f"installs one on {known} only, not on plan9 GNU/Linux 12" in failure(refused)
    # Nor does it guess where the vendor's packages are.
    assert "docker_upstream_url has to be the address" in failures(refused)[1]


def test_unknown_machines_and_users_are_refused_by_name(host: Host) -> None:
    """With facts as such a machine would give them."""
    facts = {"architecture": "sparc64", "apparmor": {"status": "disabled"}, "distribution": "Debian"}
    facts |= {"distribution_major_version": "12", "distribution_release": "bookworm", "service_mgr": "init"}
    variables = {"docker_source": "upstream", "docker_upstream_url": repositories.URL, "docker_upstream_key": "/key"}
    variables |= {"docker_users": "root, nobody-of-that-name"}
    given = {"name": "facts", "ansible.builtin.set_fact": {**facts, "cacheable": True}}
    told = failures(runs.play([given, runs.role_task("docker", variables)], check=True, variables=host.variables))
    assert told[0].startswith("there are no packages for the machine sparc64, known are aarch64, amd64")
    assert told[1] == "docker_users: there is no user nobody-of-that-name on this host"


@pytest.mark.timeout(600)
@pytest.mark.full  # setting up the tests does it on every machine without systemd
def test_without_systemd_the_role_starts_the_engine_itself(host: Host) -> None:
    host.shell(FORBID_STARTS)
    assert START in changed(host.role())
    assert host.shell("docker version --format '{{.Server.Version}}'").strip()
    assert changed(host.role()) == []

    # A killed engine, with its number in use by another program: started again, and nothing else changes.
    host.shell(CRASH)
    assert changed(host.role()) == [START]
    assert host.shell("service docker status").strip().endswith("is running.")

    # A stopped one that cannot start: the reason from its log, soon.
    host.shell('service docker stop; echo \'{"bip": "nonsense"}\' > /etc/docker/daemon.json')
    message = failure(host.role(docker_timeout=20))
    assert "the engine ended right after its start" in message
    assert "invalid CIDR address: nonsense" in message
    host.shell("rm /etc/docker/daemon.json")
    assert changed(host.role()) == [START]


def test_declared_keys_go_in_and_come_out_again(fresh: Host) -> None:
    fresh.shell(f"printf '%b' '{FOREIGN}' > {DAEMON_FILE}")
    # Numbers and truth values, of which the engine takes none.
    wanted = {"log_driver": "json-file", "log_opts": {"max-size": "10m", "max-file": 3, "compress": True}}
    predicted, done, again = [fresh.configure(wanted, check=check, diff=True)[0] for check in (True, False, False)]
    assert predicted["actions"] == done["actions"]
    assert done["actions"][:2] == ["set log-driver", "set log-opts"]
    assert done["actions"][-1] == "restart the engine"
    assert done["diff"]["before"][DAEMON_FILE] == {"log-opts": {"max-size": "1m"}}
    assert fresh.info("LoggingDriver") == "json-file"
    assert json.loads(fresh.shell(f"cat {DAEMON_FILE}"))["log-opts"] == {
        "max-size": "10m",
        "max-file": "3",
        "compress": "true",
    }
    assert (again["changed"], again["actions"]) == (False, [])
    fresh.configure({})
    assert fresh.shell(f"cat {DAEMON_FILE}; ls /etc/docker/agentbox*") == FOREIGN.replace("\\t", "\t")


def test_running_containers_never_end_for_a_configuration(fresh: Host) -> None:
    fresh.shell(SLEEPER)
    began = fresh.inspect(".State.StartedAt")
    logs = {"log_driver": "local"}
    first, again = fresh.configure(logs, logs)
    assert first["actions"] == ["set log-driver", "write /etc/docker/agentbox.json", f"write {DAEMON_FILE}"]
    assert (first["restart_needed"], again["restart_needed"]) == (["log-driver"], ["log-driver"])
    assert "1 container runs and would end" in again["warnings"][0]
    assert not again["changed"]
    assert fresh.info("LoggingDriver") == "json-file"

    # The engine takes some keys while it runs, and says so.
    [reloaded] = fresh.configure({**logs, "config": {"max-concurrent-downloads": 2}})
    assert reloaded["actions"][-1] == "reload the engine"
    assert reloaded["restart_needed"] == ["log-driver"]

    # With live restore, which it learns first, what has waited counts too. Not even a refusal ends a container then.
    alive = {**logs, "config": {"live-restore": True}}
    refused, last, after = fresh.configure({**alive, "log_opts": {"nonsense": 1}}, alive, alive)
    assert "the engine refuses the configuration" in refused["msg"]
    assert last["actions"][-1] == "restart the engine"
    assert (after["changed"], after["restart_needed"]) == (False, [])
    assert fresh.info("LoggingDriver") == "local"
    assert (fresh.inspect(".State.Status"), fresh.inspect(".State.StartedAt")) == ("running", began)


def test_what_the_engine_refuses_is_taken_back(fresh: Host) -> None:
    pools = {"address_pools": [{"base": "198.51.100.0/24", "size": 28}]}
    _, refused = fresh.configure(pools, {**pools, "config": {"bip": "nonsense"}})
    assert refused["msg"].endswith("The one before is back, and the engine runs")
    assert "invalid CIDR address: nonsense" in refused["msg"]
    assert json.loads(fresh.shell(f"cat {DAEMON_FILE}")) == {
        "default-address-pools": [{"base": "198.51.100.0/24", "size": 28}]
    }
    created = fresh.shell("docker network create pooled && docker network inspect pooled; docker network rm pooled")
    assert '"Subnet": "198.51.100.' in created


def test_a_file_that_is_not_understood_stays(fresh: Host) -> None:
    fresh.shell(f"printf '{{\"debug\": true' > {DAEMON_FILE}")
    [invalid] = fresh.configure({"config": {"debug": False}})
    fresh.shell(f"mv {DAEMON_FILE} /root/kept.json; ln -s /root/kept.json {DAEMON_FILE}")
    [link] = fresh.configure({"config": {"debug": False}})
    assert f"{DAEMON_FILE} holds no JSON" in invalid["msg"]
    assert f"{DAEMON_FILE} is a symbolic link" in link["msg"]
    assert fresh.shell("cat /root/kept.json") == '{"debug": true'
    fresh.shell(f"rm {DAEMON_FILE}")


def test_the_password_of_a_proxy_stands_in_one_file_for_root(fresh: Host) -> None:
    proxy = {"http_proxy": f"http://user:{CANARY}@192.0.2.1:3128", "no_proxy": "registry.example"}
    run = runs.play(
        [runs.module_task("engine_config", {"proxy": proxy})] * 2, variables=fresh.variables, diff=True, verbosity=3
    )
    done, again = run.results
    assert done["actions"][-1] == "restart the engine"
    assert not again["changed"]
    assert CANARY not in run.output
    assert fresh.shell(f"grep --recursive --files-with-matches {CANARY} /etc") == "/etc/docker/agentbox-proxy.env\n"
    assert fresh.shell("stat --format '%a %U' /etc/docker/agentbox-proxy.env") == "600 root\n"
    variables = fresh.shell("tr '\\0' '\\n' < /proc/$(cat /run/docker.pid)/environ").splitlines()
    assert f"HTTP_PROXY=http://user:{CANARY}@192.0.2.1:3128" in variables
    assert "NO_PROXY=registry.example,localhost,127.0.0.1,::1" in variables

    # Wrong rights are put right; without the proxy, all of it is gone.
    fresh.shell("chmod 644 /etc/docker/agentbox-proxy.env")
    mended, gone = fresh.configure({"proxy": proxy}, {"proxy": {}})
    assert mended["changed"]
    assert gone["actions"][-1] == "restart the engine"
    assert fresh.shell("ls /etc/docker/agentbox*; grep agentbox /etc/default/docker") == ""
    assert "HTTP_PROXY" not in fresh.shell("tr '\\0' '\\n' < /proc/$(cat /run/docker.pid)/environ")


def test_nothing_is_done_for_an_engine_that_these_files_do_not_configure(host: Host) -> None:
    address = {"docker_host": "unix:///run/user/1000/docker.sock"}
    proxy = {"http_proxy": f"http://user:{CANARY}@192.0.2.1:3128"}
    nothing, refused = host.configure({**address, "proxy": proxy}, {**address, "log_driver": "local"})
    assert (nothing["changed"], nothing["actions"]) == (False, [])
    assert "not from here" in nothing["warnings"][0]
    assert "not that of the system's engine" in refused["msg"]


@pytest.mark.full  # the Molecule scenario does the same in every run
def test_absent_takes_everything_back_and_the_second_time_nothing(fresh: Host) -> None:
    fresh.configure({"log_driver": "json-file", "proxy": {"http_proxy": "http://proxy.example:3128"}})
    assert len(changed(fresh.role(docker_state="absent"))) == 3
    assert fresh.shell("pgrep -x dockerd; command -v dockerd; ls /etc/docker/daemon.json /etc/docker/agentbox*") == ""
    assert "agentbox" not in fresh.shell("cat /etc/default/docker")
    assert changed(fresh.role(docker_state="absent")) == []


OLDER = {
    f"{SOURCES}/docker.list": f"deb [signed-by=/usr/share/keyrings/docker.gpg] {repositories.URL} bookworm stable\n",
    f"{SOURCES}/mixed.sources": f"Types: deb\nURIs: {repositories.URL}/\nSuites: bookworm\nComponents: stable\n",
}


def test_a_signed_repository_becomes_the_only_source_of_its_packages(host: Host) -> None:
    repositories.serve(host.name, engine=False)
    for path, content in OLDER.items():
        host.shell(f"printf '%s' '{content}' > {path}")
    options = {"name": "tests", "uri": repositories.URL, "suite": "bookworm", "components": ["stable"]}
    options |= {"machine": "x86_64", "key": repositories.KEY}
    source, absent = (
        runs.module_task("apt_source", options),
        runs.module_task("apt_source", {**options, "state": "absent"}),
    )
    install = runs.module_task("packages", {"names": ["docker-ce-cli"]})
    predicted, done, again, installed = host.play({**source, "check_mode": True}, source, source, install)
    assert predicted["actions"] == done["actions"]
    assert done["actions"] == [
        "write /etc/apt/keyrings/tests.asc",
        *(f"remove {path}" for path in OLDER),
        f"write {SOURCES}/tests.sources",
    ]
    assert not again["changed"]
    # APT works, and takes the signature.
    assert installed["packages"] == ["docker-ce-cli"]
    assert repositories.URL in host.shell("apt-cache policy docker-ce-cli")

    # With the key's address out of reach the installed one stays; without one, the reason is plain.
    repositories.stop(host.name)
    unreachable, removed, nothing, unknown = host.play(source, absent, absent, source)
    assert not unreachable["changed"]
    assert f"cannot fetch the key from {repositories.KEY}" in unreachable["warnings"][0]
    assert (removed["changed"], nothing["changed"]) == (True, False)
    assert f"cannot fetch the key from {repositories.KEY}: [Errno 111] Connection refused" in unknown["msg"]


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_vendors_packages_give_the_engine_and_go_again(host: Host) -> None:
    host.role(docker_state="absent")
    repositories.serve(host.name, engine=True)
    upstream = {"docker_source": "upstream", "docker_upstream_url": repositories.URL}
    upstream |= {"docker_upstream_key": repositories.KEY}
    assert SOURCE in changed(host.role(check=True, **upstream))
    assert {SOURCE, START} < set(changed(host.role(**upstream)))
    assert host.shell("dpkg-query --search /usr/sbin/dockerd") == "docker-ce: /usr/sbin/dockerd\n"
    assert host.shell("docker version --format '{{.Server.Version}}'").strip()
    assert changed(host.role(**upstream)) == []
    # It stays, whatever is declared later.
    assert changed(host.role()) == []
    changed(host.role(docker_state="absent", docker_remove_data=True))
    assert host.shell(f"command -v dockerd docker; find {SOURCES} -name 'agentbox*'") == ""
    assert host.shell("find /etc/apt/keyrings /var/lib/docker -mindepth 1") == ""
    assert changed(host.role(docker_state="absent", docker_remove_data=True)) == []
    repositories.stop(host.name)
    assert "cannot fetch the key" in failure(host.role(**upstream))


@pytest.mark.full
@pytest.mark.timeout(900)
def test_an_engine_that_can_tell_is_asked_before_anything_is_written() -> None:
    with hosts.host_without_systemd("debian-13") as variables:
        host = Host(variables)
        # Newer engines insist on turning IPv6 off, which a container does not let them.
        host.shell("echo export DOCKER_ALLOW_IPV6_ON_IPV4_INTERFACE=1 > /etc/default/docker")
        assert failures(host.role()) == []
        wrong, right = host.configure({"config": {"log-level": "loud"}}, {"log_opts": {"max-file": 3}})
        assert "/etc/docker/daemon.json was left as it is, because dockerd refuses the new one" in wrong["msg"]
        assert "loud" in wrong["msg"]
        assert right["actions"][-1] == "restart the engine"
        assert json.loads(host.shell(f"cat {DAEMON_FILE}")) == {"log-opts": {"max-file": "3"}}
