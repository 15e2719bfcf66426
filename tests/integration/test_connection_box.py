"""Ansible at work inside boxes, through the inventory ``boxes`` and the connection ``box``."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import docker
import pytest
import yaml

from tests.integration import engines, runs
from tests.integration.conftest import Instances
from tests.integration.sites import UID, Site

MIB = 1 << 20
REMOTE_TMP = "/tmp/.ansible/tmp"  # noqa: S108 - where the inventory says that temporary files go
BINARY = bytes(range(256)) * (3 * MIB // 256) + b"\0\xff\r\n"
AWKWARD = "-a file' with $(signs) \\ and blänks.bin"  # a name that only an argument of its own survives


@pytest.fixture(scope="module")
def site(new_instance: Instances, module_place: Path) -> Site:
    """Two running boxes: ``one``, and ``sealed`` with a read-only root and without network."""
    site = Site(new_instance(), module_place)
    sealed = site.box("sealed", read_only=True, network="none")
    result = site.converge(site.box("one"), sealed)
    assert not result.get("failed"), result
    return site


@pytest.fixture(scope="module")
def inventory(site: Site) -> Path:
    path = site.directory / "boxes.yml"
    path.write_text(yaml.safe_dump({"plugin": "agentbox.fleet.boxes", "instances": [site.instance]}), encoding="utf-8")
    return path


def inside(inventory: Path, *tasks: runs.Task, hosts: str = "all", **options: object) -> runs.Run:
    return runs.play(tasks, inventory=inventory, hosts=hosts, **options)  # type: ignore[arg-type]


def task(module: str, name: str = "", **args: object) -> runs.Task:
    return {"name": name or module, f"ansible.builtin.{module}": args}


def free(text: str, module: str = "raw", **keywords: object) -> runs.Task:
    """A task whose module takes a command line."""
    return {"name": text[:40], f"ansible.builtin.{module}": text, **keywords}


@pytest.fixture(scope="module")
def source(module_place: Path) -> Path:
    path = module_place / "sent.bin"
    path.write_bytes(BINARY)
    return path


def test_modules_work_as_the_boxs_user_also_with_a_read_only_root(inventory: Path, site: Site, source: Path) -> None:
    """Files arrive byte by byte and come back so, with pipelining in one box and without in the other."""
    back = site.directory / "back"
    target = f"/home/agent/{AWKWARD}"
    run = inside(
        inventory,
        {"name": "shell", "ansible.builtin.shell": "id -u; id -g; pwd"},
        task("copy", src=str(source), dest=target, mode="0600"),
        task("stat", path=target, checksum_algorithm="sha256"),
        task("fetch", src=target, dest=f"{back}/{{{{ inventory_hostname }}}}", flat=True),
        variables={"ansible_pipelining": "{{ inventory_hostname is match('.*-one') }}"},
    )
    for box in ("one", "sealed"):
        results = {result["task"]: result for result in run.results if result["host"] == site.container(box)}
        assert not any(result.get("failed") for result in results.values()), run.output
        assert results["shell"]["stdout"].splitlines() == [str(UID), "0", "/workspace"]
        found = results["stat"]["stat"]
        assert (found["uid"], found["mode"], found["size"]) == (UID, "0600", len(BINARY))
        assert found["checksum"] == hashlib.sha256(BINARY).hexdigest()
        assert (back / site.container(box)).read_bytes() == BINARY
        assert site.run(box, f"ls -A ~/.ansible {REMOTE_TMP} 2>/dev/null; true").strip() in ("", f"{REMOTE_TMP}:")


def test_exit_codes_and_outputs_are_exact(inventory: Path, site: Site) -> None:
    run = inside(
        inventory,
        free("printf 'out\\n'; printf 'err\\n' >&2; exit 37"),
        free("kill -TERM $$"),
        free("exec nosuchprogram"),
        free("cat", "command", args={"stdin": "from stdin"}),
        task("slurp", src="/agentbox/box.json"),
        hosts=site.container("one"),
    )
    failed, killed, missing, read, slurped = run.results
    assert (failed["rc"], failed["stdout"], failed["stderr"]) == (37, "out\n", "err\n")
    assert killed["rc"] == 128 + 15
    assert missing["rc"] == 127
    assert read["stdout"] == "from stdin"
    assert json.loads(base64.b64decode(slurped["content"]))["box"] == "one"


def test_files_that_are_not_there_or_may_not_be_written_are_errors_not_lost_hosts(
    inventory: Path, site: Site, source: Path
) -> None:
    back = site.directory / "nothing"
    run = inside(
        inventory,
        task("fetch", src="/nosuch/file", dest=str(back), flat=True),
        task("copy", src=str(source), dest="/agentbox/x"),
        task("ping"),
        hosts=site.container("one"),
    )
    missing, denied, ping = run.results
    assert missing["failed"]
    assert "does not exist" in missing["msg"]
    assert denied["failed"]
    assert not any(result.get("unreachable") for result in run.results), run.output
    assert ping["ping"] == "pong"
    assert not back.exists()


def test_nobody_becomes_another_user(inventory: Path, site: Site) -> None:
    run = inside(inventory, free("id -u", become=True), hosts=site.container("one"))
    [result] = run.results
    assert result["failed"]
    assert "nobody can become another user" in result["msg"]
    assert "ansible_become: false" in result["msg"]


def silence(inventory: Path, site: Site, seconds: int, environment: dict[str, str]) -> None:
    start = time.monotonic()
    run = inside(inventory, free(f"sleep {seconds}; echo done"), hosts=site.container("one"), environment=environment)
    [result] = run.results
    assert (result["rc"], result["stdout"]) == (0, "done\n"), run.output
    assert time.monotonic() - start >= seconds


def test_a_silent_command_outlives_the_engines_timeout(inventory: Path, site: Site) -> None:
    silence(inventory, site, 4, {"AGENTBOX_ENGINE_TIMEOUT": "2"})


@pytest.mark.full
def test_a_silent_command_is_not_cut_at_sixty_seconds(inventory: Path, site: Site) -> None:
    silence(inventory, site, 70, {})


@pytest.fixture
def broken(site: Site, engine: docker.APIClient) -> Iterator[dict[str, str]]:
    """Hosts that are no running box, by name, and what is said of them; put right afterwards."""
    foreign = f"{site.instance}-foreign"
    labels = {"agentbox.instance": site.instance}
    engine.create_container(engines.IMAGE, ["sleep", "60"], name=foreign, labels=labels)
    one, sealed = site.container("one"), site.container("sealed")
    engine.stop(one, timeout=30)
    engines.pause(engine, sealed)
    yield {
        one: f"box {one} is not running (exited). Start it with `agentbox up` or site.yml",
        sealed: f"box {sealed} is paused. Run `docker unpause {sealed}` or site.yml",
        f"{site.instance}-none": f"there is no container {site.instance}-none. Make the box",
        foreign: f"container {foreign} is no box",
    }
    engine.unpause(sealed)
    engine.start(one)
    site.wait_for_session("one")


def test_what_is_no_running_box_is_unreachable_with_a_way_out(site: Site, broken: dict[str, str]) -> None:
    hosts = site.directory / "hosts.yml"
    wanted = {"all": {"hosts": dict.fromkeys(broken), "vars": {"ansible_connection": "agentbox.fleet.box"}}}
    hosts.write_text(yaml.safe_dump(wanted), encoding="utf-8")
    run = inside(hosts, free("true"))
    found = {result["host"]: result for result in run.results}
    assert found.keys() == broken.keys()
    for host, said in broken.items():
        assert found[host]["unreachable"], run.output
        assert said in found[host]["msg"]


def test_a_box_that_stops_takes_its_command_along(inventory: Path, site: Site, engine: docker.APIClient) -> None:
    """The command ends, nothing hangs, and after the restart a reset connection works."""
    script = f"import docker, time; time.sleep(6); docker.APIClient().restart({site.container('one')!r}, timeout=20)"
    stopping = subprocess.Popen([sys.executable, "-c", script])
    try:
        run = inside(
            inventory,
            free("sleep 100", ignore_unreachable=True),
            {"name": "wait", "ansible.builtin.wait_for_connection": {"timeout": 60}},
            {"name": "reset", "ansible.builtin.meta": "reset_connection"},
            task("ping"),
            hosts=site.container("one"),
        )
    finally:
        assert stopping.wait(60) == 0
    slept, *_, ping = run.results
    assert slept.get("unreachable") or slept["rc"] != 0
    assert ping["ping"] == "pong", run.output
    site.wait_for_session("one")


# Calls methods of the connection and tells what came of each: null, or the class and text of the error.
CALLS = """
import json, os, sys
from ansible.errors import AnsibleError
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader, init_plugin_loader
init_plugin_loader([os.path.abspath("collections")])
connection = connection_loader.get("agentbox.fleet.box", PlayContext(), os.devnull)
connection.set_options(direct={"remote_addr": sys.argv[1]})
told = []
for method, *arguments in json.loads(sys.argv[2]):
    try:
        getattr(connection, method)(*arguments)
        told.append(None)
    except AnsibleError as error:
        told.append(f"{type(error).__name__}: {error}")
print(json.dumps(told))
"""


def calls(site: Site, *wanted: Sequence[str]) -> list[str | None]:
    done = subprocess.run(
        [sys.executable, "-c", CALLS, site.container("one"), json.dumps(wanted)],
        cwd=runs.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: list[str | None] = json.loads(done.stdout)
    return told


def test_files_of_all_kinds_arrive_whole(site: Site) -> None:
    """Empty, sparse, named like an option, and below the workspace when their path is relative."""
    empty, back = site.directory / "empty", site.directory / "files"
    empty.touch()
    back.mkdir()
    site.run("one", "truncate -s 20M /tmp/sparse && printf end >>/tmp/sparse; printf dash >-n")
    told = calls(
        site,
        ("put_file", str(empty), "/tmp/empty"),  # noqa: S108 - in the box
        ("fetch_file", "/tmp/empty", str(back / "empty")),  # noqa: S108 - in the box
        ("fetch_file", "/tmp/sparse", str(back / "sparse")),  # noqa: S108 - in the box
        ("fetch_file", "-n", str(back / "dash")),
    )
    assert told == [None] * 4
    assert (back / "empty").read_bytes() == b""
    assert (back / "sparse").read_bytes() == bytes(20 * MIB) + b"end"
    assert (back / "dash").read_bytes() == b"dash"


def test_each_failure_of_a_copy_is_named_and_leaves_nothing(site: Site, source: Path) -> None:
    back = site.directory / "failed"
    missing, directory, local, denied, full, bytes_ = calls(
        site,
        ("fetch_file", "/nosuch", str(back)),
        ("fetch_file", "/agentbox", str(back)),
        ("put_file", "/nosuch", "/tmp/x"),  # noqa: S108 - in the box
        ("put_file", str(source), "/agentbox/x"),
        ("put_file", str(source), "/dev/full"),
        ("put_file", str(source), "/tmp/\udcff"),  # noqa: S108 - in the box
    )
    box = site.container("one")
    assert str(missing).startswith(f"AnsibleError: cannot read /nosuch in box {box}: ")
    assert "No such file" in str(missing)
    assert str(directory).startswith(f"AnsibleError: cannot read /agentbox in box {box}: ")
    assert str(local).startswith("AnsibleFileNotFound: Could not find or access '/nosuch' on the Ansible Controller")
    assert "Read-only file system" in str(denied)
    assert "No space left on device" in str(full)
    assert "have to be UTF-8" in str(bytes_)
    assert not back.exists()
