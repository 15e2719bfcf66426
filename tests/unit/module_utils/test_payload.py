"""What a resolved box becomes on the engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared import _files, _naming, _proxy
from agentbox._shared._acl import AclFacts
from agentbox._shared._box import EngineFacts
from agentbox._shared._errors import DeclarationError
from agentbox._shared._host import Identity, Person
from agentbox._shared._payload import create_payload, home_directories, keeping_volume, leading_to_mounts
from agentbox._shared._spec import parse_boxes
from agentbox._shared._state import Digester
from tests.unit.module_utils.box_samples import (
    CONTEXT,
    GIB,
    MANIFESTS,
    SETTING,
    STATE_DIR,
    UID,
    WORKSPACE,
    box,
    workspace,
)

PROFILE = Path(__file__).parents[3] / "templates" / "box" / "seccomp-strict.json"
# No box makes them under the strict profile; what it makes of each is seen in tests/integration/test_box_reach.py.
FORBIDDEN = {
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "pidfd_send_signal"),
    *("mount", "umount2", "fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree", "pivot_root"),
    *("unshare", "setns", "clone3", "bpf", "perf_event_open", "userfaultfd", "memfd_create", "keyctl"),
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),
}
# Allowed with some arguments only.
CONDITIONAL = {"clone", "socket", "personality", "execveat", "seccomp", "prctl"}
PR_SET_SECCOMP = 22


def payload(**declared: Any) -> dict[str, Any]:
    return create_payload(box(**declared), CONTEXT)


def mounts(created: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    return {item["Target"]: (item["Source"], item["ReadOnly"]) for item in created["HostConfig"]["Mounts"]}


def test_every_box_is_hardened() -> None:
    host = payload()["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] == []
    assert host["Privileged"] is False
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Memory"] == host["MemorySwap"] == 4 * GIB
    assert host["NanoCpus"] == 4_000_000_000
    assert host["PidsLimit"] == 512
    assert host["Ulimits"] == [{"Name": "nofile", "Soft": 4096, "Hard": 8192}]
    assert host["RestartPolicy"] == {"Name": "unless-stopped"}
    assert (host["Init"], host["IpcMode"], host["CgroupnsMode"]) == (True, "private", "private")
    assert list(host["Tmpfs"]) == ["/tmp"]  # noqa: S108 - a path in the box
    assert {"exec", "nosuid", "nodev", f"size={GIB}"} <= set(*(text.split(",") for text in host["Tmpfs"].values()))
    assert payload()["User"] == f"{UID}:0"


def test_limits_are_capped_so_that_a_small_host_lives() -> None:
    small = replace(SETTING, engine=EngineFacts(cpus=2, memory=2 * GIB, runtimes=None))
    host = create_payload(box(setting=small, cpus=8, memory="64g"), CONTEXT)["HostConfig"]
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (2_000_000_000, 3 * GIB // 2, 3 * GIB // 2)
    labels = [create_payload(box(setting=one, cpus=8), CONTEXT)["Labels"] for one in (small, SETTING)]
    assert labels[0][_naming.LABEL_SPEC] == labels[1][_naming.LABEL_SPEC], "the digest is of what is declared"


def test_the_command_and_working_directory() -> None:
    created = payload()
    assert (created["Entrypoint"], created["Cmd"]) == ([], ["bash", "/agentbox/entry.sh"])
    assert created["WorkingDir"] == "/workspace"
    mirrored = payload(workspace_target="mirror")
    assert mirrored["WorkingDir"] == WORKSPACE
    assert mounts(mirrored)[WORKSPACE] == (WORKSPACE, False)
    assert "GIT_CONFIG_VALUE_0=/srv/code/web" in mirrored["Env"]


def test_a_mirrored_workspace_covers_nothing_a_box_needs_whatever_link_leads_there() -> None:
    with pytest.raises(DeclarationError, match=r"boxes\[0\].workspace_target: target /home/agent is taken"):
        box(workspace_target="mirror", facts=workspace(path="/home/agent"))


def test_what_agentbox_mounts() -> None:
    below = f"{STATE_DIR}/boxes/web"
    assert mounts(payload()) == {
        "/agentbox": (f"{below}/mount", True),
        "/etc/passwd": (f"{below}/mount/passwd", True),
        "/run/agentbox": (f"{STATE_DIR}/relay/web", True),
        "/etc/claude-code": (f"{below}/claude", True),
        "/home/agent": ("abx-web-home", False),
        "/home/agent/.npm": (f"abx-cache-npm-{UID}", False),
        "/home/agent/.cache/pip": (f"abx-cache-pip-{UID}", False),
        "/home/agent/.cargo/registry": (f"abx-cache-cargo-{UID}", False),
        "/workspace": (WORKSPACE, False),
    }


def test_mounts_are_never_parsed_nor_made() -> None:
    odd = '/srv/My Repo_Ünï, "a:b" ' + "x" * 140
    created = create_payload(box(workspace=odd, facts=workspace(path=odd)), CONTEXT)
    assert mounts(created)["/workspace"] == (odd, False)
    assert created["Labels"][_naming.LABEL_WORKSPACE] == odd
    assert "Binds" not in created["HostConfig"]
    assert not any("CreateMountpoint" in item.get("BindOptions", {}) for item in created["HostConfig"]["Mounts"])


def test_what_is_declared_beside() -> None:
    created = payload(
        env={"A": "x=y"},
        mounts=["/data:/data:ro"],
        volumes=["own:/own"],
        gpus=2,
        read_only=True,
        seccomp="strict",
        publish="127.0.0.1:4400",
        shm_size="1g",
    )
    host = created["HostConfig"]
    assert "A=x=y" in created["Env"]
    assert mounts(created)["/data"] == ("/data", True)
    assert mounts(created)["/own"] == ("own", False)
    assert host["DeviceRequests"] == [{"Driver": "", "Count": 2, "Capabilities": [["gpu"]]}]
    assert host["ReadonlyRootfs"] is True
    assert host["SecurityOpt"][1] == 'seccomp={"defaultAction": "x"}'
    assert host["PortBindings"] == {"4317/tcp": [{"HostIp": "127.0.0.1", "HostPort": "4400"}]}
    assert host["ShmSize"] == GIB


@pytest.mark.parametrize(("declared", "network"), [("bridge", "abx"), ("none", "none"), ("lan", "lan")])
def test_networks(declared: str, network: str) -> None:
    created = payload(network=declared)
    assert created["HostConfig"]["NetworkMode"] == network
    assert list(created["NetworkingConfig"]["EndpointsConfig"]) == ([] if network == "none" else [network])


def test_further_networks_and_ports() -> None:
    created = payload(networks=["lan", "db"], ports=["8080:80", "192.0.2.7:53:53/udp", "81:80"], publish=4400)
    assert list(created["NetworkingConfig"]["EndpointsConfig"]) == ["abx", "db", "lan"]
    assert created["HostConfig"]["NetworkMode"] == "abx"
    local = "127.0.0.1"
    assert created["HostConfig"]["PortBindings"] == {
        "4317/tcp": [{"HostIp": local, "HostPort": "4400"}],
        "80/tcp": [{"HostIp": local, "HostPort": "81"}, {"HostIp": local, "HostPort": "8080"}],
        "53/udp": [{"HostIp": "192.0.2.7", "HostPort": "53"}],
    }
    assert created["ExposedPorts"] == {"4317/tcp": {}, "80/tcp": {}, "53/udp": {}}


def test_the_health_check_asks_the_page_unless_declared() -> None:
    usual = payload()["Healthcheck"]
    assert usual["Test"] == ["CMD", "curl", "-fsS", "-m", "3", "http://127.0.0.1:4317/healthz"]
    assert payload(healthcheck="none")["Healthcheck"] == {"Test": ["NONE"]}
    slower = payload(healthcheck={"interval": "2m", "retries": 5})["Healthcheck"]
    assert slower == {**usual, "Interval": 120_000_000_000, "Retries": 5}
    own = payload(healthcheck={"command": ["test", "-e", "ready"], "start_period": 0})["Healthcheck"]
    assert own == {**usual, "Test": ["CMD", "test", "-e", "ready"], "StartPeriod": 0}


def test_a_sealed_box_has_nothing_of_its_host_but_the_workspace() -> None:
    rich = replace(
        SETTING,
        identity=Identity(gitconfig="/home/dev/.gitconfig", gh="/home/dev/.config/gh"),
        proxy=_proxy.environment({"https_proxy": "http://user:canary@proxy.example:3128"}),
    )
    created = create_payload(box(setting=rich, sealed=True, name="default"), CONTEXT)
    host = created["HostConfig"]
    assert (host["NetworkMode"], host["PortBindings"], created["ExposedPorts"]) == ("none", {}, {})
    assert created["NetworkingConfig"] == {"EndpointsConfig": {}}
    assert "proxy" not in json.dumps(created).lower()
    binds = [item["Source"] for item in host["Mounts"] if item["Type"] == "bind"]
    assert [source for source in binds if not source.startswith(STATE_DIR)] == [WORKSPACE]


def test_the_runtime_is_named_only_when_it_is_another() -> None:
    with_runsc = replace(SETTING, engine=replace(SETTING.engine, runtimes=("runc", "runsc")))
    assert "Runtime" not in payload()["HostConfig"]
    assert create_payload(box(setting=with_runsc, runtime="runsc"), CONTEXT)["HostConfig"]["Runtime"] == "runsc"
    with pytest.raises(DeclarationError, match=r"boxes\[0\].runtime: the engine has no runtime runsc"):
        box(runtime="runsc")


def test_identity_is_read_only() -> None:
    known = replace(SETTING, identity=Identity(gitconfig="/home/dev/.gitconfig", gh="/home/dev/.config/gh"))
    found = mounts(create_payload(box(setting=known), CONTEXT))
    assert found["/etc/gitconfig"] == ("/home/dev/.gitconfig", True)
    assert found["/home/agent/.config/gh"] == ("/home/dev/.config/gh", True)


def test_no_secret_is_in_the_payload_nor_in_a_readable_file() -> None:
    raw = [{"name": "web", "workspace": WORKSPACE}]
    declared = parse_boxes(raw, instance="abx", manifests=MANIFESTS, secrets={"web": ["TOKEN"]})[0]
    secret = replace(box(), spec=declared)
    values = {"TOKEN": "canary"}
    assert "canary" not in json.dumps(create_payload(secret, CONTEXT))
    files = [*_files.free_files(secret, values), *_files.bound_files(secret, CONTEXT, values, Digester(b"k"))]
    holding = [file for file in files if b"canary" in file.content]
    assert [(file.path, file.mode, file.uid, file.secret) for file in holding] == [
        (f"{STATE_DIR}/boxes/web/mount/secrets/TOKEN", 0o400, UID, True)
    ]
    record = _files.record(secret, CONTEXT, values, Digester(b"k"))
    assert record["secrets"] != _files.record(secret, CONTEXT, values, Digester(b"other"))["secrets"]


def test_home_directories_come_with_their_parents() -> None:
    """Parents come first; what holds a login is the box user's alone."""
    shared = [".cache", ".cache/pip", ".cargo", ".cargo/registry", ".config", ".npm"]
    found = home_directories(box())
    assert list(found) == sorted([*shared, ".claude"])
    assert found == {**dict.fromkeys(shared, 0o755), ".claude": 0o700}


def test_what_leads_to_mounts_in_home_is_the_box_users() -> None:
    declared = box(
        mounts=["/srv/key:/home/agent/.keys/box/id:ro"], volumes=["uv:/home/agent/.local/share/uv", "x:/data/x"]
    )
    assert leading_to_mounts(declared) == [".keys", ".keys/box", ".local", ".local/share"]
    made = home_directories(declared)
    assert {path: made[path] for path in leading_to_mounts(declared)} == dict.fromkeys(
        leading_to_mounts(declared), 0o755
    )
    assert list(made).index(".local") < list(made).index(".local/share")
    assert leading_to_mounts(box()) == []


@pytest.mark.parametrize(
    ("directory", "made"), [("/data/claude", []), ("/home/agent/x/y", ["x", "x/y"]), ("/home/agent/z/", ["z"])]
)
def test_a_moved_config_directory_is_made_where_it_is(directory: str, made: list[str]) -> None:
    moved = box(env={"CLAUDE_CONFIG_DIR": directory})
    found = home_directories(moved)
    assert [path for path in found if path not in home_directories(box(agents=[], lead="none"))] == made
    assert all(found[path] == 0o700 for path in made[-1:])
    assert f"CLAUDE_CONFIG_DIR={directory}" in create_payload(moved, CONTEXT)["Env"]


def test_a_volume_keeps_what_is_written_into_it_and_no_other_mount_over_it() -> None:
    wanted = box(volumes=["data:/data", "fixed:/data/fixed:ro"], mounts=["/srv/x:/home/agent/.claude/plugins"])
    kept = {
        "/home/agent/.claude/login": "abx-web-home",
        "/home/agent/.npm/x": "abx-cache-npm-1234",
        "/data/claude/login": "data",
        "/data/fixed/login": None,
        "/home/agent/.claude/plugins/x": None,
        "/workspace/login": None,
        "/opt/x/login": None,
    }
    found = {path: keeping_volume(wanted, path) for path in kept}
    assert {path: mount and mount["Source"] for path, mount in found.items()} == kept


def test_without_credentials_no_login_of_gh_comes_in() -> None:
    setting = replace(SETTING, identity=Identity(gitconfig="/home/dev/.gitconfig", gh="/home/dev/.config/gh"))
    auto, none = (mounts(create_payload(box(setting=setting, credentials=mode), CONTEXT)) for mode in ("auto", "none"))
    assert set(auto) - set(none) == {"/home/agent/.config/gh"}


def test_passwd_knows_the_box_uid() -> None:
    assert f"agent:x:{UID}:0:agent:/home/agent:/bin/bash" in _files.passwd(UID).splitlines()


def test_proxy_variables_in_both_cases_and_never_for_loopback() -> None:
    found = _proxy.environment({"HTTPS_PROXY": "http://proxy.example:3128", "no_proxy": "intra.example,localhost"})
    assert found["https_proxy"] == found["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert found["NO_PROXY"] == found["no_proxy"] == "intra.example,localhost,127.0.0.1,::1"
    assert _proxy.environment({"http_proxy": "", "https_proxy": None}) == {}
    with pytest.raises(DeclarationError, match=r"proxy\.http: unknown key"):
        _proxy.environment({"http": "x"})


class TestUid:
    def test_of_the_workspaces_owner(self) -> None:
        assert box(facts=workspace(owner=501)).uid == 501

    def test_of_the_person_for_a_workspace_of_root(self) -> None:
        assert box(facts=workspace(owner=0)).uid == 1000
        sudo = replace(SETTING, person=Person("/home/dev", 1001, 0))
        assert box(setting=sudo, facts=workspace(owner=0)).uid == 1001

    def test_declared(self) -> None:
        assert box(uid=12345, facts=workspace(owner=501)).uid == 12345


class TestWorkspaceAccess:
    def test_the_owner_needs_no_list(self) -> None:
        assert box().acl_uids == ()

    def test_another_uid_gets_an_entry_and_the_owner_keeps_access(self) -> None:
        assert box(uid=12345).acl_uids == (UID, 12345)

    def test_root_needs_no_entry(self) -> None:
        assert box(facts=workspace(owner=0)).acl_uids == (1000,)

    def test_entries_that_stand_are_not_set_again(self) -> None:
        granted = AclFacts(True, {1000: 7}, {1000: 7})
        assert box(facts=workspace(owner=0, acl=granted)).acl_uids == ()
        masked = AclFacts(True, {1000: 5}, {1000: 7})
        assert box(facts=workspace(owner=0, acl=masked)).acl_uids == (1000,)

    def test_none_leaves_the_workspace_alone(self) -> None:
        assert box(uid=12345, workspace_access="none").acl_uids == ()

    def test_a_file_system_without_lists_is_named_with_what_to_do(self) -> None:
        with pytest.raises(DeclarationError) as caught:
            box(uid=12345, facts=workspace(acl=AclFacts(False, {}, {})))
        assert f"boxes[0].workspace: {WORKSPACE} belongs to uid {UID}" in str(caught.value)
        assert "workspace_access: none" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", "is a system directory"),
        ("/etc/agentbox", "is a system directory"),
        ("/home", "is a system directory"),
        ("/opt/agentbox", "holds or lies in /opt/agentbox"),
        ("/opt/agentbox/src", "holds or lies in /opt/agentbox"),
        (STATE_DIR, "holds or lies in"),
    ],
)
def test_a_workspace_that_rules_the_host_is_refused(path: str, reason: str) -> None:
    with pytest.raises(DeclarationError, match=reason):
        box(workspace=path, facts=workspace(path=path))


def test_a_neighbour_of_a_protected_directory_is_fine() -> None:
    assert box(workspace="/opt/agentbox2", facts=workspace(path="/opt/agentbox2")).workspace == "/opt/agentbox2"


def test_only_the_default_workspace_is_made() -> None:
    home = "/home/dev/agentbox-workspace"
    made = box(workspace=None, facts=workspace(owner=None, path=home))
    assert (made.workspace, made.workspace_missing, made.uid) == (home, True, 1000)
    with pytest.raises(DeclarationError, match=r"boxes\[0\].workspace: /srv/code/web does not exist"):
        box(facts=workspace(owner=None))


def test_a_relay_path_too_long_for_a_socket_is_refused() -> None:
    deep = replace(SETTING, state_dir="/state/" + "x" * 80)
    with pytest.raises(DeclarationError, match=r"boxes\[0\].name: .* is longer than the 107 bytes"):
        box(setting=deep)


def test_the_strict_profile_allows_no_way_out() -> None:
    profile = json.loads(PROFILE.read_text(encoding="utf-8"))
    allowed = [rule for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW"]
    without_condition = {name for rule in allowed if not rule.get("args") for name in rule["names"]}
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert not {name for rule in allowed for name in rule["names"]} & FORBIDDEN
    assert not without_condition & CONDITIONAL
    assert {"execve", "openat", "read", "write", "mmap", "futex"} <= without_condition


@pytest.mark.parametrize("high", [0, 1 << 32, 1 << 63])
def test_the_strict_profile_allows_every_small_operation_but_installing_a_filter(high: int) -> None:
    """The kernel looks at the low 32 bits of prctl's operation, the filter at all 64."""
    profile = json.loads(PROFILE.read_text(encoding="utf-8"))
    conditions = [rule["args"][0] for rule in profile["syscalls"] if "prctl" in rule["names"]]
    matches = {
        "SCMP_CMP_EQ": lambda value, rule: value == rule["value"],
        "SCMP_CMP_LT": lambda value, rule: value < rule["value"],
        "SCMP_CMP_MASKED_EQ": lambda value, rule: value & rule["value"] == rule["valueTwo"],
    }
    allowed = {
        operation for operation in range(128) if any(matches[rule["op"]](high | operation, rule) for rule in conditions)
    }
    assert allowed == (set() if high else set(range(128)) - {PR_SET_SECCOMP})


def test_time_zone_and_locale_are_the_host_s_and_utf_8_unless_declared() -> None:
    assert {"TZ=Europe/Berlin", "LANG=C.UTF-8"} <= set(payload()["Env"])
    declared = payload(timezone="Asia/Tokyo", locale="de_DE.UTF-8")
    assert {"TZ=Asia/Tokyo", "LANG=de_DE.UTF-8"} <= set(declared["Env"])


def test_node_is_told_to_use_a_proxy_where_there_is_one() -> None:
    assert "NODE_USE_ENV_PROXY=1" not in payload()["Env"]
    proxied = replace(SETTING, proxy=_proxy.environment({"https_proxy": "http://proxy.example:3128"}))
    assert "NODE_USE_ENV_PROXY=1" in create_payload(box(setting=proxied), CONTEXT)["Env"]
