"""Verdicts about a box's walls: every way to weaken one is named, whether told to the engine or only in force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentbox._shared._health_facts import Hidden, Limits
from agentbox._shared._health_hardening import hardening_check, limits_check, limits_of, pressure_check
from tests.unit.module_utils import health_samples as samples

GIB = 1024**3


def test_a_box_as_it_should_be() -> None:
    check = hardening_check(samples.box(), samples.SOCKET)
    assert check.verdict == "ok"
    assert "uid 1000" in check.seen


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ({"Privileged": True}, "privileged"),
        ({"CapDrop": None}, "capabilities are not dropped"),
        ({"CapDrop": ["NET_RAW", "MKNOD"]}, "capabilities are not dropped"),
        ({"CapAdd": ["cap_net_admin", "SYS_PTRACE"]}, "added capabilities NET_ADMIN, SYS_PTRACE"),
        ({"SecurityOpt": None}, "no-new-privileges is not set"),
        ({"SecurityOpt": ["no-new-privileges:false"]}, "no-new-privileges is not set"),
        ({"SecurityOpt": ["no-new-privileges", "seccomp=unconfined"]}, "seccomp:unconfined"),
        ({"SecurityOpt": ["no-new-privileges", "apparmor:unconfined"]}, "apparmor:unconfined"),
        ({"NetworkMode": "host"}, "shares the network namespace with the host"),
        ({"NetworkMode": "container:0123"}, "shares the network namespace with another container"),
        ({"PidMode": "host"}, "shares the process namespace with the host"),
        ({"IpcMode": "host"}, "shares the IPC namespace with the host"),
        ({"UTSMode": "host"}, "shares the UTS namespace with the host"),
        ({"UsernsMode": "host"}, "shares the user namespace with the host"),
        ({"Devices": [{"PathOnHost": "/dev/kvm"}]}, "host devices"),
    ],
)
def test_a_weakness_the_engine_was_told_of(host: dict[str, Any], named: str) -> None:
    check = hardening_check(samples.box(inspect=samples.inspect(host=host)), samples.SOCKET)
    assert check.verdict == "fail"
    assert named in check.seen


@pytest.mark.parametrize(
    "host",
    [
        {"CapDrop": ["all"]},
        {"SecurityOpt": ["no-new-privileges:true"]},
        {"SecurityOpt": ["no-new-privileges=true", 'seccomp={"defaultAction":"SCMP_ACT_ERRNO"}']},
        {"IpcMode": ""},
    ],
)
def test_other_spellings_of_the_same_wall(host: dict[str, Any]) -> None:
    assert hardening_check(samples.box(inspect=samples.inspect(host=host)), samples.SOCKET).verdict == "ok"


@pytest.mark.parametrize("user", ["0", "0:0", "root", "root:root", ""])
def test_a_box_that_runs_as_root(user: str) -> None:
    check = hardening_check(samples.box(inspect=samples.inspect(config={"User": user})), samples.SOCKET)
    assert (check.verdict, check.seen) == ("fail", "runs as root")


@pytest.mark.parametrize(
    "source",
    ["/var/run/docker.sock", "/run/docker.sock", "/run", "/var/run", "/", "/srv/elsewhere/podman.sock"],
)
def test_a_mount_that_hands_over_the_engine(source: str) -> None:
    inspect = samples.inspect()
    inspect["Mounts"].append({"Type": "bind", "Source": source, "Destination": "/x"})
    for socket in ("/var/run/docker.sock", "/run/docker.sock"):
        check = hardening_check(samples.box(inspect=inspect), socket)
        assert check.verdict == "fail"
        assert source in check.seen


def test_a_mount_that_holds_the_socket_of_an_engine_elsewhere() -> None:
    inspect = samples.inspect()
    inspect["Mounts"].append({"Type": "bind", "Source": "/run/user/1000", "Destination": "/x"})
    assert hardening_check(samples.box(inspect=inspect), "/run/user/1000/docker.sock").verdict == "fail"
    assert hardening_check(samples.box(inspect=inspect), samples.SOCKET).verdict == "ok"


def test_devices_of_a_box_with_gpus() -> None:
    inspect = samples.inspect(host={"Devices": [{"PathOnHost": "/dev/dri"}]})
    facts = samples.box(inspect=inspect, expected=samples.expected(gpus=True))
    assert hardening_check(facts, samples.SOCKET).verdict == "ok"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"effective": 0xA80425FB}, "effective capabilities 00000000a80425fb"),
        ({"permitted": 1}, "permitted capabilities"),
        ({"bounding": 1}, "bounding capabilities"),
        ({"no_new_privileges": False}, "new privileges are possible"),
        ({"seccomp": 0}, "no system call filter"),
        ({"uids": (1000, 0, 1000, 1000)}, "its first process is root"),
    ],
)
def test_a_weakness_only_the_kernel_knows_of(changed: dict[str, Any], named: str) -> None:
    check = hardening_check(samples.box(process=replace(samples.PROCESS, **changed)), samples.SOCKET)
    assert check.verdict == "fail"
    assert named in check.seen


def test_what_could_not_be_seen_in_force_is_undecided() -> None:
    check = hardening_check(samples.box(process=Hidden("process 7 is not visible from here")), samples.SOCKET)
    assert check.verdict == "unknown"
    assert "process 7" in check.seen


def test_under_gvisor_the_hosts_process_is_the_sandbox() -> None:
    facts = samples.box(
        inspect=samples.inspect(host={"Runtime": "runsc"}), process=replace(samples.PROCESS, effective=1, seccomp=0)
    )
    check = hardening_check(facts, samples.SOCKET)
    assert check.verdict == "ok"
    assert "gVisor" in check.seen


def test_limits_as_declared() -> None:
    check = limits_check(samples.box())
    assert (check.verdict, check.seen) == (
        "ok",
        "in force: memory 256 MiB, memory and swap 256 MiB, pids 100, cpus 1",
    )


@pytest.mark.parametrize(
    ("changed", "verdict", "seen"),
    [
        ({"memory": 8 * GIB}, "fail", "memory: declared 256 MiB, in force 8 GiB"),
        ({"memory_swap": GIB}, "fail", "memory and swap: declared 256 MiB, in force 1 GiB"),
        ({"memory": 134217728}, "warn", "memory: declared 256 MiB, in force 128 MiB"),
        ({"pids": 101}, "fail", "pids: declared 100, in force 101"),
        ({"cpus": 1.5}, "fail", "cpus: declared 1, in force 1.5"),
        ({"cpus": 0.5}, "warn", "cpus: declared 1, in force 0.5"),
        ({"cpus": 0.5, "pids": 200}, "fail", "pids: declared 100, in force 200; cpus: declared 1, in force 0.5"),
    ],
)
def test_other_limits_in_force_are_shown_with_both_figures(changed: dict[str, Any], verdict: str, seen: str) -> None:
    cgroup = replace(samples.CGROUP, limits=replace(samples.LIMITS, **changed))
    check = limits_check(samples.box(cgroup=cgroup))
    assert (check.verdict, check.seen) == (verdict, seen)


def test_no_limit_in_force_is_a_failure() -> None:
    cgroup = replace(samples.CGROUP, limits=replace(samples.LIMITS, pids=None), unlimited=frozenset({"pids"}))
    check = limits_check(samples.box(cgroup=cgroup))
    assert (check.verdict, check.seen) == ("fail", "pids: declared 100, in force no limit")


def test_a_kernel_that_does_not_account_for_swap_is_named() -> None:
    cgroup = replace(samples.CGROUP, limits=replace(samples.LIMITS, memory_swap=None))
    check = limits_check(samples.box(cgroup=cgroup))
    assert check.verdict == "warn"
    assert "does not account for memory and swap" in check.seen


def test_limits_that_the_engine_cannot_enforce_are_advisory() -> None:
    """And never hide one that it can and does not."""
    unlimited = replace(samples.CGROUP, limits=replace(samples.LIMITS, cpus=None), unlimited=frozenset({"cpus"}))
    check = limits_check(samples.box(cgroup=unlimited), frozenset({"cpus"}))
    assert (check.verdict, check.seen) == (
        "warn",
        "in force: memory 256 MiB, memory and swap 256 MiB, pids 100; advisory, not enforced by this engine: cpus 1",
    )
    assert "delegated" in check.todo
    more = replace(unlimited, limits=replace(samples.LIMITS, pids=101))
    assert limits_check(samples.box(cgroup=more), frozenset({"cpus"})).verdict == "fail"
    assert limits_check(samples.box(cgroup=Hidden("x")), frozenset({"cpus"})).verdict == "unknown"


def test_an_engine_without_cgroups_makes_all_limits_advisory() -> None:
    every = frozenset({"memory", "memory_swap", "pids", "cpus"})
    check = limits_check(samples.box(cgroup=Hidden("no cgroup of the container")), every)
    assert (check.verdict, check.seen) == (
        "warn",
        "advisory, not enforced by this engine: memory 256 MiB, memory and swap 256 MiB, pids 100, cpus 1",
    )


def test_rounding_of_the_kernel_is_no_difference() -> None:
    cgroup = replace(samples.CGROUP, limits=replace(samples.LIMITS, memory=268435456 - 4095, cpus=1.004))
    assert limits_check(samples.box(cgroup=cgroup)).verdict == "ok"


def test_limits_that_cannot_be_seen_are_undecided() -> None:
    check = limits_check(samples.box(cgroup=Hidden("no cgroup file system is mounted here")))
    assert check.verdict == "unknown"
    assert "memory 256 MiB" in check.seen


@pytest.mark.parametrize("host", [{"Memory": 8 * GIB}, {"PidsLimit": -1}, {"NanoCpus": 0}, {"MemorySwap": -1}])
def test_wrong_limits_are_certain_even_when_the_kernel_cannot_be_asked(host: dict[str, Any]) -> None:
    facts = samples.box(cgroup=Hidden("not visible"), inspect=samples.inspect(host=host))
    assert limits_check(facts).verdict == "fail"


def test_a_box_nobody_declared_is_compared_with_what_the_engine_was_told() -> None:
    facts = samples.box(expected=samples.expected(limits=None))
    assert limits_check(facts).verdict == "ok"
    unlimited = replace(samples.CGROUP, limits=Limits(), unlimited=frozenset({"memory", "memory_swap", "pids", "cpus"}))
    host = {"Memory": 0, "MemorySwap": 0, "PidsLimit": None, "NanoCpus": 0}
    check = limits_check(replace(facts, inspect=samples.inspect(host=host), cgroup=unlimited))
    assert check.verdict == "fail"
    assert "pids: in force no limit" in check.seen


def test_cpus_as_quota_and_period() -> None:
    inspect = samples.inspect(host={"NanoCpus": 0, "CpuQuota": 50000, "CpuPeriod": 100000})
    assert limits_of(inspect).cpus == 0.5


def test_no_pressure() -> None:
    assert pressure_check(samples.box()).verdict == "ok"


def test_processes_killed_at_the_memory_limit_are_explained() -> None:
    check = pressure_check(samples.box(cgroup=replace(samples.CGROUP, oom_kills=3)))
    assert check.verdict == "warn"
    assert "killed 3 processes at the memory limit of 256 MiB" in check.seen
    assert "Raise `memory`" in check.todo


def test_refused_processes_are_explained() -> None:
    check = pressure_check(samples.box(cgroup=replace(samples.CGROUP, pids_refused=7, pids_current=100)))
    assert check.verdict == "warn"
    assert "7 new processes were refused at the limit of 100 (now 100)" in check.seen
    assert "fork bomb" in check.todo


def test_pressure_that_cannot_be_seen_is_undecided() -> None:
    assert pressure_check(samples.box(cgroup=Hidden("not visible"))).verdict == "unknown"
