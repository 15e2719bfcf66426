"""Module hooks on a host with several users, and the real Claude Code with what it writes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests import hosts
from tests.integration import engines, runs

USERS = ("ada", "bea", "cleo", "dora", "eve", "fay")
SETTINGS = ".claude/settings.json"
MANIFEST = yaml.safe_load((runs.REPOSITORY / "agents/claude.yml").read_text(encoding="utf-8"))
EVENTS = sorted(MANIFEST["hooks"]["http"] + MANIFEST["hooks"]["command"])
SECRET = "sesame-0815"  # noqa: S105 -- of a test
# Written by hand, so in no program's layout.
OWN = f"""{{
   "apiKeyHelper": "echo {SECRET}",
   "hooks": {{"Stop": [{{"hooks": [{{"type": "command", "command": "curl -H 'Key: {SECRET}' example.invalid"}}]}}]}},
   "env": {{ "TOKEN": "{SECRET}" }}
}}
"""
# The CLI's output goes through a file: it makes a pipe non-blocking for all who write to it.
TURN = """
mkdir -p ~/.claude && cat > ~/.claude/settings.json
python3 /doubles/messages_api.py 127.0.0.1:8000 /tmp/log > /tmp/up &
until [ -s /tmp/up ]; do sleep 0.1; done
claude -p "RUN: echo by the agent" --permission-mode default --allowedTools Bash < /dev/null > /tmp/answer
cat /tmp/answer /tmp/log
"""


@dataclass(frozen=True)
class Host:
    variables: dict[str, Any]

    def shell(self, command: str, text: str = "") -> str:
        done = subprocess.run(
            ["docker", "exec", "-i", self.variables["test_host"], "sh", "-ec", command],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def play(self, *tasks: runs.Task) -> list[runs.Result]:
        """Results of one run of Ansible that tells all it can, and no secret."""
        run = runs.play(
            tasks, variables=self.variables, environment={"ANSIBLE_PIPELINING": "1"}, diff=True, verbosity=3
        )
        assert SECRET not in run.output
        assert SECRET not in json.dumps(run.results)
        return run.results

    def write(self, user: str, text: str) -> None:
        self.shell(f"su - {user} -c 'umask 077; mkdir -p .claude; cat > {SETTINGS}; chmod 640 {SETTINGS}'", text)

    def read(self, user: str) -> str:
        return self.shell(f"cat /home/{user}/{SETTINGS}")


def hooks(users: Any, *, check: bool = False, keywords: Mapping[str, Any] | None = None, **args: Any) -> runs.Task:
    options = {"users": users, "manifests": {"claude": MANIFEST}, **args}
    return runs.module_task("hooks", options, check_mode=check, **(keywords or {}))


def shell(command: str) -> runs.Task:
    return runs.module_task("ansible.builtin.shell", {"cmd": command})


def snapshot() -> runs.Task:
    """Everything in the users' HOMEs: kind and mode, owner, digest or target."""
    return shell("find /home -printf '%p %M %u %g %l\\n' | sort; find /home -type f -exec sha256sum {} + | sort")


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with hosts.host_without_systemd() as variables:
        made = Host(variables)
        made.shell("".join(f"useradd --create-home --shell /bin/bash {user}; " for user in USERS))
        yield made


@pytest.fixture
def fresh(host: Host) -> Host:
    """The host with users who never ran an agent."""
    host.shell("rm -rf /home/*/.claude /home/*/dotfiles /var/lib/agentbox /home/*/.local")
    return host


def own_events(text: str) -> list[str]:
    found = json.loads(text).get("hooks", {})
    return sorted(event for event in found if "X-Agentbox-Owner" in json.dumps(found[event]))


def test_from_nothing_to_nothing(fresh: Host) -> None:
    """Check, converge, twice, drift, and back: what was there before is there again, to the byte."""
    fresh.write("bea", OWN)
    users = ["ada", {"name": "bea", "agents": ["claude"]}, {"name": "cleo", "agents": []}]
    again = [hooks(users), hooks(users, check=True)]
    before, predicted, still, done, *nothing = fresh.play(
        snapshot(), hooks(users, check=True), snapshot(), hooks(users), *again
    )
    assert (still["stdout"], predicted["changed"]) == (before["stdout"], True)
    assert predicted["actions"] == done["actions"]
    assert [(action["user"], action["action"], action["detail"]) for action in done["actions"]] == [
        ("ada", "make_directory", "/home/ada/.claude"),
        ("ada", "write_file", f"/home/ada/{SETTINGS}"),
        ("bea", "write_file", f"/home/bea/{SETTINGS}"),
    ]
    assert [(result["changed"], result["actions"]) for result in nothing] == [(False, [])] * 2
    assert own_events(fresh.read("ada")) == own_events(fresh.read("bea")) == EVENTS
    assert all(line in fresh.read("bea") for line in OWN.splitlines() if "Stop" not in line and line != "}")
    modes = fresh.shell("stat -c '%a %U %G' /home/ada/.claude /home/ada/.claude/* /home/bea/.claude/*")
    assert modes.splitlines() == ["700 ada ada", "600 ada ada", "640 bea bea"]

    drift = shell(f"sed -i '0,/4318/s//9/' /home/bea/{SETTINGS}")
    moved = hooks(users, url="http://127.0.0.1:4999/")
    _, predicted, healed, moved = fresh.play(drift, hooks(users, check=True), hooks(users), moved)
    assert predicted["diff"]["before"] == {f"/home/bea/{SETTINGS}": {"Stop": "another entry of ours"}}
    assert healed["hooks"][1]["healed"] == ["Stop"]
    assert sorted(moved["hooks"][0]["healed"]) == EVENTS
    assert "4318" not in fresh.read("ada")

    gone = [hooks([*users, "gone-since"], state="absent", check=check) for check in (True, False, False)]
    predicted, done, nothing_left, after = fresh.play(*gone, snapshot())
    assert predicted["actions"] == done["actions"]
    assert (after["stdout"], nothing_left["changed"]) == (before["stdout"], False)


def test_one_users_trouble_is_no_other_users(fresh: Host) -> None:
    for user in USERS[1:]:
        fresh.write(user, OWN)
    fresh.write("bea", OWN.replace("\n}", ",\n}"))
    fresh.shell("cd /home/cleo; mv .claude dotfiles; ln -s dotfiles .claude")
    fresh.shell(f"cd /home/dora; mv {SETTINGS} dotfiles; ln -s ../dotfiles {SETTINGS}")
    fresh.shell(f"chown root /home/eve/{SETTINGS}")
    everybody = [*USERS, "nobody-of-that-name"]
    before, predicted, result, after = fresh.play(
        snapshot(), hooks(everybody, check=True), hooks(everybody), snapshot()
    )
    assert (predicted["failed"], predicted["msg"]) == (True, result["msg"])
    messages = {item["user"]: item["msg"] for item in result["hooks"]}
    assert result["msg"] == "; ".join(f"user {user}, agent claude: {msg}" for user, msg in messages.items() if msg)
    assert "bea/.claude/settings.json is not valid JSON" in messages["bea"]
    assert "can't be reached, /home/cleo/.claude is a symbolic link" in messages["cleo"]
    assert "dora/.claude/settings.json is a symbolic link" in messages["dora"]
    assert "eve/.claude/settings.json belongs to uid 0" in messages["eve"]
    assert messages["nobody-of-that-name"] == "there is no such user on this host"
    assert [item["user"] for item in result["hooks"] if item["changed"]] == ["ada", "fay"]
    assert own_events(fresh.read("ada")) == own_events(fresh.read("fay")) == EVENTS
    touched = {line for line in before["stdout_lines"] + after["stdout_lines"] if "/ada" in line or "/fay" in line}
    assert set(before["stdout_lines"]) - touched == set(after["stdout_lines"]) - touched


@pytest.mark.full
def test_two_instances_share_settings(fresh: Host) -> None:
    results = fresh.play(
        hooks(["ada"]), hooks(["ada"], instance="other"), hooks(["ada"]), hooks(["ada"], state="absent")
    )
    assert [result["changed"] for result in results] == [True, True, False, True]
    assert own_events(fresh.read("ada")) == EVENTS
    assert '"X-Agentbox-Owner": "agentbox"' not in fresh.read("ada")


@pytest.mark.full
def test_runs_at_once_wait_for_each_other(fresh: Host) -> None:
    fresh.write("bea", OWN)
    with ThreadPoolExecutor(2) as pool:
        plays = list(pool.map(lambda _: fresh.play(*[hooks(USERS), hooks(USERS, state="absent")] * 2), range(2)))
    assert [result.get("msg", "") for results in plays for result in results] == [""] * 8
    assert fresh.read("bea") == OWN
    assert "ada/.claude" not in fresh.shell("find /home")


def test_a_user_configures_nobody_but_himself(fresh: Host) -> None:
    keywords = {"become": True, "become_user": "ada", "become_method": "ansible.builtin.su"}
    [result] = fresh.play(hooks(["ada", "bea"], keywords=keywords))
    own, other = result["hooks"]
    assert (own["msg"], own["changed"]) == ("", True)
    assert other["msg"] == "only root and bea may change the settings of bea. Run as root"
    assert own_events(fresh.read("ada")) == EVENTS
    assert fresh.shell("stat -c %U /home/ada/.local/state/agentbox/agentbox/hooks.json") == "ada\n"
    assert ".claude" not in fresh.shell("ls -A /home/bea")


def test_a_wrong_declaration_changes_nothing(fresh: Host) -> None:
    codex = {name: value for name, value in MANIFEST.items() if name != "hooks"} | {"name": "codex"}
    before, *results, after = fresh.play(
        snapshot(),
        hooks(None),
        hooks(""),
        hooks("ada, ada"),
        hooks([{"name": "ada", "agent": "claude"}]),
        hooks(["ada"], agents=["cloud"]),
        hooks(["ada"], url="http://dev:pass@hub.example"),
        hooks(["ada"], agents="codex", manifests={"claude": MANIFEST, "codex": codex}),
        snapshot(),
    )
    assert [result.get("msg", "") for result in results] == [
        "",
        "",
        "users[1]: 'ada' stands twice",
        "users[0].agent: unknown key, known are name, agents",
        "agents: there is no manifest named 'cloud' (known: claude)",
        "url: must be a plain http(s) address, such as http://127.0.0.1:4318",
        "",
    ]
    assert results[-1]["unsupported"] == ["codex"]
    assert results[-1]["warnings"] == ["agent codex takes no hooks from settings of a user"]
    assert before["stdout"] == after["stdout"]


@pytest.mark.timeout(120)
def test_claude_code_takes_the_entries_for_its_own(fresh: Host) -> None:
    """The real CLI in a throwaway HOME, no network but its loopback; the double of the vendor is the hook sink too."""
    fresh.play(hooks(["ada"], url="http://127.0.0.1:8000"))
    environment = {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:8000",
        "ANTHROPIC_API_KEY": "sk-test",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    done = subprocess.run(
        [
            *("docker", "run", "--rm", "--interactive", f"--label={hosts.LABEL}", "--network=none", "--tmpfs=/tmp"),
            f"--volume={runs.REPOSITORY}/tests/doubles:/doubles:ro",
            *(f"--env={name}={value}" for name, value in environment.items()),
            *(engines.IMAGE_CLAUDE, "bash", "-lec", TURN),
        ],
        input=fresh.read("ada"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer, *requests = done.stdout.splitlines()
    assert answer == "Finished: by the agent"
    seen = [entry["body"] for entry in map(json.loads, requests) if entry["path"] == "/hook/claude"]
    events = [body["hook_event_name"] for body in seen]
    assert (events[0], events[-1]) == ("SessionStart", "SessionEnd")
    assert {"UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"} <= set(events)
    [tool] = [body for body in seen if body["hook_event_name"] == "PreToolUse"]
    assert tool["tool_input"]["command"] == "echo by the agent"


def test_who_is_not_on_the_list_any_more_loses_the_entries(fresh: Host) -> None:
    """The list is the whole one, and a removal knows of users whom nobody names."""
    fresh.write("bea", OWN)
    made, _, fewer, still, none = fresh.play(
        hooks(["ada", "bea"]), hooks([], check=True), hooks(["ada"]), hooks(["ada"]), hooks([], state="absent")
    )
    assert fresh.read("bea") == OWN
    assert fresh.shell("find /home/ada/.claude /var/lib/agentbox -name '*.json' 2>/dev/null || true") == ""
    assert [item["user"] for item in fewer["hooks"] if item["removed"]] == ["bea"]
    assert [result["changed"] for result in (made, fewer, still, none)] == [True, True, False, True]
