"""Logins of a host: what a file says, who may have one, when a box gets it, and what is never told."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbox._shared import _actions, _credentials_host
from agentbox._shared._box import Box, Login, Setting
from agentbox._shared._credentials import LoginFacts, login_facts
from agentbox._shared._credentials_gather import Logins
from agentbox._shared._credentials_host import Seed
from agentbox._shared._errors import DeclarationError
from agentbox._shared._host import Person
from agentbox._shared._payload import mounts
from agentbox._shared._plan import Situation, plan_box
from agentbox._shared._spec import BoxSpec, parse_boxes
from agentbox._shared._state import Digester
from agentbox._shared._volumes import Volume
from tests.unit.module_utils.box_samples import IMAGE, SETTING, UID, WORKSPACE, inspected, workspace
from tests.unit.module_utils.box_samples import resolve as resolved

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = {
    name: yaml.safe_load((ROOT / f"agents/{name}.yml").read_text(encoding="utf-8")) for name in ("claude", "codex")
}
CANARY = "canary-of-a-login"
HOME_VOLUME = "abx-web-home"
FACTS = LoginFacts(oauth=True, expires=2000.0, modified=1000)


def claude(token: str = CANARY, expires: float = 2000.0) -> bytes:
    return json.dumps({"claudeAiOauth": {"accessToken": token, "expiresAt": expires * 1000}}).encode()


def codex(claims: object, key: str | None = None) -> bytes:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    tokens = {"access_token": f"e30.{part}.c2ln", "refresh_token": "r"} if claims is not None else None
    return json.dumps({"OPENAI_API_KEY": key, "tokens": tokens}).encode()


# --- what a file holds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "content", "expected"),
    [
        ("claude", claude(expires=12.5), LoginFacts(True, 12.5, 7)),
        ("claude", b'{"claudeAiOauth": {"accessToken": "x"}}', LoginFacts(True, None, 7)),
        ("claude", b'{"claudeAiOauth": {"accessToken": "x", "expiresAt": true}}', LoginFacts(True, None, 7)),
        ("claude", b'{"claudeAiOauth": {"accessToken": "", "expiresAt": 1}}', None),
        ("claude", b'{"claudeAiOauth": "x"}', None),
        ("claude", b'{"mcpOAuth": {"server": {"accessToken": "x"}}}', None),
        ("claude", b"[1]", None),
        ("claude", b"{", None),
        ("claude", b"\xff", None),
        ("claude", b"[" * 100_000, None),
        ("codex", codex({"exp": 99}), LoginFacts(True, 99.0, 7)),
        ("codex", codex({"exp": "99"}), LoginFacts(True, None, 7)),
        ("codex", b'{"tokens": {"access_token": "a.!.b"}}', LoginFacts(True, None, 7)),
        ("codex", codex(None, key="sk-x"), LoginFacts(False, None, 7)),
        ("codex", codex(None), None),
    ],
)
def test_what_the_shipped_agents_keep_is_told_apart(agent: str, content: bytes, expected: LoginFacts | None) -> None:
    assert login_facts(SHIPPED[agent]["credentials"], content, 7.9) == expected


def test_a_manifest_without_keys_takes_any_content_for_a_login() -> None:
    assert login_facts({"file": "key"}, b"x", 7) == LoginFacts(False, None, 7)
    assert login_facts({"file": "key"}, b" \n", 7) is None


@pytest.mark.parametrize(
    ("host", "box", "expected"),
    [
        ((2, 20.0), (1, 10.0), True),
        ((2, 10.0), (1, 20.0), False),  # newer and sooner over
        ((1, 20.0), (1, 10.0), False),  # as old
        ((1, 20.0), (2, 10.0), False),
        ((2, None), (1, 10.0), True),
        ((2, None), (1, None), True),
        ((2, 20.0), (1, None), False),
    ],
)
def test_a_login_replaces_one_that_is_older_and_ends_sooner(
    host: tuple[int, float | None], box: tuple[int, float | None], expected: bool
) -> None:
    wanted, held = (LoginFacts(True, expires, modified) for modified, expires in (host, box))
    assert wanted.replaces(held) is expected


# --- on the host ----------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A person's home with a login of Claude."""
    write(tmp_path / "home/.claude/.credentials.json", claude())
    return tmp_path / "home"


def write(path: Path, content: bytes, modified: int = 1000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (modified, modified))


def setting(home: Path) -> Setting:
    person = Person(home=str(home), uid=1000, euid=0)
    return replace(SETTING, person=person, manifests=SHIPPED, state_dir=str(home.parent / "state"))


def specs(*declared: dict[str, Any], secrets: dict[str, Any] | None = None) -> list[BoxSpec]:
    raw = [{"name": f"web{index or ''}", "workspace": WORKSPACE, **item} for index, item in enumerate(declared)]
    return parse_boxes(raw, instance="abx", manifests=SHIPPED, secrets=secrets)


def made(home: Path, secrets: dict[str, Any] | None = None, **declared: Any) -> Box:
    """A box without its logins, as it is when these are looked for."""
    [spec] = specs({"credentials": "seed", **declared}, secrets=secrets)
    return resolved(spec, setting(home), workspace())


def logins(*all_specs: BoxSpec, **facts: Any) -> Logins:
    known = {"engine": None, "containers": {}, "volumes": {}, "digester": Digester(b"k")}
    return Logins(all_specs, **{**known, **facts})


def test_the_login_of_the_person_is_found_with_its_place_in_the_box(home: Path) -> None:
    box = made(home)
    [login] = logins(box.spec).of(box)
    assert (login.agent, login.source) == ("claude", f"{home}/.claude/.credentials.json")
    assert (login.target, login.facts) == ("/home/agent/.claude/.credentials.json", FACTS)
    moved = made(home, env={"CLAUDE_CONFIG_DIR": "/data/claude"}, volumes=["data:/data"])
    assert logins(moved.spec).of(moved)[0].target == "/data/claude/.credentials.json"


@pytest.mark.parametrize("mode", ["auto", "none"])
def test_no_other_mode_reads_the_host(home: Path, mode: str) -> None:
    (home / ".claude/.credentials.json").chmod(0)
    box = made(home, credentials=mode)
    assert logins(box.spec).of(box) == ()


@pytest.mark.parametrize("content", [b"", b"{}", None])
@pytest.mark.parametrize("mode", ["seed", "mount"])
def test_an_explicit_mode_without_a_login_says_how_to_get_one(home: Path, mode: str, content: bytes | None) -> None:
    place = home / ".claude/.credentials.json"
    place.unlink() if content is None else place.write_bytes(content)
    box = made(home, credentials=mode)
    with pytest.raises(DeclarationError) as caught:
        logins(box.spec).of(box)
    assert str(caught.value).startswith(
        f"boxes[0].credentials: {mode} needs a login on the host, and {home} holds none"
    )
    assert "`claude auth login`" in str(caught.value)


def test_a_declared_secret_stands_for_an_agents_login(home: Path) -> None:
    (home / ".claude/.credentials.json").unlink()
    box = made(home, secrets={"web": ["ANTHROPIC_API_KEY"]})
    assert logins(box.spec).of(box) == ()
    both = made(home, secrets={"web": ["ANTHROPIC_API_KEY"]}, agents=["claude", "codex"])
    with pytest.raises(DeclarationError, match="holds none of codex"):
        logins(both.spec).of(both)


def test_agents_without_a_login_of_their_own_have_nothing_to_take(home: Path) -> None:
    box = made(home, lead="none", agents=[])
    with pytest.raises(DeclarationError, match="none of its agents"):
        logins(box.spec).of(box)


def test_a_login_that_no_volume_would_keep_is_refused(home: Path) -> None:
    box = made(home, env={"CLAUDE_CONFIG_DIR": "/data/claude"})
    with pytest.raises(DeclarationError, match=r"/data/claude/.credentials.json, .* lies in no volume"):
        logins(box.spec).of(box)


def test_a_login_of_somebody_else_is_not_read(home: Path) -> None:
    """Else the owner of a home could have any file of the host read by root."""
    place = home / ".claude/.credentials.json"
    foreign = home.parent / "foreign"
    write(foreign, claude())
    os.chown(home, 4321, -1)
    place.unlink()
    place.symlink_to(foreign)
    box = made(home)
    with pytest.raises(DeclarationError, match="is no file of the home's owner, uid 4321"):
        logins(box.spec).of(box)
    os.chown(foreign, 4321, -1)
    assert logins(box.spec).of(box)[0].source == str(foreign)


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda path: (path.unlink(), path.mkdir()), "is no file"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "is no file"),
        (lambda path: path.write_bytes(b" " * ((1 << 20) + 1)), "larger than any login"),
    ],
)
def test_what_is_no_file_of_a_login_is_refused(home: Path, break_it: Callable[[Path], object], reason: str) -> None:
    break_it(home / ".claude/.credentials.json")
    box = made(home)
    with pytest.raises(DeclarationError, match=reason):
        logins(box.spec).of(box)


def test_a_login_is_mounted_only_where_the_box_can_use_it(home: Path) -> None:
    box = made(home, credentials="mount")
    with pytest.raises(DeclarationError, match=f"the box runs as uid {UID} and could not use it"):
        logins(box.spec).of(box)
    os.chown(home, UID, -1)
    os.chown(home / ".claude/.credentials.json", UID, -1)
    having = replace(box, logins=logins(box.spec).of(box))
    [bind] = [mount for mount in mounts(having) if mount["Source"].startswith(str(home))]
    assert bind["Source"] == f"{home}/.claude/.credentials.json"
    assert (bind["Target"], bind["ReadOnly"]) == ("/home/agent/.claude/.credentials.json", False)


def test_a_login_that_its_agent_can_only_replace_is_not_mounted(home: Path) -> None:
    box = made(home, credentials="mount", lead="codex", agents=["codex"])
    with pytest.raises(
        DeclarationError, match=r"codex renews a login by another file in the place of /home/agent/\.codex/auth\.json"
    ):
        logins(box.spec).of(box)


# --- one box per login ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        ({"credentials": "seed"}, {"credentials": "seed"}, True),
        ({"credentials": "seed"}, {"credentials": "mount"}, True),
        ({"credentials": "seed", "state": "stopped"}, {"credentials": "seed"}, True),
        ({"credentials": "mount"}, {"credentials": "mount"}, True),
        ({"credentials": "mount"}, {"credentials": "mount", "state": "stopped"}, False),
        ({"credentials": "seed"}, {"credentials": "seed", "state": "absent"}, False),
        ({"credentials": "seed"}, {"credentials": "auto"}, False),
        ({"credentials": "seed"}, {"credentials": "seed", "lead": "codex", "agents": ["codex"]}, False),
    ],
)
def test_two_declared_boxes_never_take_one_oauth_login(
    home: Path, first: dict[str, Any], second: dict[str, Any], refused: bool
) -> None:
    for name in (home, home / ".claude/.credentials.json"):
        os.chown(name, UID, -1)
    one, other = specs(first, second)
    box = resolved(one, setting(home), workspace())
    known = logins(one, other)
    if not refused:
        assert len(known.of(box)) == 1
        return
    with pytest.raises(DeclarationError, match=r"boxes\[0\]\.credentials: boxes\[1\]\.credentials takes the login of"):
        known.of(box)


def test_an_api_key_that_was_logged_in_with_may_be_in_several(home: Path) -> None:
    write(home / ".codex/auth.json", codex(None, key="sk-x"))
    declared = {"credentials": "seed", "lead": "codex", "agents": ["codex"]}
    one, other = specs(declared, declared)
    assert len(logins(one, other).of(resolved(one, setting(home), workspace()))) == 1


def container(state_dir: str, **facts: Any) -> dict[str, Any]:
    """A box of another instance, as the engine lists it."""
    labels = {
        "agentbox.managed": "true",
        "agentbox.instance": "other",
        "agentbox.box": "there",
        "agentbox.state_dir": state_dir,
    }
    return {"Names": ["/other-there"], "Labels": labels, "State": "exited", "Mounts": [], **facts}


@pytest.mark.parametrize(
    ("token", "source", "refused"),
    [
        ("renewed since", None, True),  # the same file of the host
        (CANARY, "/elsewhere/copy.json", True),  # a copy of it
        ("another", "/elsewhere/other.json", False),
    ],
)
def test_a_login_that_another_box_was_seeded_with_is_refused(
    home: Path, token: str, source: str | None, refused: bool
) -> None:
    box = made(home)
    there = Volume("there-home", "m", "other", "1")
    seeded = Login("claude", source or f"{home}/.claude/.credentials.json", "/x", claude(token), FACTS)
    other_state = str(home.parent / "other")
    digest = Digester(b"k").of_bytes(seeded.content)
    _credentials_host.remember(other_state, there, Seed(seeded, {}, digest))
    listed = container(other_state, Mounts=[{"Type": "volume", "Name": "there-home"}])
    known = logins(box.spec, containers={"other-there": listed}, volumes={"there-home": there})
    if refused:
        with pytest.raises(DeclarationError, match="box there of instance other has the login of claude"):
            known.of(box)
    else:
        known.of(box)
    # A volume made anew under that name holds no login.
    anew = logins(box.spec, containers={"other-there": listed}, volumes={"there-home": replace(there, mark="n")})
    assert len(anew.of(box)) == 1


@pytest.mark.parametrize(("state", "refused"), [("running", True), ("exited", False)])
def test_a_login_that_another_running_box_has_mounted_is_refused(home: Path, state: str, refused: bool) -> None:
    box = made(home)
    mount = {"Type": "bind", "Source": f"{home}/.claude/.credentials.json"}
    known = logins(box.spec, containers={"other-there": container("/nowhere", State=state, Mounts=[mount])})
    if refused:
        with pytest.raises(DeclarationError, match="box there of instance other"):
            known.of(box)
    else:
        known.of(box)


# --- what is due ----------------------------------------------------------------------------------------------------


def seeded(home: Path, *, content: bytes, modified: int = 1000) -> Logins:
    """What is known when the HOME volume of ``made()`` was seeded with a login once."""
    box = made(home)
    volume = Volume(HOME_VOLUME, "mark", "abx", str(UID))
    login = Login(
        "claude",
        f"{home}/.claude/.credentials.json",
        "/x",
        content,
        login_facts(SHIPPED["claude"]["credentials"], content, modified) or FACTS,
    )
    seed = Seed(login, {}, Digester(b"k").of_bytes(content))
    _credentials_host.remember(box.setting.state_dir, volume, seed)
    return logins(box.spec, volumes={HOME_VOLUME: volume})


def due(home: Path, known: Logins) -> list[str]:
    box = made(home)
    return [str(seed.mount["Source"]) for seed in known.due(replace(box, logins=known.of(box)), None)]


def test_a_login_is_due_once_and_again_when_the_hosts_is_newer_and_lives_longer(home: Path) -> None:
    place = home / ".claude/.credentials.json"
    assert due(home, logins(made(home).spec)) == [HOME_VOLUME]
    known = seeded(home, content=place.read_bytes())
    assert due(home, known) == []
    write(place, claude("renewed", expires=3000), modified=2000)
    assert due(home, known) == [HOME_VOLUME]
    write(place, claude("renewed", expires=1500), modified=2000)
    assert due(home, known) == []
    write(place, claude("renewed", expires=3000), modified=1000)
    assert due(home, known) == []


def test_a_box_keeps_its_login_when_the_hosts_goes(home: Path) -> None:
    place = home / ".claude/.credentials.json"
    known = seeded(home, content=place.read_bytes())
    place.unlink()
    assert due(home, known) == []


def test_a_volume_made_anew_is_seeded_again(home: Path) -> None:
    known = seeded(home, content=(home / ".claude/.credentials.json").read_bytes())
    anew = replace(known, volumes={HOME_VOLUME: replace(known.volumes[HOME_VOLUME], mark="another")})
    assert due(home, anew) == [HOME_VOLUME]


def test_notes_hold_no_login_and_go_with_their_volume(home: Path) -> None:
    seeded(home, content=(home / ".claude/.credentials.json").read_bytes())
    state_dir = Path(setting(home).state_dir)
    [note] = (state_dir / "seeded").rglob("*.json")
    assert note.stat().st_mode & 0o777 == 0o600
    assert CANARY not in note.read_text(encoding="utf-8")
    _credentials_host.forget(str(state_dir), HOME_VOLUME)
    assert not list((state_dir / "seeded").iterdir())


@pytest.mark.parametrize(
    ("live", "state", "expected"),
    [
        (None, "started", ["create", "seed_login", "start"]),
        (None, "stopped", ["create", "seed_login"]),
        ("exited", "started", ["seed_login", "start"]),
        ("running", "started", ["seed_login"]),
    ],
)
def test_a_login_is_there_before_the_box_starts(home: Path, live: str | None, state: str, expected: list[str]) -> None:
    box = made(home, state=state)
    known = logins(box.spec)
    box = replace(box, logins=known.of(box))
    found = inspected(box, status=live) if live else None
    record = {"schema": 1, "spec": box.spec.canonical()}
    plan = plan_box(
        box,
        Situation(found, image=IMAGE, image_environment=("PATH=/usr/bin",), record=record, seeds=known.due(box, None)),
    )
    assert [action.kind for action in plan.actions] == expected
    assert plan.after["login of claude"] == f"from {home}/.claude/.credentials.json"
    assert CANARY not in str([action.as_dict() for action in plan.actions])
    assert CANARY not in f"{plan!r} {box!r}"


def test_a_login_comes_before_a_box_is_made_anew(home: Path) -> None:
    box = made(home, recreate="always")
    known = logins(box.spec)
    box = replace(box, logins=known.of(box))
    live = inspected(replace(box, spec=replace(box.spec, read_only=True)))
    plan = plan_box(
        box, Situation(live, image=IMAGE, image_environment=("PATH=/usr/bin",), seeds=known.due(box, live=None))
    )
    assert [action.kind for action in plan.actions] == [_actions.SEED_LOGIN, _actions.RECREATE]
