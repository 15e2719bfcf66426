"""What changes a box, what must not, and what lasts: state, drift, recreation, removal, terminals."""

from __future__ import annotations

import hashlib
import os
import pty
import select
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import docker
import pytest

from agentbox._shared import _naming
from tests.integration import engines, runs
from tests.integration.sites import UID, Site

STOP_LIMIT = 8.0  # seconds for a box to end; the engine would kill it after 20
SECRETS = {"one": {"STANDIN_TOKEN": "value-of-a-secret"}}
LIST_SESSIONS = f"tmux -L {_naming.TMUX_SOCKET} list-sessions -F '#{{session_name}}'"


@pytest.fixture(scope="module")
def site(engine: docker.APIClient, new_instance: Callable[[], str], module_place: Path) -> Site:
    """Boxes ``one``, with a secret and something in its HOME, and ``two``, which each test leaves as declared."""
    site = Site(new_instance(), module_place)
    result = site.converge(site.box("one"), site.box("two"), secrets=SECRETS)
    assert not result.get("failed"), result
    site.run("one", "echo kept > ~/kept")
    return site


def ids(engine: docker.APIClient, site: Site) -> dict[str, str]:
    return {box: engine.inspect_container(site.container(box))["Id"] for box in ("one", "two")}


def kinds(result: runs.Result) -> list[tuple[str, str]]:
    return [(action["box"], action["action"]) for action in result["actions"]]


def test_stopped_and_paused_boxes_go_on(engine: docker.APIClient, site: Site) -> None:
    before = ids(engine, site)
    engines.pause(engine, site.container("two"))
    engine.stop(site.container("one"), timeout=20)
    task = site.task(site.box("one"), site.box("two"), secrets=SECRETS)
    result, again = runs.play([task, task]).results
    assert kinds(result) == [("one", "start"), ("two", "unpause")]
    assert again["changed"] is False
    assert ids(engine, site) == before
    assert site.run("one", "cat ~/kept") == "kept\n"


def test_state_stopped_is_kept(engine: docker.APIClient, site: Site) -> None:
    stopped = site.task(site.box("two", state="stopped"))
    result, again, started = runs.play([stopped, stopped, site.task(site.box("two"))]).results
    assert kinds(result) == [("two", "stop")]
    assert again["changed"] is False
    assert kinds(started) == [("two", "start")]


def test_the_end_of_a_box_is_clean_and_soon(engine: docker.APIClient, site: Site) -> None:
    """SIGTERM is enough, also while agents run and a viewer looks."""
    site.wait_for_session("two")
    start = time.monotonic()
    engine.stop(site.container("two"), timeout=20)
    assert time.monotonic() - start < STOP_LIMIT
    state = engine.inspect_container(site.container("two"))["State"]
    assert state["ExitCode"] in (0, 143)
    assert state["OOMKilled"] is False
    assert not site.converge(site.box("two")).get("failed")


def test_changed_files_are_put_right_without_touching_the_container(engine: docker.APIClient, site: Site) -> None:
    """A secret that others may read, a file that was edited, one that is gone: the diff names them, not their text."""
    before = engines.belongings(engine, site.instance)
    secret = Path(site.paths("one").secrets, "STANDIN_TOKEN")
    mount = Path(site.paths("one").mount)
    whole = engines.files_below(mount)
    secret.chmod(0o644)
    (mount / "entry.sh").write_text("exit 1\n", encoding="utf-8")
    (mount / "tmux.conf").unlink()
    task = site.task(site.box("one"), secrets=SECRETS)
    run = runs.play([{**task, "check_mode": True}, task, task], diff=True, verbosity=1)
    predicted, result, again = run.results
    assert {action["detail"] for action in result["actions"]} == {
        str(secret),
        str(mount / "entry.sh"),
        str(mount / "tmux.conf"),
    }
    assert predicted["actions"] == result["actions"]
    assert again["changed"] is False
    assert engines.files_below(mount) == whole
    assert stat.S_IMODE(secret.stat().st_mode) == 0o400
    assert engines.belongings(engine, site.instance) == before
    assert SECRETS["one"]["STANDIN_TOKEN"] not in run.output


def test_a_changed_and_a_removed_secret(site: Site) -> None:
    """A value reaches its file and no output; a secret that is declared no more is gone from the disk."""
    value = "another-value-of-a-secret"
    secret = str(Path(site.paths("one").secrets, "STANDIN_TOKEN"))
    box = site.box("one", recreate="drift")
    run = runs.play(
        [
            site.task(box, secrets={"one": {"STANDIN_TOKEN": value}}),
            runs.module_task("ansible.builtin.stat", {"path": secret, "checksum_algorithm": "sha256"}),
            site.task(box),
            runs.module_task("ansible.builtin.stat", {"path": secret}),
            site.task(box, secrets=SECRETS),
            site.task(site.box("one"), secrets=SECRETS),
        ],
        diff=True,
        verbosity=3,
    )
    changed, changed_file, removed, removed_file, restored, again = run.results
    assert [changed["changed"], removed["changed"], restored["changed"], again["changed"]] == [True, True, True, False]
    assert changed_file["stat"]["checksum"] == hashlib.sha256(value.encode()).hexdigest()
    assert removed_file["stat"]["exists"] is False
    assert Path(secret).read_text(encoding="utf-8") == SECRETS["one"]["STANDIN_TOKEN"]
    for known in (value, SECRETS["one"]["STANDIN_TOKEN"]):
        assert known not in run.output


def test_what_only_a_new_container_puts_right_is_drift(engine: docker.APIClient, site: Site) -> None:
    """Kept and told of; made anew only where the declaration allows it, with HOME and caches."""
    before = ids(engine, site)
    changed = {"shm_size": "300m"}
    kept, predicted, repaired, again = runs.play(
        [
            site.task(site.box("one", **changed), site.box("two", **changed), secrets=SECRETS),
            site.task(
                site.box("one", recreate="drift", **changed),
                site.box("two"),
                secrets=SECRETS,
                keywords={"check_mode": True},
            ),
            site.task(
                site.box("one", recreate="drift", **changed),
                site.box("two", recreate="always", **changed),
                secrets=SECRETS,
            ),
            site.task(site.box("one", **changed), site.box("two", **changed), secrets=SECRETS),
        ]
    ).results
    assert kept["changed"] is False
    assert {(drift["box"], drift["path"]) for drift in kept["drift"]} == {("one", "shm_size"), ("two", "shm_size")}
    assert kinds(predicted) == [("one", "recreate")]
    assert kinds(repaired) == [("one", "recreate"), ("two", "recreate")]
    assert (again["changed"], again["drift"]) == (False, [])
    after = ids(engine, site)
    assert not set(before.values()) & set(after.values())
    assert engine.inspect_container(site.container("one"))["HostConfig"]["ShmSize"] == 300 << 20
    assert site.run("one", "cat ~/kept; stat -c %u ~/.npm ~/.cargo/registry").split() == ["kept", str(UID), str(UID)]


def test_another_workspace_or_user_of_a_name_is_refused(engine: docker.APIClient, site: Site, place: Path) -> None:
    """Neither touches the box that is there; the error proposes another name."""
    other_user = Site(site.instance, place)
    before = engines.belongings(engine, site.instance)
    workspace, user = runs.play(
        [
            site.task(site.box("two", workspace=str(site.workspace("elsewhere")))),
            other_user.task(site.box("two")),
        ]
    ).results
    assert workspace["failed"] is True
    assert str(site.workspace("two")) in workspace["msg"]
    assert "name" in workspace["msg"]
    assert user["failed"] is True
    assert str(site.state) in user["msg"]
    assert "Choose another name" in user["msg"]
    assert engines.belongings(engine, site.instance) == before


@pytest.mark.parametrize("term", ["xterm-ghostty", "x; rm -rf /", "", "xterm-256color"])
def test_a_terminal_of_any_name_attaches_and_leaves_no_session(site: Site, term: str) -> None:
    """As the CLI attaches: a view of its own that ends with the viewer, while the session goes on."""
    site.wait_for_session("one")
    master, slave = pty.openpty()
    command = ["docker", "exec", "-it", "-e", f"TERM={term}", site.container("one"), "bash", "/agentbox/attach.sh"]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True) as viewer:
        os.close(slave)
        try:
            assert _wait_for(lambda: len(site.run("one", LIST_SESSIONS).split()) == 2), _seen(master)
            os.write(master, b"\x02d")  # detach
            assert _wait_for(lambda: viewer.poll() is not None)
            assert viewer.returncode == 0, _seen(master)
        finally:
            viewer.kill()
            os.close(master)
    assert site.run("one", LIST_SESSIONS).split() == [_naming.TMUX_SESSION]


def _wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _seen(terminal: int) -> str:
    """What a viewer's terminal shows so far."""
    ready, _, _ = select.select([terminal], [], [], 0)
    return os.read(terminal, 65536).decode(errors="replace") if ready else ""


def test_the_page_ends_and_the_session_goes_on(site: Site) -> None:
    """The box Observer is a service of its own: killed, it comes back, and the lead's process is the same."""
    site.wait_for_session("two")
    panes = f"tmux -L {_naming.TMUX_SOCKET} list-panes -t =agentbox:{_naming.WINDOW_LEAD} -F '#{{pane_pid}}'"
    page = f"curl -s -m 3 -o /dev/null http://127.0.0.1:{_naming.PAGE_PORT}/healthz"
    assert _wait_for(lambda: site.try_run("two", page).returncode == 0, 60)
    before = site.run("two", panes)
    old = site.run("two", "pgrep -f agentbox.observer").split()
    site.run("two", f"kill -9 {' '.join(old)}")
    assert _wait_for(lambda: not set(site.try_run("two", "pgrep -f agentbox.observer").stdout.split()) & set(old))
    assert _wait_for(lambda: site.try_run("two", page).returncode == 0, 60)
    assert site.run("two", panes) == before


def test_home_and_caches_outlive_the_box(engine: docker.APIClient, site: Site) -> None:
    volumes = engines.belongings(engine, site.instance)["volumes"]
    absent = site.task({"name": "one", "state": "absent"}, {"name": "two", "state": "absent"})
    present = site.task(site.box("one"), site.box("two"), secrets=SECRETS)
    removed, again, made = runs.play([absent, absent, present]).results
    assert ("one", "remove") in kinds(removed)
    assert not any(kind == "remove_volume" for _, kind in kinds(removed))
    assert again["changed"] is False
    assert ("one", "create") in kinds(made)
    assert engines.belongings(engine, site.instance)["volumes"] == volumes
    assert site.run("one", "cat ~/kept; stat -c %u ~/.npm ~/.cargo/registry").split() == ["kept", str(UID), str(UID)]
    # The last test of this module: removed with their volumes, nothing is left of them and of what they shared.
    boxes = absent["agentbox.fleet.box"]["boxes"]
    gone, still = runs.play([site.task(*boxes, remove_volumes=True)] * 2).results
    assert [gone["changed"], still["changed"]] == [True, False]
    assert engines.belongings(engine, site.instance) == {"containers": {}, "volumes": [], "networks": []}
