"""Boxes as hosts: groups and variables, labels that stay text, one address of the engine for all kinds of plugins."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml

from agentbox._shared import _naming
from tests.integration import engines, runs
from tests.integration.conftest import Instances
from tests.integration.sites import Site

PROGRAM = str(Path(sys.executable).with_name("ansible-inventory"))
TOUCH = "{{ lookup('ansible.builtin.pipe', 'touch %s') }}"
RAW: runs.Task = {"name": "raw", "ansible.builtin.raw": "true"}


def inventory_file(directory: Path, name: str = "boxes.yml", **options: Any) -> Path:
    path = directory / name
    path.write_text(yaml.safe_dump({"plugin": "agentbox.fleet.boxes", **options}), encoding="utf-8")
    return path


def listed(path: Path, prefix: Sequence[str] = (), **environment: str) -> tuple[dict[str, Any], str]:
    """What ansible-inventory makes of a file, and what it warns of."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "DOCKER_"))}
    done = subprocess.run(
        [*prefix, PROGRAM, "--inventory", str(path), "--list"],
        cwd=runs.REPOSITORY,
        env={**own, "ANSIBLE_NOCOLOR": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout, object_hook=_unwrapped)
    return found, " ".join(done.stderr.split())


def _unwrapped(value: dict[str, Any]) -> Any:
    """Texts that are no templates are marked so in the output."""
    return value["__ansible_unsafe"] if value.keys() == {"__ansible_unsafe"} else value


@pytest.fixture(scope="module")
def site(new_instance: Instances, module_place: Path) -> Site:
    """An instance whose boxes the engine alone has to know: a running one and one that ended."""
    return Site(new_instance(), module_place)


@pytest.fixture(scope="module")
def witness(module_place: Path) -> Path:
    """A file that only a label which was evaluated would make."""
    return module_place / "evaluated"


@pytest.fixture(scope="module")
def inventory(site: Site, engine: docker.APIClient, witness: Path) -> Path:
    """Containers with the labels of boxes, made by hand: with template braces, and some that only look like boxes."""
    mount = Path(site.paths("web").mount)
    mount.mkdir(parents=True)
    (mount / "box.json").write_text(json.dumps({"lead": "claude"}), encoding="utf-8")
    for box in ("web", "idle", "default"):
        create(engine, site.container(box), site, box, **{"note": TOUCH % witness, TOUCH % witness: "name"})
    create(engine, f"{site.instance}-stranger", site, "web")
    create(engine, f"{site.instance}-braces", site, "{{ 1 + 1 }}")
    return inventory_file(
        site.directory,
        instances=[site.instance],
        compose={"project": "agentbox_box.workspace | basename", "note": "agentbox_box.labels.note"},
        groups={"noted": "'note' in agentbox_box.labels"},
        keyed_groups=[{"prefix": "note", "key": "agentbox_box.labels.note"}],
        strict=True,
    )


def create(engine: docker.APIClient, name: str, site: Site, box: str, **labels: str) -> None:
    own = {
        _naming.LABEL_MANAGED: "true",
        _naming.LABEL_INSTANCE: site.instance,
        _naming.LABEL_BOX: box,
        _naming.LABEL_WORKSPACE: f"/srv/code/{box}",
        _naming.LABEL_STATE_DIR: str(site.state),
    }
    engine.create_container(engines.IMAGE, ["sleep", "600"], name=name, user="12345:0", labels={**own, **labels})
    if box == "web":
        engine.start(name)


def test_hosts_groups_and_variables(inventory: Path, site: Site, witness: Path) -> None:
    found, _ = listed(inventory)
    instance = site.instance
    boxes = sorted([instance, f"{instance}-idle", f"{instance}-web"])
    assert sorted(found["_meta"]["hostvars"]) == boxes, "what only looks like a box is no host"
    assert sorted(found[f"instance_{instance}"]["hosts"]) == boxes
    assert found["state_running"]["hosts"] == [f"{instance}-web"]
    assert sorted(found["state_created"]["hosts"]) == [instance, f"{instance}-idle"]
    assert found["agent_claude"]["hosts"] == [f"{instance}-web"]
    assert sorted(found["noted"]["hosts"]) == boxes
    web = found["_meta"]["hostvars"][f"{instance}-web"]
    assert web["ansible_connection"] == "agentbox.fleet.box"
    assert web["agentbox_instance"] == instance
    assert web["project"] == "web"
    expected = {"name": "web", "state": "running", "uid": 12345, "workspace": "/srv/code/web", "lead": "claude"}
    assert {key: web["agentbox_box"][key] for key in expected} == expected


def test_a_misspelt_key_makes_no_hosts(tmp_path: Path) -> None:
    found, warnings = listed(inventory_file(tmp_path, instance=["web"]))
    assert found["_meta"]["hostvars"] == {}
    assert "unknown key instance; known are" in warnings


def test_labels_are_never_evaluated(inventory: Path, site: Site, witness: Path) -> None:
    """Neither names nor values, in no place where a template could be looked for."""
    run = runs.play(
        [
            {"name": "labels", "ansible.builtin.debug": {"var": "agentbox_box.labels"}},
            {"name": "note", "ansible.builtin.debug": {"msg": "{{ note }} {{ agentbox_box.labels.note }}"}},
            {"name": "hostvars", "ansible.builtin.debug": {"var": "hostvars[inventory_hostname]"}},
        ],
        inventory=inventory,
        hosts=site.container("web"),
    )
    text = TOUCH % witness
    labels, note, hostvars = run.results
    assert labels["agentbox_box.labels"]["note"] == text
    assert labels["agentbox_box.labels"][text] == "name"
    assert note["msg"] == f"{text} {text}"
    assert hostvars["hostvars[inventory_hostname]"]["note"] == text
    assert text in run.output.replace("''", "'"), "shown literally, in YAML's quotes"
    assert not witness.exists()


def test_instances_and_states_choose(inventory: Path, site: Site) -> None:
    running = inventory_file(site.directory, "running.boxes.yml", instances=[site.instance], states=["running"])
    assert list(listed(running)[0]["_meta"]["hostvars"]) == [f"{site.instance}-web"]
    every = listed(inventory_file(site.directory, "every.boxes.yml"))[0]
    assert f"{site.instance}-idle" in every["_meta"]["hostvars"], "without a choice every instance counts"
    none = listed(inventory_file(site.directory, "none.boxes.yml", instances=["abx-none"]))[0]
    assert none["_meta"]["hostvars"] == {}


@pytest.fixture(scope="module")
def elsewhere(second_engine: engines.SecondEngine, site: Site) -> str:
    """Address of a second engine, which has the container of a box ``far`` that was never started."""
    client = second_engine.client()
    client.import_image_from_data(_archive(), repository="tiny", tag="latest")
    labels = {_naming.LABEL_INSTANCE: site.instance, _naming.LABEL_BOX: "far"}
    client.create_container("tiny:latest", ["/none"], name=site.container("far"), labels=labels)
    client.close()
    return second_engine.host


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("empty"))
    return buffer.getvalue()


def told(site: Site, docker_host: str, prefix: Sequence[str] = ()) -> dict[str, str]:
    """What module, inventory and connection say of the box ``far``, by kind, with this address in the environment."""
    environment = {"DOCKER_HOST": docker_host}
    found, warned = listed(
        inventory_file(site.directory, "far.boxes.yml", instances=[site.instance]), prefix, **environment
    )
    hosts = site.directory / "far.yml"
    connected = {site.container("far"): {"ansible_connection": "agentbox.fleet.box"}}
    hosts.write_text(yaml.safe_dump({"all": {"hosts": connected}}), encoding="utf-8")
    inside = runs.play([RAW], inventory=hosts, hosts="all", environment=environment, prefix=prefix)
    module = runs.module_task("box_info", {"instance": site.instance})
    [outside] = runs.play([module], environment=environment, prefix=prefix).results
    return {
        "module": outside.get("msg") or str([box["container"] for box in outside["boxes"]]),
        "inventory": str(list(found["_meta"]["hostvars"])) if found["_meta"]["hostvars"] else warned,
        "connection": inside.results[0]["msg"],
    }


def test_all_kinds_use_the_engine_that_the_environment_names(elsewhere: str, site: Site) -> None:
    far = site.container("far")
    assert told(site, elsewhere) == {
        "module": f"['{far}']",
        "inventory": f"['{far}']",
        "connection": f"Task failed: box {far} is not running (created). Start it with `agentbox up` or site.yml",
    }


def test_all_kinds_name_a_socket_that_is_wrong(site: Site) -> None:
    wrong = f"{site.directory}/none.sock"
    for kind, said in told(site, f"unix://{wrong}").items():
        assert f"nothing listens on the engine's socket {wrong}. Start the engine" in said, kind


def test_all_kinds_name_a_denied_socket_and_what_to_do(elsewhere: str, site: Site) -> None:
    """To root too where it lacks the capability to pass permissions by, as in many containers."""
    path = elsewhere.removeprefix("unix://")
    os.chown(path, 12345, 12345)
    try:
        for kind, said in told(site, elsewhere, ["setpriv", "--bounding-set", "-dac_override"]).items():
            assert f"permission denied on the engine's socket {path}" in said, kind
            assert "Run as root or through sudo, or join the socket's group" in said, kind
    finally:
        os.chown(path, 0, 0)


def test_an_inventorys_own_address_counts_more_and_reaches_the_connection(elsewhere: str, site: Site) -> None:
    path = inventory_file(site.directory, "own.boxes.yml", docker_host=elsewhere)
    run = runs.play([RAW], inventory=path, hosts="all", environment={"DOCKER_HOST": "unix:///nonexistent.sock"})
    [result] = run.results
    assert f"box {site.container('far')} is not running (created)" in result["msg"]
