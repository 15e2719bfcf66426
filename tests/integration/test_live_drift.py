"""What happens to living boxes from outside is seen in check mode with a readable diff and put right in one run.

What only a new container puts right is told until one may be made.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _files, _host, _naming, _state
from agentbox._shared._boxes import Outcome
from agentbox._shared._ports import HostPort
from tests.integration import direct, engines, faults, runs
from tests.integration.faults import FAULTS, Target
from tests.integration.sites import UID, Site

VALUE = "value-of-a-secret"
SECRETS = {name: {faults.SECRET: VALUE} for name in ("files", "limits", "network")}
HOOK_FILE = "standin/managed-settings.d/50-agentbox.json"
# A43, and what else happens: which box, and what of it the diff names.
HAPPENS = {
    "stopped": ("stopped", ["state"]),
    "paused": ("paused", ["state"]),
    "memory raised": ("limits", ["memory", "hardening.memory_swap"]),
    "cpus changed": ("limits", ["cpus"]),
    "pids unlimited": ("limits", ["pids"]),
    "pids in the cgroup": ("files", ["pids"]),
    "restart policy changed": ("limits", ["hardening.restart"]),
    "disconnected": ("network", ["network"]),
    "renamed": ("network", ["container"]),
    "entry script deleted": ("files", ["mount/entry.sh"]),
    "entry script changed": ("limits", ["mount/entry.sh"]),
    "entry script not executable": ("network", ["mount/entry.sh"]),
    "hook file changed": ("files", [HOOK_FILE]),
    "hook file deleted": ("limits", [HOOK_FILE]),
    "hook file writable": ("network", [HOOK_FILE]),
    "secret readable": ("files", [f"mount/secrets/{faults.SECRET}"]),
    "secret deleted": ("limits", [f"mount/secrets/{faults.SECRET}"]),
    "secret changed": ("network", [f"mount/secrets/{faults.SECRET}"]),
    "user database deleted": ("paused", ["mount/passwd"]),
}


@pytest.fixture(scope="module")
def site(new_instance: Callable[[], str], module_place: Path) -> Site:
    return Site(new_instance(), module_place)


def converge(site: Site, *boxes: dict[str, Any], **options: Any) -> Outcome:
    outcome = direct.converge(site, boxes, **options)
    assert outcome.failures == []
    return outcome


def kinds(outcome: Outcome) -> list[str]:
    return [action["action"] for action in outcome.as_dict()["actions"]]


def drift(outcome: Outcome) -> list[str]:
    return [item["path"] for item in outcome.as_dict()["drift"]]


def test_what_happened_is_predicted_shown_and_put_right(engine: docker.APIClient, site: Site) -> None:
    """Through Ansible, as a user would. No container is made anew for any of it."""
    boxes = [direct.box(site, name) for name in dict.fromkeys(box for box, _ in HAPPENS.values())]
    converge(site, *boxes, secrets=SECRETS)
    before = {box["name"]: Target(engine, site, box["name"]).id for box in boxes}
    for name, (box, _) in HAPPENS.items():
        next(fault for fault in FAULTS if fault.name == name).do(Target(engine, site, box))
    options = {"files": direct.files(), "manifests": direct.manifests(), "identity_home": str(site.directory)}
    task = site.task(*boxes, secrets=SECRETS, **options)
    run = runs.play([{**task, "check_mode": True}, task, task], diff=True, verbosity=1)
    predicted, done, again = run.results
    for key in ("actions", "diff", "drift", "changed"):
        assert predicted[key] == done[key], key
    shown = done["diff"]
    for name, (box, paths) in HAPPENS.items():
        for path in paths:
            [key] = [key for key in shown["after"][box] if key == path or key.endswith(f"/{path}")]
            assert shown["before"][box][key] != shown["after"][box][key], name
    assert (shown["before"]["limits"]["memory"], shown["after"]["limits"]["memory"]) == ("777m", "4g")
    assert (shown["before"]["limits"]["pids"], shown["after"]["limits"]["pids"]) == ("no limit", 512)
    assert shown["before"]["files"]["pids"] == "77 in force"
    assert Target(engine, site, "files").cgroup("pids", "pids.max", "pids.max").read_text(encoding="ascii") == "512\n"
    assert (again["changed"], again["drift"]) == (False, [])
    assert VALUE not in run.output
    assert {box["name"]: Target(engine, site, box["name"]).id for box in boxes} == before


def test_what_only_a_new_container_puts_right_is_shown_and_done_where_allowed(
    engine: docker.APIClient, site: Site
) -> None:
    rebuilt, labelled = Target(engine, site, "rebuilt"), Target(engine, site, "labelled")
    engine.tag(engines.IMAGE, *rebuilt.image.split(":"))
    try:
        boxes = [direct.box(site, "rebuilt", image=rebuilt.image), direct.box(site, "labelled")]
        converge(site, *boxes)
        for target, name in ((rebuilt, "image rebuilt"), (labelled, "label edited")):
            next(fault for fault in FAULTS if fault.name == name).do(target)
        options = {"files": direct.files(), "manifests": direct.manifests(), "identity_home": str(site.directory)}
        kept = site.task(*boxes, **options)
        allowed = site.task(*[{**box, "recreate": "drift"} for box in boxes], **options)
        told, predicted, done, again = runs.play(
            [kept, {**allowed, "check_mode": True}, allowed, allowed], diff=True
        ).results
    finally:
        engine.remove_image(rebuilt.image, force=True)
    assert (told["changed"], [item["path"] for item in told["drift"]]) == (False, ["image", "label agentbox.spec"])
    for key in ("actions", "diff", "drift", "changed"):
        assert predicted[key] == done[key], key
    assert [action["action"] for action in done["actions"]] == ["recreate", "recreate"]
    assert "rebuilt-for-" in done["diff"]["after"]["rebuilt"]["image"]
    assert done["diff"]["before"]["labelled"]["label agentbox.spec"] == "edited"
    assert (again["changed"], again["drift"]) == (False, [])


def test_declared_limits_and_networks_change_on_the_living_box(engine: docker.APIClient, site: Site) -> None:
    """Its processes go on, and what is noted of it, which doctor goes by, is what it has."""
    engine.create_network(f"{site.instance}-lan", labels={_naming.LABEL_INSTANCE: site.instance})
    converge(site, direct.box(site, "changes"))
    before = engine.inspect_container(site.container("changes"))
    wanted = direct.box(site, "changes", memory="600m", cpus=0.5, pids=99, networks=[f"{site.instance}-lan"])
    assert kinds(converge(site, wanted)) == ["write_file", "join_network", "update"]
    after = engine.inspect_container(site.container("changes"))
    assert [item["State"]["Pid"] for item in (before, after)] == [before["State"]["Pid"]] * 2
    assert sorted(after["NetworkSettings"]["Networks"]) == [site.instance, f"{site.instance}-lan"]
    assert (after["HostConfig"]["Memory"], after["HostConfig"]["NanoCpus"]) == (600 << 20, 500_000_000)
    record = _state.read_json(site.paths("changes").record)
    assert record is not None
    assert {key: record["spec"][key] for key in ("memory", "cpus", "pids")} == {
        "memory": 600 << 20,
        "cpus": 0.5,
        "pids": 99,
    }
    assert converge(site, wanted).as_dict()["changed"] is False
    assert kinds(converge(site, direct.box(site, "changes"))) == ["write_file", "leave_network", "update"]


def test_limits_follow_while_another_difference_stays(site: Site) -> None:
    converge(site, direct.box(site, "both"))
    wanted = direct.box(site, "both", shm_size="64m", pids=99)
    outcome = converge(site, wanted)
    assert (kinds(outcome), drift(outcome)) == (["write_file", "update"], ["shm_size"])
    again = converge(site, wanted)
    assert (kinds(again), drift(again)) == ([], ["shm_size"])
    record = _state.read_json(site.paths("both").record)
    assert record is not None
    assert (record["spec"]["pids"], record["spec"]["shm_size"]) == (99, 256 << 20)


def test_memory_that_a_box_uses_is_not_taken_away(engine: docker.APIClient, site: Site) -> None:
    converge(site, direct.box(site, "hungry", memory="2g"))
    eat = "x = bytearray(700 << 20); print(flush=True); import time; time.sleep(600)"
    run = engine.exec_create(site.container("hungry"), ["python3", "-c", eat])
    next(iter(engine.exec_start(run, stream=True)))
    wanted = direct.box(site, "hungry", memory="512m")
    kept = converge(site, wanted)
    assert (kinds(kept), drift(kept)) == ([], ["hardening.memory_swap", "memory"])
    assert "in use" in kept.as_dict()["drift"][1]["live"]
    assert engine.exec_inspect(run)["Running"] is True
    site.try_run("hungry", "pkill -f bytearray")
    deadline = time.monotonic() + 20
    while engine.exec_inspect(run)["Running"] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert kinds(converge(site, wanted))[-1] == "update"
    assert Target(engine, site, "hungry").cgroup(
        "memory", "memory.limit_in_bytes", "memory.max"
    ).read_text().strip() == str(512 << 20)


def test_a_running_box_sees_the_repaired_user_database(site: Site) -> None:
    """A file that is mounted alone is put right in place: a new one the box would not see."""
    box = direct.box(site, "users")
    converge(site, box)
    passwd = Path(site.paths("users").passwd)
    passwd.write_text("agent:x:0:0::/:/bin/sh\n", encoding="ascii")
    assert site.run("users", "cat /etc/passwd") == passwd.read_text(encoding="ascii")
    assert kinds(converge(site, box)) == ["write_file"]
    assert site.run("users", "cat /etc/passwd") == _files.passwd(UID)


def test_what_a_running_box_does_not_see_is_told_until_it_is_made_anew(site: Site) -> None:
    """It was edited, and the right one took its place: right on disk, and the box still has the edited one."""
    box = direct.box(site, "stale")
    converge(site, box)
    passwd, new = Path(site.paths("stale").passwd), Path(site.paths("stale").mount, "new")
    right = passwd.read_text(encoding="ascii")
    passwd.write_text("edited\n", encoding="ascii")
    new.write_text(right, encoding="ascii")
    new.chmod(0o644)
    new.rename(passwd)
    told = converge(site, box)
    assert (kinds(told), drift(told)) == ([], ["mounts./etc/passwd"])
    assert kinds(converge(site, {**box, "recreate": "drift"})) == ["recreate"]
    assert site.run("stale", "cat /etc/passwd") == right
    assert drift(converge(site, box)) == []


def test_a_network_that_was_made_anew_is_joined_and_its_port_answers(engine: docker.APIClient, place: Path) -> None:
    """`docker network prune` takes the network of boxes that are stopped; they would not start again."""
    site = Site(engines.new_instance_name(), place)
    port = next(port for port in range(28317, 28400) if _host.port_problem(HostPort("127.0.0.1", port)) is None)
    try:
        box = direct.box(site, "pruned", publish=port)
        converge(site, box)
        engine.stop(site.container("pruned"), timeout=5)
        engine.remove_network(site.instance)
        predicted = converge(site, box, check=True)
        done = converge(site, box)
        assert kinds(predicted) == kinds(done) == ["create_network", "leave_network", "join_network", "start"]
        assert converge(site, box).as_dict()["changed"] is False
        _answers(port)
        engine.disconnect_container_from_network(site.container("pruned"), site.instance)
        assert kinds(converge(site, box)) == ["join_network"]
        _answers(port)
    finally:
        engines.remove_instance(engine, site.instance)


def test_a_second_network_of_the_name_goes(engine: docker.APIClient, place: Path) -> None:
    """A killed run's request can reach the engine beside the next run's; of two, the engine takes neither."""
    if tuple(map(int, engine.version()["ApiVersion"].split("."))) >= (1, 44):
        pytest.skip("this engine makes no two networks of a name")
    site = Site(engines.new_instance_name(), place)
    labels = {_naming.LABEL_MANAGED: "true", _naming.LABEL_INSTANCE: site.instance}
    try:
        box = direct.box(site, "twice")
        converge(site, box)
        used = engine.inspect_container(site.container("twice"))["NetworkSettings"]["Networks"][site.instance]
        engine.create_network(site.instance, labels=labels)
        assert kinds(converge(site, box, check=True)) == kinds(converge(site, box)) == ["remove_spare_network"]
        assert [found["Id"] for found in engine.networks([site.instance])] == [used["NetworkID"]]
        assert converge(site, box).as_dict()["changed"] is False
        engine.create_network(site.instance, labels=labels)
        gone = converge(site, absent=True, remove_volumes=True)
        assert kinds(gone).count("remove_network") == 2
        assert engine.networks([site.instance]) == []
    finally:
        engines.remove_instance(engine, site.instance)


def _answers(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=3) as answer:
                assert answer.status == 200
                return
        except OSError:
            assert time.monotonic() < deadline, f"nothing answers on port {port}"
            time.sleep(0.2)


def test_a_renamed_box_is_removed_as_well(engine: docker.APIClient, site: Site) -> None:
    converge(site, direct.box(site, "lost", network="none", state="stopped"))
    name = f"{site.instance}.elsewhere"
    engine.rename(site.container("lost"), name)
    removed = converge(site, {"name": "lost", "state": "absent"})
    assert removed.as_dict()["actions"][0]["detail"] == name
    assert engine.containers(all=True, filters={"name": f"^/{name}$"}) == []


def test_two_containers_that_are_one_box_are_for_people_to_tell(engine: docker.APIClient, site: Site) -> None:
    box = direct.box(site, "double", network="none", state="stopped")
    converge(site, box)
    live = engine.inspect_container(site.container("double"))
    twin, other = f"{site.instance}.twin", f"{site.instance}.other"
    engine.create_container_from_config({**live["Config"], "HostConfig": live["HostConfig"]}, twin)
    engine.rename(live["Id"], other)
    failed = direct.converge(site, [box])
    assert f"containers {other} and {twin} are both box double" in failed.failures[0]
    engine.remove_container(twin, force=True)
    assert kinds(converge(site, box)) == ["rename"]
