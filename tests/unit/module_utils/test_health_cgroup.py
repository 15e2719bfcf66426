"""Reading what the kernel enforces, from recorded trees of cgroup v1, v2 and both."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbox._shared._health_cgroup import memory_held, mounted, read_cgroup, read_limits, read_process
from agentbox._shared._health_facts import CgroupFacts, Hidden, Limits, ProcessFacts

ID = "d5cd123cc3481241758328c14443b7245c9bdd0f9b986d37bb787b7c2c9911b6"
PID = 15092

# Recorded on Debian 12, engine 20.10, cgroup v1 with the unified hierarchy beside it.
MEMBERSHIPS_V1 = f"""\
9:name=systemd:/docker/{ID}
8:pids:/docker/{ID}
4:memory:/docker/{ID}
2:cpuacct:/docker/{ID}
1:cpu:/docker/{ID}
0::/docker/{ID}
"""
MOUNTS_V1 = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
FILES_V1 = {
    f"sys/fs/cgroup/memory/docker/{ID}/memory.limit_in_bytes": "268435456\n",
    f"sys/fs/cgroup/memory/docker/{ID}/memory.memsw.limit_in_bytes": "268435456\n",
    f"sys/fs/cgroup/memory/docker/{ID}/memory.stat": "cache 900\nrss 1\nshmem 2\ntotal_rss 4096\ntotal_shmem 8192\n",
    f"sys/fs/cgroup/memory/docker/{ID}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    f"sys/fs/cgroup/pids/docker/{ID}/pids.max": "100\n",
    f"sys/fs/cgroup/pids/docker/{ID}/pids.current": "2\n",
    f"sys/fs/cgroup/pids/docker/{ID}/pids.events": "max 17\n",
    f"sys/fs/cgroup/cpu/docker/{ID}/cpu.cfs_quota_us": "150000\n",
    f"sys/fs/cgroup/cpu/docker/{ID}/cpu.cfs_period_us": "100000\n",
}

# Formats of the kernel's Documentation/admin-guide/cgroup-v2.rst, paths of Docker's systemd driver.
SCOPE = f"sys/fs/cgroup/system.slice/docker-{ID}.scope"
MEMBERSHIPS_V2 = f"0::/system.slice/docker-{ID}.scope\n"
MOUNTS_V2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
FILES_V2 = {
    f"{SCOPE}/memory.max": "536870912\n",
    f"{SCOPE}/memory.swap.max": "0\n",
    f"{SCOPE}/memory.stat": "anon 4096\nfile 900\nkernel 1\nshmem 8192\n",
    f"{SCOPE}/memory.events": "low 0\nhigh 0\nmax 44\noom 2\noom_kill 2\noom_group_kill 0\n",
    f"{SCOPE}/pids.max": "512\n",
    f"{SCOPE}/pids.current": "9\n",
    f"{SCOPE}/pids.events": "max 0\n",
    f"{SCOPE}/cpu.max": "400000 100000\n",
}

STATUS = """\
Name:\tdocker-init
Uid:\t1000\t1000\t1000\t1000
Gid:\t0\t0\t0\t0
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
Seccomp_filters:\t1
"""


def tree(root: Path, memberships: str, mounts: str, files: dict[str, str]) -> Path:
    recorded = {f"proc/{PID}/cgroup": memberships, "proc/self/mountinfo": mounts, **files}
    for name, content in recorded.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="ascii")
    return root


def facts(root: Path) -> CgroupFacts:
    found = read_cgroup(PID, ID, root)
    assert isinstance(found, CgroupFacts)
    return found


def test_version_1(tmp_path: Path) -> None:
    assert facts(tree(tmp_path, MEMBERSHIPS_V1, MOUNTS_V1, FILES_V1)) == CgroupFacts(
        version=1,
        limits=Limits(memory=268435456, memory_swap=268435456, pids=100, cpus=1.5),
        oom_kills=3,
        pids_refused=17,
        pids_current=2,
    )


def test_version_2(tmp_path: Path) -> None:
    assert facts(tree(tmp_path, MEMBERSHIPS_V2, MOUNTS_V2, FILES_V2)) == CgroupFacts(
        version=2,
        limits=Limits(memory=536870912, memory_swap=536870912, pids=512, cpus=4.0),
        oom_kills=2,
        pids_refused=0,
        pids_current=9,
    )


@pytest.mark.parametrize(
    ("memberships", "mounts", "files"), [(MEMBERSHIPS_V1, MOUNTS_V1, FILES_V1), (MEMBERSHIPS_V2, MOUNTS_V2, FILES_V2)]
)
def test_limits_alone_and_what_is_held(tmp_path: Path, memberships: str, mounts: str, files: dict[str, str]) -> None:
    root = tree(tmp_path, memberships, mounts, files)
    alone = read_limits(PID, ID, mounted(root), root)
    assert isinstance(alone, CgroupFacts)
    assert (alone.limits, alone.unlimited, alone.oom_kills) == (facts(root).limits, facts(root).unlimited, None)
    assert memory_held(PID, ID, mounted(root), root) == 12288
    assert memory_held(PID, "f" * 64, mounted(root), root) is None


def test_no_limits_in_version_1(tmp_path: Path) -> None:
    files = {
        **FILES_V1,
        f"sys/fs/cgroup/memory/docker/{ID}/memory.limit_in_bytes": "9223372036854771712\n",
        f"sys/fs/cgroup/memory/docker/{ID}/memory.memsw.limit_in_bytes": "9223372036854771712\n",
        f"sys/fs/cgroup/pids/docker/{ID}/pids.max": "max\n",
        f"sys/fs/cgroup/cpu/docker/{ID}/cpu.cfs_quota_us": "-1\n",
    }
    found = facts(tree(tmp_path, MEMBERSHIPS_V1, MOUNTS_V1, files))
    assert found.limits == Limits()
    assert found.unlimited == {"memory", "memory_swap", "pids", "cpus"}


def test_no_limits_in_version_2(tmp_path: Path) -> None:
    unlimited = {name: "max 100000\n" if name.endswith("cpu.max") else "max\n" for name in FILES_V2}
    found = facts(tree(tmp_path, MEMBERSHIPS_V2, MOUNTS_V2, {**FILES_V2, **unlimited}))
    assert found.limits == Limits()
    assert found.unlimited == {"memory", "memory_swap", "pids", "cpus"}


@pytest.mark.parametrize(
    ("memberships", "mounts", "files", "name"),
    [
        (MEMBERSHIPS_V1, MOUNTS_V1, FILES_V1, f"sys/fs/cgroup/memory/docker/{ID}/memory.memsw.limit_in_bytes"),
        (MEMBERSHIPS_V2, MOUNTS_V2, FILES_V2, f"{SCOPE}/memory.swap.max"),
    ],
)
def test_a_kernel_that_does_not_account_for_swap(
    tmp_path: Path, memberships: str, mounts: str, files: dict[str, str], name: str
) -> None:
    found = facts(tree(tmp_path, memberships, mounts, {key: files[key] for key in files if key != name}))
    assert found.limits.memory is not None
    assert found.limits.memory_swap is None
    assert "memory_swap" not in found.unlimited


def test_a_path_of_any_depth(tmp_path: Path) -> None:
    """A cgroup parent of the engine, below a systemd slice of a host that is a container itself."""
    deep = f"/docker/{'f' * 64}/system.slice/docker.service/boxes/{ID}"
    files = {name.replace(f"/docker/{ID}", deep): content for name, content in FILES_V1.items()}
    memberships = MEMBERSHIPS_V1.replace(f"/docker/{ID}", deep)
    assert facts(tree(tmp_path, memberships, MOUNTS_V1, files)).limits.pids == 100


def test_a_hierarchy_of_which_only_a_part_is_mounted(tmp_path: Path) -> None:
    """In a container the mount shows the container's own cgroup as the top."""
    outer = f"/docker/{'f' * 64}"
    memberships = MEMBERSHIPS_V1.replace(":/docker", f":{outer}/docker")
    mounts = MOUNTS_V1.replace(" / /sys/fs/cgroup/", f" {outer} /sys/fs/cgroup/")
    assert facts(tree(tmp_path, memberships, mounts, FILES_V1)).limits.memory == 268435456


def test_controllers_of_both_versions(tmp_path: Path) -> None:
    """On a hybrid host each controller is in one version only."""
    memberships = f"4:memory:/docker/{ID}\n0::/docker/{ID}\n"
    unified = f"sys/fs/cgroup/unified/docker/{ID}"
    files = {**FILES_V1, f"{unified}/pids.max": "64\n", f"{unified}/cpu.max": "50000 100000\n"}
    found = facts(tree(tmp_path, memberships, MOUNTS_V1, files))
    assert found.limits == Limits(memory=268435456, memory_swap=268435456, pids=64, cpus=0.5)


def test_a_mount_point_with_a_space(tmp_path: Path) -> None:
    mounts = MOUNTS_V2.replace("/sys/fs/cgroup", "/sys/fs/my\\040cgroup")
    files = {name.replace("fs/cgroup", "fs/my cgroup"): content for name, content in FILES_V2.items()}
    assert facts(tree(tmp_path, MEMBERSHIPS_V2, mounts, files)).limits.pids == 512


def test_another_process_of_that_number(tmp_path: Path) -> None:
    """The engine may run behind another process namespace, where its numbers mean other processes."""
    root = tree(tmp_path, MEMBERSHIPS_V1.replace(ID, "a" * 64), MOUNTS_V1, FILES_V1)
    assert read_cgroup(PID, ID, root) == Hidden("the engine's processes are not visible from here")


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    assert isinstance(read_cgroup(PID, ID, tmp_path), Hidden)
    assert read_process(PID, tmp_path) == Hidden(f"process {PID} is not visible from here")


def test_no_cgroups_mounted(tmp_path: Path) -> None:
    root = tree(tmp_path, MEMBERSHIPS_V1, "31 23 0:28 / /sys rw - sysfs sysfs rw\n", {})
    assert read_cgroup(PID, ID, root) == Hidden("no cgroup file system is mounted here")


def test_the_first_process(tmp_path: Path) -> None:
    root = tree(tmp_path, "", "", {f"proc/{PID}/status": STATUS})
    assert read_process(PID, root) == ProcessFacts(
        uids=(1000, 1000, 1000, 1000),
        effective=0,
        permitted=0,
        bounding=0,
        no_new_privileges=True,
        seccomp=2,
    )


def test_a_first_process_with_privileges(tmp_path: Path) -> None:
    privileged = STATUS.replace("CapEff:\t0000000000000000", "CapEff:\t00000000a80425fb").replace(
        "Privs:\t1", "Privs:\t0"
    )
    found = read_process(PID, tree(tmp_path, "", "", {f"proc/{PID}/status": privileged}))
    assert isinstance(found, ProcessFacts)
    assert (found.effective, found.no_new_privileges) == (0xA80425FB, False)


def test_a_status_of_an_old_kernel(tmp_path: Path) -> None:
    root = tree(tmp_path, "", "", {f"proc/{PID}/status": STATUS.replace("NoNewPrivs:\t1\n", "")})
    found = read_process(PID, root)
    assert isinstance(found, Hidden)
    assert "NoNewPrivs" in found.reason
