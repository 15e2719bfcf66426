"""Credentials of real boxes: what comes in, whose it is there, what the host keeps, and where nobody finds it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import docker
import pytest
from ansible_collections.agentbox.fleet.plugins.modules import box as module

from agentbox._shared import _boxes, _engine
from agentbox._shared._boxes import BoxResult, Outcome
from agentbox._shared._health import Check
from agentbox._shared._progress import file_reporter
from tests.integration import engines, runs
from tests.integration.sites import UID, Site, manifests
from tests.integration.test_health_box import find, look

CANARY = "canary-of-a-login"
GIVEN = "  a 'quoted' \"canary\" # $HOME `id` \\n ünï\t%s "  # leading and trailing blanks are part of it
PLACE = ".standin/login.json"
STANDIN = {
    **manifests()["standin"],
    "config": {"directory": ".standin", "variable": "STANDIN_HOME"},
    "credentials": {
        "file": "login.json",
        "oauth_key": "oauth",
        "expires_key": "ends",
        "in_place": True,
        "api_key": "key",
        "variables": ["STANDIN_KEY"],
        "login": "standin login",
    },
}
HELD = 'stat -c "%u %a %Y" ~/.standin ~/.standin/login.json; cat ~/.standin/login.json'


def login(token: str = CANARY, *, ends: int = 2_000_000_000) -> str:
    return json.dumps({"oauth": {"token": token, "ends": ends * 1000}})


@dataclass(frozen=True)
class Person:
    """Somebody's home on the host, with a login unless it is taken away."""

    home: Path

    @property
    def login(self) -> Path:
        return self.home / PLACE

    def log_in(self, content: str, modified: int) -> None:
        self.login.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.login.write_text(content, encoding="utf-8")
        self.login.chmod(0o600)
        for path in (self.home, self.login.parent, self.login):
            os.chown(path, UID, UID)
        os.utime(self.login, (modified, modified))


@pytest.fixture
def person(place: Path) -> Person:
    made = Person(place / "home")
    made.log_in(login(), 1_000)
    return made


@pytest.fixture
def site(instance: str, place: Path) -> Site:
    return Site(instance, place)


def options(person: Person, **more: Any) -> dict[str, Any]:
    return {"identity_home": str(person.home), "manifests": {"standin": STANDIN}, **more}


def converge(site: Site, person: Person, *boxes: dict[str, Any], check: bool = False, **more: Any) -> Outcome:
    """As the module does, in this process: all of it but Ansible's frame, in a tenth of the time."""
    arguments = site.task(*boxes, **options(person, **more))["agentbox.fleet.box"]
    params = {**{name: option.get("default") for name, option in module.ARGUMENT_SPEC.items()}, **arguments}
    engine = _engine.connect()
    try:
        request = _boxes.Request(
            setting=module.setting(params, engine),
            boxes=params["boxes"],
            secrets=params["secrets"],
            engine=engine,
            report=file_reporter(None),
            check=check,
            remove_volumes=params["remove_volumes"],
        )
        return _boxes.converge(request)
    finally:
        engine.close()


def only(outcome: Outcome) -> BoxResult:
    assert not outcome.failures, outcome.failures
    [result] = outcome.boxes
    return result


def kinds(outcome: Outcome) -> list[str]:
    plan = only(outcome).plan
    return [action.kind for action in plan.actions] if plan else []


# --- seed -----------------------------------------------------------------------------------------------------------


def test_the_hosts_login_is_in_the_box_before_it_starts_and_again_only_when_it_is_better(
    site: Site, person: Person
) -> None:
    box = site.box("one", credentials="seed")
    predicted, made = (converge(site, person, box, check=check) for check in (True, False))
    assert predicted.as_dict()["actions"] == made.as_dict()["actions"]
    assert kinds(made)[-3:] == ["create", "seed_login", "start"]
    assert site.run("one", HELD) == f"{UID} 700 {mode_time(site)}\n{UID} 600 1000\n{login()}"
    assert kinds(converge(site, person, box)) == []

    person.log_in(login("sooner over", ends=1_900_000_000), 2_000)
    assert kinds(converge(site, person, box)) == []
    person.log_in(login("renewed", ends=2_100_000_000), 2_000)
    site.run("one", f"printf %s '{login('of the box', ends=2_200_000_000)}' > ~/{PLACE}")
    assert kinds(converge(site, person, box)) == [], "the box has renewed it itself"
    person.log_in(login("renewed again", ends=2_300_000_000), 2_000_000_000)
    assert kinds(converge(site, person, box)) == ["seed_login"]
    assert site.run("one", f"cat ~/{PLACE}") == login("renewed again", ends=2_300_000_000)


def mode_time(site: Site) -> str:
    """When the box's directory of the agent was last changed, which is of no matter here."""
    return site.run("one", "stat -c %Y ~/.standin").strip()


def test_an_agent_that_left_links_gets_its_login_and_the_host_does_not(site: Site, person: Person) -> None:
    """A box from before, whose agent sent its settings directory to the workspace and waits for a login there."""
    box = site.box("one")
    assert kinds(converge(site, person, box))
    site.run("one", "rm -r ~/.standin && mkdir /workspace/trap && ln -s /workspace/trap ~/.standin")
    seeded = {**box, "credentials": "seed", "recreate": "always"}
    assert kinds(converge(site, person, seeded))[-2:] == ["seed_login", "recreate"]
    assert site.run("one", f"cat ~/{PLACE}") == login()
    assert list((site.workspace("one") / "trap").iterdir()) == []


@pytest.mark.parametrize("mode", ["seed", "mount"])
def test_an_explicit_mode_without_a_login_fails_and_check_mode_says_so(
    site: Site, person: Person, engine: docker.APIClient, mode: str
) -> None:
    person.login.unlink()
    before = site.look(engine)
    box = site.box("one", credentials=mode)
    before = site.look(engine)
    checked, real = (converge(site, person, box, check=check) for check in (True, False))
    assert checked.failures == real.failures
    assert f"{mode} needs a login on the host" in real.failures[0]
    assert "`standin login`" in real.failures[0]
    assert site.look(engine)["engine"] == before["engine"]


def test_one_box_has_a_login(site: Site, person: Person, new_instance: Callable[[], str]) -> None:
    """Of two in one declaration neither gets it; nor does a box of another instance while the first is there."""
    one, two = (site.box(name, credentials="seed") for name in ("one", "two"))
    both = converge(site, person, one, two, check=True)
    assert [result.error.split(":")[0] for result in both.boxes] == ["boxes[0].credentials", "boxes[1].credentials"]
    assert "boxes[1].credentials takes" in both.boxes[0].error
    assert kinds(converge(site, person, one))
    elsewhere = Site(new_instance(), site.directory / "elsewhere")
    other = elsewhere.box("three", credentials="seed")
    assert (
        f"box one of instance {site.instance} has the login of standin"
        in converge(elsewhere, person, other, check=True).failures[0]
    )
    gone = converge(site, person, {"name": "one", "state": "absent"}, remove_volumes=True)
    assert not gone.failures
    assert not list(site.state.glob("seeded/*"))
    assert not converge(elsewhere, person, other, check=True).failures


# --- mount ----------------------------------------------------------------------------------------------------------

# What a CLI on the host would run or obey, were it changed: what is there, and what is not there yet.
RULING = (
    "settings.json",
    "hooks/start.sh",
    "plugins/x/run.js",
    "commands/go.md",
    "skills/new/SKILL.md",
    ".config.json",
)


def test_of_a_mounted_login_nothing_but_the_login_can_be_changed(site: Site, person: Person) -> None:
    for name in RULING[:3]:
        path = person.login.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of the host\n", encoding="utf-8")
        for made in (path, path.parent):
            os.chown(made, UID, UID)
    before = engines.files_below(person.home)
    box = site.box("one", credentials="mount")
    predicted, made_box = (converge(site, person, box, check=check) for check in (True, False))
    assert predicted.as_dict()["actions"] == made_box.as_dict()["actions"]
    site.run(
        "one", "cd ~/.standin; " + "; ".join(f"mkdir -p {Path(name).parent}; echo evil > {name}" for name in RULING)
    )
    site.run("one", "grep -c ' /home/agent/.standin/' /proc/self/mountinfo | grep -qx 1")
    assert engines.files_below(person.home) == before
    assert site.run("one", f"cat ~/{PLACE}") == login()

    # Agents replace the file, or, where it is a mount point, write into it.
    assert site.try_run("one", "cd ~/.standin; echo x > new; mv new login.json; rm -f login.json").returncode != 0
    site.run("one", f"printf %s '{login('renewed in the box')}' > ~/{PLACE}")
    assert person.login.read_text(encoding="utf-8") == login("renewed in the box")
    assert kinds(converge(site, person, box)) == []
    second = converge(site, person, site.box("two", credentials="mount"), check=True)
    assert f"box one of instance {site.instance} has the login" in second.failures[0]


def test_doctor_sees_that_the_host_replaced_a_mounted_login(site: Site, person: Person) -> None:
    box = site.box("one", credentials="mount")
    assert kinds(converge(site, person, box))

    def mounts() -> Check:
        return find(look(site, None), "one", "mounts")

    assert mounts().verdict == "ok"
    new = person.login.with_name("new")
    new.write_text(login("renewed on the host"), encoding="utf-8")
    new.rename(person.login)
    os.chown(person.login, UID, UID)
    assert mounts().verdict == "fail"
    assert "was made anew while the box ran" in mounts().seen
    subprocess.run(["docker", "restart", "--time=1", site.container("one")], check=True, capture_output=True)
    assert mounts().verdict == "ok"


@pytest.mark.full
def test_a_box_that_had_a_mounted_login_keeps_no_file_of_root(site: Site, person: Person) -> None:
    box = site.box("one", credentials="mount", recreate="always")
    assert kinds(converge(site, person, box))
    assert "recreate" in kinds(converge(site, person, {**box, "credentials": "auto"}))
    assert site.run("one", 'stat -c "%u %a %s" ~/.standin/login.json').strip() == f"{UID} 600 0"
    site.run("one", f"echo new > ~/.standin/new && mv ~/.standin/new ~/{PLACE}")


# --- secrets --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Searched:
    """A box with a secret and a seeded login, and all that runs about it said."""

    site: Site
    texts: dict[str, str]


@pytest.fixture(scope="module")
def searched(new_instance: Callable[[], str], module_place: Path, engine: docker.APIClient) -> Searched:
    site = Site(new_instance(), module_place)
    person = Person(module_place / "home")
    person.log_in(login(), 1_000)
    given = options(person, secrets="{{ secrets_of_boxes }}", progress=str(module_place / "progress"))
    box = site.box("one", credentials="seed")
    failing = site.box("two", memory="much")
    tasks = [
        site.task(box, **given, keywords={"check_mode": True}),
        site.task(box, **given),
        site.task(box, failing, **given),
        site.task(**{**given, "boxes": "{{ [item] }}"}, keywords={"loop": [box, {**box, "pids": 99}]}),
        runs.module_task("box_info", {"instance": site.instance}),
    ]
    with watched_command_lines() as command_lines:
        run = runs.play(
            tasks,
            diff=True,
            verbosity=3,
            variables={"secrets_of_boxes": {"one": {"STANDIN_TOKEN": GIVEN}}},
            environment={
                "ANSIBLE_LOG_PATH": str(module_place / "ansible.log"),
                "ANSIBLE_CALLBACKS_ENABLED": "results,ansible.builtin.junit",
                "JUNIT_OUTPUT_DIR": str(module_place / "junit"),
            },
        )
    assert [bool(result.get("failed")) for result in run.results] == [False, False, True, False, False], run.output
    site.wait_for_session("one")
    container = engine.inspect_container(site.container("one"))
    texts = {
        "output with -vvv and --diff": run.output,
        "results": json.dumps(run.results, ensure_ascii=False),
        "log": (module_place / "ansible.log").read_text(encoding="utf-8"),
        "junit": "".join(path.read_text(encoding="utf-8") for path in (module_place / "junit").iterdir()),
        "command lines": "\n".join(command_lines),
        "progress": (module_place / "progress").read_text(encoding="utf-8"),
        "inspect": json.dumps(container, ensure_ascii=False),
        "inspect of volumes": json.dumps(engine.volumes()),
        "inspect of the image": json.dumps(engine.inspect_image(container["Image"])),
        "image history": json.dumps(engine.history(container["Image"])),
        "container's log": engine.logs(site.container("one")).decode(),
        "container's layer": json.dumps(engine.diff(site.container("one"))),
        "processes": json.dumps(engine.top(site.container("one")), ensure_ascii=False),
        "environment of the first process": Path("/proc", str(container["State"]["Pid"]), "environ").read_text(),
        "tmux": site.run("one", "tmux -L agentbox show-environment -g; tmux -L agentbox show-environment -t agentbox"),
        "page": site.run("one", "curl -s http://127.0.0.1:4317/ http://127.0.0.1:4317/api/events"),
        "events": site.run("one", "cat ~/.agentbox/* 2>/dev/null | strings || true"),
        "units": units(),
        **{path: entry[4] for path, entry in engines.files_below(site.state).items()},
    }
    return Searched(site, texts)


@contextmanager
def watched_command_lines() -> Iterator[set[str]]:
    """All command lines and environments of processes on this machine that a busy look can catch, while it lasts."""
    seen: set[str] = set()
    program = (
        "import glob, time\n"
        "while True:\n"
        "    for path in glob.glob('/proc/[0-9]*/cmdline'):\n"
        "        try: print(open(path, errors='replace').read().replace('\\0', ' ').replace('\\n', ' '), flush=True)\n"
        "        except OSError: pass\n"
        "    time.sleep(0.1)\n"
    )
    with subprocess.Popen(["python3", "-c", program], stdout=subprocess.PIPE, text=True) as watcher:
        yield seen
        watcher.terminate()
        assert watcher.stdout is not None
        seen.update(watcher.stdout)


def units() -> str:
    places = (Path("/etc/systemd/system"), Path("/run/systemd"), Path("/etc/cron.d"))
    files = [path for place in places if place.is_dir() for path in place.rglob("*") if path.is_file()]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


@pytest.mark.parametrize("value", [CANARY, GIVEN, "canary"])
def test_a_value_given_to_a_box_is_found_nowhere(searched: Searched, value: str) -> None:
    """Searched as it is, as JSON writes it and as XML does."""
    secret = f"{searched.site.paths('one').secrets}/STANDIN_TOKEN"
    spellings = {
        value,
        value.strip(),
        json.dumps(value)[1:-1],
        json.dumps(json.dumps(value))[3:-3],
        escape(value, {'"': "&quot;"}),
    }
    found = {place for place, text in searched.texts.items() if any(spelling in text for spelling in spellings)}
    assert found - {secret} == set()
    assert len(searched.texts) > 30


def test_a_secret_reaches_the_process_byte_by_byte(searched: Searched) -> None:
    environ = searched.site.run(
        "one", "cat /proc/$(tmux -L agentbox list-panes -t agentbox:main -F '#{pane_pid}')/environ | base64 -w0"
    )
    assert f"STANDIN_TOKEN={GIVEN}".encode() in base64.b64decode(environ).split(b"\0")
