"""From what is declared and what exists to what is done."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from agentbox._shared import _files, _plan, _state
from agentbox._shared._errors import AgentboxError, DeclarationError
from agentbox._shared._health_facts import CgroupFacts, Limits
from agentbox._shared._ownership import ForeignBoxError, NewerBoxError
from agentbox._shared._plan import BoxPlan, Situation, plan_absent, plan_box
from agentbox._shared._spec import SCHEMA
from agentbox._shared._state import Digester, File, Found
from agentbox._shared._swap import Swap
from agentbox._shared._volumes import Volume
from tests.unit.module_utils.box_samples import (
    CONTEXT,
    GIB,
    IMAGE,
    SETTING,
    STATE_DIR,
    UID,
    box,
    inspected,
    spec,
    workspace,
)

Change = Callable[[dict[str, Any]], None]
BOUND = File("/state/box.json", b"{}", 0o644)


def situation(live: dict[str, Any] | None = None, **facts: Any) -> Situation:
    return Situation(live, **{"image": IMAGE, "image_environment": ("PATH=/usr/bin",), **facts})


def kinds(plan: BoxPlan) -> list[str]:
    return [action.kind for action in plan.actions]


def plan(wanted: dict[str, Any] | None = None, *, status: str = "running", **facts: Any) -> BoxPlan:
    """Plan for a box whose container was made for just this declaration."""
    declared = box(**(wanted or {}))
    return plan_box(declared, situation(inspected(declared, status=status), **facts))


@pytest.mark.parametrize(
    ("status", "state", "expected"),
    [
        ("running", "started", []),
        ("restarting", "started", []),
        ("created", "started", ["start"]),
        ("exited", "started", ["start"]),
        ("paused", "started", ["unpause"]),
        ("dead", "started", ["remove", "create", "start"]),
        ("running", "stopped", ["stop"]),
        ("paused", "stopped", ["stop"]),
        ("exited", "stopped", []),
        ("created", "stopped", []),
    ],
)
def test_every_state_leads_to_the_declared_one(status: str, state: str, expected: list[str]) -> None:
    assert kinds(plan({"state": state}, status=status)) == expected


@pytest.mark.parametrize(("state", "expected"), [("started", ["create", "start"]), ("stopped", ["create"])])
def test_a_missing_box_is_made(state: str, expected: list[str]) -> None:
    made = plan_box(box(state=state), situation())
    assert kinds(made) == expected
    assert made.before["state"] == "absent"
    assert (made.after["state"], made.after["memory"]) == (state, "4g")


def test_a_container_that_goes_is_not_touched() -> None:
    with pytest.raises(AgentboxError, match="is being removed"):
        plan(status="removing")


def host(key: str, value: object) -> Change:
    return lambda live: live["HostConfig"].__setitem__(key, value)


def config(key: str, value: object) -> Change:
    return lambda live: live["Config"].__setitem__(key, value)


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("cpus", lambda live: live["HostConfig"].update(NanoCpus=0, CpuQuota=100_000, CpuPeriod=100_000)),
        ("hardening.cap_drop", host("CapDrop", None)),
        ("hardening.cap_add", host("CapAdd", ["NET_ADMIN"])),
        ("hardening.privileged", host("Privileged", True)),
        ("hardening.security_opt", host("SecurityOpt", None)),
        ("hardening.security_opt", host("SecurityOpt", ["no-new-privileges", "apparmor=unconfined"])),
        ("seccomp", host("SecurityOpt", ["no-new-privileges", "seccomp=unconfined"])),
        ("hardening.namespaces", host("PidMode", "host")),
        ("hardening.namespaces", host("IpcMode", "host")),
        ("hardening.namespaces", host("UsernsMode", "host")),
        ("hardening.devices", host("Devices", [{"PathOnHost": "/dev/kvm"}])),
        ("hardening.ulimits", host("Ulimits", [])),
        ("hardening.shares", host("CpusetCpus", "0")),
        ("hardening.shares", host("CpuShares", 2)),
        ("hardening.extras", host("ExtraHosts", ["registry.example:192.0.2.7"])),
        ("hardening.extras", host("Sysctls", {"net.ipv4.ip_forward": "1"})),
        ("hardening.init", host("Init", None)),
        ("hardening.log", host("LogConfig", {"Type": "syslog", "Config": {}})),
        ("hardening.publish_all", host("PublishAllPorts", True)),
        ("mounts", host("Binds", ["/var/run/docker.sock:/x"])),
        ("network", host("NetworkMode", "host")),
        ("publish", host("PortBindings", {"4317/tcp": [{"HostIp": "::", "HostPort": "1"}]})),
        ("tmp_size", host("Tmpfs", None)),
        ("read_only", host("ReadonlyRootfs", True)),
        ("uid", config("User", "0:0")),
        ("env.EXTRA", config("Env", ["EXTRA=1"])),
        ("hardening.command", config("Cmd", ["sleep"])),
        ("healthcheck", config("Healthcheck", None)),
        ("ports", host("PortBindings", {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}]})),
        ("image", config("Image", "other:latest")),
        ("image", lambda live: live.update(Image="sha256:built before from the same")),
    ],
)
def test_what_changed_behind_the_label_is_seen(path: str, change: Change) -> None:
    live = inspected(box())
    change(live)
    found = plan_box(box(), situation(live))
    assert path in [drift.path for drift in found.drift]
    assert found.actions == ()
    assert path in found.warnings[0]


def test_an_image_that_is_yet_to_be_built_is_another_one() -> None:
    found = plan_box(box(recreate="drift"), situation(inspected(box()), image=replace(IMAGE, id="")))
    assert [action.kind for action in found.actions] == ["recreate"]
    assert [drift.path for drift in found.repaired] == ["image"]


@pytest.mark.parametrize(
    ("path", "change", "sent"),
    [
        ("memory", host("Memory", GIB), {"Memory": 4 * GIB, "MemorySwap": 4 * GIB}),
        ("hardening.memory_swap", host("MemorySwap", -1), {"Memory": 4 * GIB, "MemorySwap": 4 * GIB}),
        ("cpus", host("NanoCpus", 1_000_000_000), {"NanoCpus": 4_000_000_000}),
        ("pids", host("PidsLimit", -1), {"PidsLimit": 512}),
        ("pids", host("PidsLimit", None), {"PidsLimit": 512}),
        ("hardening.restart", host("RestartPolicy", {"Name": "no"}), {"RestartPolicy": {"Name": "unless-stopped"}}),
    ],
)
@pytest.mark.parametrize("recreate", ["never", "always"])
@pytest.mark.parametrize("status", ["running", "exited"])
def test_what_the_engine_can_change_is_put_right_on_the_living_container(
    path: str, change: Change, sent: dict[str, Any], recreate: str, status: str
) -> None:
    state = "started" if status == "running" else "stopped"
    declared = box(recreate=recreate, state=state)
    live = inspected(declared, status=status)
    change(live)
    found = plan_box(declared, situation(live))
    assert [(action.kind, action.subject) for action in found.actions] == [("update", sent)]
    assert (found.drift, found.warnings, list(found.before)) == ((), (), [path])
    assert found.before[path] != found.after[path]


@pytest.mark.parametrize("engine", [{"podman": True}, {"runtimes": ("runc", "runsc")}])
def test_an_engine_whose_update_call_is_not_known_to_work_is_not_asked(engine: dict[str, Any]) -> None:
    setting = replace(SETTING, engine=replace(SETTING.engine, **engine))
    declared = box(setting=setting, runtime="runc" if engine.get("podman") else "runsc")
    live = inspected(declared)
    live["HostConfig"]["PidsLimit"] = 1
    found = plan_box(declared, situation(live))
    assert ([drift.path for drift in found.drift], kinds(found)) == (["pids"], [])


class TestNetworks:
    """A living container can leave and join them."""

    NOW: ClassVar = {"abx": "new", "other": "o"}

    @staticmethod
    def plan(joined: dict[str, Any], **declared: Any) -> BoxPlan:
        live = inspected(box(**declared))
        live["NetworkSettings"]["Networks"] = joined
        return plan_box(box(**declared), situation(live, networks=TestNetworks.NOW))

    @pytest.mark.parametrize(
        ("joined", "expected"),
        [
            ({"abx": {"NetworkID": "new"}}, []),
            ({"abx": {"NetworkID": ""}}, []),
            ({}, ["join_network abx-web to abx"]),
            ({"abx": {"NetworkID": "new"}, "other": {"NetworkID": "o"}}, ["leave_network abx-web from other"]),
            ({"abx": {"NetworkID": "old"}}, ["leave_network abx-web from abx", "join_network abx-web to abx"]),
        ],
        ids=["in it", "in it since it was made", "taken out", "in another too", "made anew since"],
    )
    def test_of_a_box(self, joined: dict[str, Any], expected: list[str]) -> None:
        found = self.plan(joined)
        assert [f"{action.kind} {action.detail}" for action in found.actions] == expected
        assert found.drift == ()
        assert found.before != found.after or not expected

    @pytest.mark.parametrize("joined", [{}, {"none": {"NetworkID": "n"}}])
    def test_of_one_without(self, joined: dict[str, Any]) -> None:
        assert self.plan(joined, network="none").actions == ()


class TestEnforced:
    """What the kernel enforces, whatever the engine says."""

    @staticmethod
    def plan(unlimited: set[str] | None = None, **limits: Any) -> BoxPlan:
        declared = {"memory": 4 * GIB, "memory_swap": 4 * GIB, "pids": 512, "cpus": 4.0}
        facts = CgroupFacts(version=2, limits=Limits(**{**declared, **limits}), unlimited=frozenset(unlimited or ()))
        return plan_box(box(), situation(inspected(box()), enforced=facts))

    def test_as_declared(self) -> None:
        assert self.plan().actions == ()
        assert self.plan(memory=4 * GIB - 4095, cpus=3.995).actions == ()
        assert self.plan(memory_swap=None).actions == (), "a kernel that does not account for it"

    @pytest.mark.parametrize(
        ("path", "changed", "keys"),
        [
            ("memory", {"memory": 2 * GIB}, ["Memory", "MemorySwap"]),
            ("hardening.memory_swap", {"memory_swap": None, "unlimited": {"memory_swap"}}, ["Memory", "MemorySwap"]),
            ("pids", {"pids": 511}, ["PidsLimit"]),
            ("cpus", {"cpus": 2.0}, ["NanoCpus"]),
        ],
    )
    def test_changed_in_the_cgroup(self, path: str, changed: dict[str, Any], keys: list[str]) -> None:
        found = self.plan(**changed)
        assert [(action.kind, sorted(action.subject)) for action in found.actions] == [("update", keys)]
        assert str(found.before[path]).endswith(" in force")
        assert path in found.after

    @pytest.mark.parametrize(("held", "expected"), [(GIB, ["update"]), (3 * GIB, [])])
    def test_memory_that_is_in_use_is_not_taken_away(self, held: int, expected: list[str]) -> None:
        live = inspected(box(memory="4g"))
        limits = Limits(memory=4 * GIB, memory_swap=4 * GIB, pids=512, cpus=4.0)
        facts = CgroupFacts(version=2, limits=limits, memory_held=held)
        found = plan_box(box(memory="2g"), situation(live, enforced=facts))
        assert kinds(found) == expected
        kept = {drift.path: drift.live for drift in found.drift}
        in_use = "4g, and more in use than declared"
        assert kept == ({} if expected else {"memory": in_use, "hardening.memory_swap": in_use})


def test_a_volume_that_is_gone_is_drift_until_the_box_is_made_anew() -> None:
    names = [f"abx-cache-{cache}-{UID}" for cache in ("npm", "pip", "cargo")]
    existing = {name: Volume(name, "now", "abx", str(UID)) for name in names}
    kept = plan_box(box(), situation(inspected(box()), volumes=existing))
    assert ([(drift.path, drift.declared) for drift in kept.drift]) == [("mounts./home/agent", "abx-web-home")]
    anew = plan_box(box(recreate="drift"), situation(inspected(box()), volumes=existing, unprepared=("abx-web-home",)))
    assert (kinds(anew), anew.drift) == (["recreate"], ())
    assert anew.actions[0].subject.volumes == ("abx-web-home",)


def test_a_renamed_container_gets_its_name_back_and_goes_on() -> None:
    live = inspected(box(), status="exited")
    live["Name"] = "/mine"
    found = plan_box(box(), situation(live))
    assert [(action.kind, action.detail) for action in found.actions] == [
        ("rename", "mine to abx-web"),
        ("start", "abx-web"),
    ]
    assert (found.before["container"], found.after["container"]) == ("mine", "abx-web")


def test_a_recreation_gives_the_name_back_itself() -> None:
    aside = inspected(box())
    aside["Name"] = "/abx-web.old"
    swap = Swap("abx-web", "f" * 64, was_running=True, previous={})
    assert kinds(plan_box(box(), situation(aside, swap=swap))) == ["finish_swap"]


def test_a_mount_whose_source_was_made_anew_is_drift_until_the_box_is() -> None:
    replaced = {"/agentbox": "/state/mount"}
    kept = plan_box(box(), situation(inspected(box()), replaced=replaced))
    assert ([drift.path for drift in kept.drift], kinds(kept)) == (["mounts./agentbox"], [])
    anew = plan_box(box(recreate="drift"), situation(inspected(box()), replaced=replaced))
    assert (kinds(anew), anew.drift) == (["recreate"], ())


class TestFilesOfAContainerThatStays:
    """With drift that stays, files go on telling of the container that is there."""

    @staticmethod
    def plan(found: dict[str, Found], record: dict[str, Any] | None = None, **declared: Any) -> BoxPlan:
        """For a box of an older image, with all its files differing from what the declaration wants."""
        live = inspected(box(), context="sha256:older")
        wanted = box(**declared)
        bound = _files.bound_files(wanted, CONTEXT, {}, Digester(b"k"))
        return plan_box(wanted, situation(live, record=record or {}, bound=tuple(bound), found=found))

    @staticmethod
    def written(plan: BoxPlan) -> dict[str, File]:
        return {action.detail: action.subject for action in plan.actions if action.kind == "write_file"}

    def test_the_user_database_is_written_and_what_is_lost_is_told(self) -> None:
        paths = box().paths
        found = self.plan({})
        assert list(self.written(found)) == [paths.passwd]
        assert [drift.path for drift in found.drift] == [
            "image",
            f"file {paths.mount}/box.json",
            f"file {paths.record}",
        ]

    def test_modes_are_put_right_and_contents_stay(self) -> None:
        path = f"{box().paths.mount}/box.json"
        found = self.plan({path: Found(0o600, os.geteuid(), b"as it was made")})
        assert self.written(found)[path] == File(path, b"as it was made", 0o644)
        again = self.plan({path: Found(0o644, os.geteuid(), b"as it was made")})
        assert path not in self.written(again)

    def test_the_record_gets_the_limits_that_were_set_in_place(self) -> None:
        made = _files.record(box(), "sha256:older", {}, Digester(b"k"))
        path = box().paths.record
        on_disk = {path: Found(0o600, os.geteuid(), _state.json_file(path, made, 0o600).content)}
        assert path not in self.written(self.plan(on_disk, made))
        found = self.plan(on_disk, made, memory="6g")
        assert kinds(found)[-1] == "update"
        assert json.loads(self.written(found)[path].content) == {**made, "spec": {**made["spec"], "memory": 6 * GIB}}


@pytest.mark.parametrize(
    "change",
    [
        host("CapDrop", ["all"]),
        host("CapDrop", ["CAP_ALL"]),
        host("SecurityOpt", ["no-new-privileges:true"]),
        host("SecurityOpt", ["no-new-privileges=true"]),
        host("Tmpfs", {"/tmp": f"size={GIB},mode=1777,nodev,nosuid,exec,rw"}),  # noqa: S108 - a path in the box
        lambda live: live["HostConfig"].update(NanoCpus=0, CpuQuota=400_000, CpuPeriod=100_000),
        lambda live: live["HostConfig"]["Mounts"].reverse(),
        lambda live: live["Config"]["Env"].reverse(),
    ],
)
def test_another_spelling_of_the_same_is_no_drift(change: Change) -> None:
    live = inspected(box())
    change(live)
    assert plan_box(box(), situation(live)).drift == ()


def test_profiles_are_compared_as_what_they_say() -> None:
    live = inspected(box(seccomp="strict"))
    live["HostConfig"]["SecurityOpt"][1] = 'seccomp={"defaultAction":"x"}'
    assert plan_box(box(seccomp="strict"), situation(live)).drift == ()


def labelled(**changed: str | None) -> dict[str, Any]:
    """A box's container with other labels; None takes one away."""
    live = inspected(box())
    labels = {**live["Config"]["Labels"], **{name.replace("_", ".", 1): value for name, value in changed.items()}}
    live["Config"]["Labels"] = {name: value for name, value in labels.items() if value is not None}
    return live


@pytest.mark.parametrize(("label", "shown"), [("0", 0), (None, 0), ("older", 0)])
def test_a_box_of_an_older_version_is_recognised_and_moved_by_an_upgrade(label: str | None, shown: int) -> None:
    record = {"schema": shown, "spec": {"memory": "in another unit"}}
    live = labelled(agentbox_schema=label)
    kept = plan_box(box(), situation(live, record=record))
    assert [(drift.path, drift.declared, drift.live) for drift in kept.drift] == [("schema", SCHEMA, shown)]
    assert kinds(kept) == []
    moved = plan_box(box(), situation(live, record=record, upgrade=True))
    assert (kinds(moved), moved.drift, moved.before["schema"]) == (["recreate"], (), shown)


def test_a_box_of_a_newer_version_is_refused() -> None:
    live = labelled(agentbox_schema=str(SCHEMA + 1))
    for recreate in ("never", "always"):
        with pytest.raises(NewerBoxError, match=rf"box web was made by a newer Agentbox \(schema {SCHEMA + 1}, "):
            plan_box(box(recreate=recreate), situation(live, upgrade=True))


def test_an_upgrade_spares_who_is_attached_and_what_is_another_box() -> None:
    live = labelled(agentbox_context="sha256:older")
    spared = plan_box(box(), situation(live, upgrade=True, attached=True))
    assert ([drift.path for drift in spared.drift], kinds(spared)) == (["image"], [])
    assert "while somebody is attached" in spared.warnings[0]
    with pytest.raises(ForeignBoxError, match="works in /srv/other"):
        plan_box(box(), situation(labelled(agentbox_workspace="/srv/other"), upgrade=True))


def test_what_an_upgrade_did_not_come_to_is_drift() -> None:
    moved = plan_box(box(), situation(labelled(agentbox_context="sha256:older"), upgrade=True))
    assert kinds(moved) == ["recreate"]
    left = moved.untouched()
    assert (kinds(left), [drift.path for drift in left.drift], left.before, left.after) == ([], ["image"], {}, {})


def test_a_changed_declaration_names_its_keys() -> None:
    record = {"schema": SCHEMA, "spec": spec().canonical(), "context": CONTEXT}
    changed = plan_box(
        box(permission_mode="plan", yolo=True, shm_size="1g"), situation(inspected(box()), record=record)
    )
    assert [(drift.path, drift.declared, drift.live) for drift in changed.drift] == [
        ("permission_mode", "plan", "default"),
        ("shm_size", "1g", "256m"),
        ("yolo", True, False),
    ]
    assert changed.actions == ()


def test_a_record_that_was_edited_is_not_believed() -> None:
    """The label tells; the record is written anew where the container is right."""
    edited = {"schema": SCHEMA, "spec": {**spec().canonical(), "yolo": True, "pids": 3}, "context": CONTEXT}
    assert plan_box(box(recreate="always"), situation(inspected(box()), record=edited)).drift == ()
    found = plan_box(box(permission_mode="plan"), situation(inspected(box()), record=edited))
    assert [drift.path for drift in found.drift] == ["label agentbox.spec"]


def test_an_edited_label_is_seen_beside_other_differences() -> None:
    live = labelled(agentbox_yolo="true")
    live["HostConfig"]["PidsLimit"] = 1
    found = plan_box(box(), situation(live))
    assert ([drift.path for drift in found.drift], kinds(found)) == (["label agentbox.yolo"], ["update"])


def test_naming_what_a_box_has_already_is_no_change() -> None:
    """Drift is what differs, not how it came to be: uid, time zone and capped limits."""
    live = situation(inspected(box(cpus=8, memory="64g")))
    declared = box(cpus=6, memory="32g", uid=UID, timezone="Europe/Berlin")
    found = plan_box(declared, live)
    assert (found.drift, found.actions) == ((), ())


def test_without_a_record_the_label_still_tells() -> None:
    found = plan_box(box(permission_mode="plan"), situation(inspected(box())))
    assert [drift.path for drift in found.drift] == ["label agentbox.spec"]


def test_a_rebuilt_image_is_drift_of_the_image() -> None:
    live = inspected(box(), context="sha256:" + "d" * 64)
    assert [drift.path for drift in plan_box(box(), situation(live)).drift] == ["image"]


class TestRecreation:
    @staticmethod
    def plan(recreate: str, **facts: Any) -> BoxPlan:
        live = inspected(box())
        live["HostConfig"]["ShmSize"] = GIB
        return plan_box(box(recreate=recreate), situation(live, bound=(BOUND,), **facts))

    def test_never(self) -> None:
        found = self.plan("never")
        assert kinds(found) == []
        assert [drift.path for drift in found.drift] == [f"file {BOUND.path}", "shm_size"][::-1]

    @pytest.mark.parametrize("recreate", ["drift", "always"])
    def test_when_allowed(self, recreate: str) -> None:
        found = self.plan(recreate)
        assert kinds(found) == ["recreate"]
        assert found.actions[0].subject.files == (BOUND,)
        assert found.drift == ()
        assert (found.before, found.after) == ({"shm_size": "1g"}, {"shm_size": "256m"})

    def test_drift_spares_who_is_attached(self) -> None:
        spared = self.plan("drift", attached=True)
        assert kinds(spared) == []
        assert "somebody is attached" in spared.warnings[0]
        assert kinds(self.plan("always", attached=True)) == ["recreate"]

    @pytest.mark.parametrize("recreate", ["drift", "always"])
    def test_not_without_a_difference(self, recreate: str) -> None:
        assert kinds(plan({"recreate": recreate})) == []

    def test_not_without_an_image(self) -> None:
        with pytest.raises(DeclarationError, match=r"boxes\[0\].image: the engine holds no image abx:latest"):
            self.plan("always", image=None)


FOREIGN = [
    ("agentbox.managed", None, "was not made by Agentbox"),
    ("agentbox.instance", "other", "is box web of instance other"),
    ("agentbox.box", "api", "is box api of instance abx"),
    ("agentbox.state_dir", "/home/x/.local/state/agentbox/abx", "is another user's box"),
]


@pytest.mark.parametrize(("label", "value", "message"), FOREIGN)
class TestForeign:
    """A container of a box's name that somebody else made is never touched."""

    @staticmethod
    def live(label: str, value: str | None) -> dict[str, Any]:
        live = inspected(box())
        live["Config"]["Labels"] = {**live["Config"]["Labels"], label: value}
        return live

    def test_when_a_box_shall_be_there(self, label: str, value: str | None, message: str) -> None:
        with pytest.raises(ForeignBoxError, match=message):
            plan_box(box(), situation(self.live(label, value)))

    def test_when_it_shall_not(self, label: str, value: str | None, message: str) -> None:
        live = self.live(label, value)
        with pytest.raises(ForeignBoxError, match=message):
            plan_absent("abx", STATE_DIR, "web", live, swap=None, helpers=(), paths=(), volume_names=())


def test_another_workspace_is_most_likely_another_box() -> None:
    elsewhere = workspace(path="/srv/other")
    live = situation(inspected(box()))
    with pytest.raises(ForeignBoxError, match=r"boxes\[0\].workspace: .*/srv/code/web, not in /srv/other"):
        plan_box(box(workspace="/srv/other", facts=elsewhere), live)
    moved = plan_box(box(workspace="/srv/other", facts=elsewhere, recreate="always"), live)
    assert kinds(moved) == ["recreate"]


def test_what_the_image_lacks_is_named() -> None:
    with pytest.raises(DeclarationError, match=r"boxes\[0\].agents\[0\]: image abx:latest does not hold plain"):
        plan_box(box(lead="plain", agents=["plain"]), situation())


def test_check_mode_takes_it_that_an_image_comes() -> None:
    assert kinds(plan_box(box(), situation(image=None, predict=True))) == ["create", "start"]


def test_a_home_of_another_uid_is_named() -> None:
    home = Volume("abx-web-home", "now", "abx", "501")
    with pytest.raises(DeclarationError, match=rf"boxes\[0\].uid: volume abx-web-home belongs to uid 501.*{UID}"):
        plan_box(box(), situation(volumes={home.name: home}))


def test_a_volume_of_another_instance_is_refused() -> None:
    other = Volume("data", "now", "other", "1000")
    with pytest.raises(DeclarationError, match=r"boxes\[0\].volumes: data belongs to instance other"):
        plan_box(box(volumes=["data:/data"]), situation(volumes={other.name: other}))
    own = Volume("data", "now", "", "")
    assert kinds(plan_box(box(volumes=["data:/data"]), situation(volumes={own.name: own}))) == ["create", "start"]


def test_a_taken_port_stops_a_start_and_not_a_running_box() -> None:
    taken = "publish: 127.0.0.1:4400 is taken by nginx (process 7)"
    with pytest.raises(DeclarationError, match=r"boxes\[0\].publish: 127.0.0.1:4400 is taken by nginx"):
        plan_box(box(publish=4400), situation(port_problem=taken))
    assert kinds(plan_box(box(publish=4400, state="stopped"), situation(port_problem=taken))) == ["create"]


def test_an_interrupted_recreation_comes_first() -> None:
    swap = Swap("abx-web", "f" * 64, was_running=True, previous={})
    assert kinds(plan(swap=swap, status="exited")) == ["finish_swap", "start"]


def test_the_workspaces_access_is_granted_before_the_start_and_shown() -> None:
    granted = plan_box(box(facts=workspace(owner=0)), situation())
    assert kinds(granted) == ["set_acl", "create", "start"]
    assert granted.after["workspace_acl"] == ["user:1000:rwX, also as default"]


class TestAbsent:
    @staticmethod
    def plan(live: dict[str, Any] | None, **exists: Any) -> BoxPlan:
        found: dict[str, Any] = {"swap": None, "helpers": (), "paths": (), "volume_names": (), **exists}
        return plan_absent("abx", STATE_DIR, "web", live, **found)

    def test_nothing_is_there(self) -> None:
        assert self.plan(None).actions == ()

    def test_everything_is_there(self) -> None:
        removed = self.plan(inspected(box()), paths=["/state/abx/boxes/web"], volume_names=["abx-web-home"])
        assert kinds(removed) == ["stop", "remove", "remove_volume", "remove_path"]
        assert removed.after == {"abx-web-home": None, "/state/abx/boxes/web": None, "state": "absent"}

    def test_it_was_renamed(self) -> None:
        live = inspected(box())
        live["Name"] = "/mine"
        assert [action.detail for action in self.plan(live).actions] == ["mine", "mine"]

    def test_half_of_it_is_gone(self) -> None:
        assert kinds(self.plan(None, helpers=["abx-web.prepare"], paths=["/state/abx/relay/web"])) == [
            "remove",
            "remove_path",
        ]


def test_a_plan_changes_nothing_it_was_given() -> None:
    live = inspected(box())
    before = copy.deepcopy(live)
    plan_box(box(pids=100, recreate="always"), situation(live))
    assert live == before


def test_status_of_nothing() -> None:
    assert _plan.status(None) == "absent"
