"""Configuring the engine: the plan for a host, its proxy, and the forwarding of packets."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agentbox._shared import _engine_proxy, _engine_setup, _forwarding
from agentbox._shared._engine_config import Live
from agentbox._shared._engine_setup import DAEMON_FILE, RECORD_FILE, Host, Plan, Request
from agentbox._shared._errors import DeclarationError

CANARY = "canary-password"
PROXY = {"HTTP_PROXY": f"http://user:{CANARY}@proxy.example:3128"}
PRISTINE = Host(
    files=dict.fromkeys(_engine_setup.FILES),
    open_files=(),
    systemd=True,
    foreign="",
    live=Live(running=False),
    life=None,
    forwarding=False,
    forwarding_off=False,
)
RUNNING = replace(PRISTINE, live=Live(running=True, containers=1), life="7:99", forwarding=True)


def after(host: Host, plan: Plan) -> Host:
    """The host when ``plan`` was applied."""
    return replace(host, files={**host.files, **plan.files})


def test_nothing_wanted_of_a_pristine_host_is_nothing_to_do() -> None:
    plan = _engine_setup.plan(Request(), PRISTINE)
    assert (plan.files, plan.actions) == ({}, [])


@pytest.mark.parametrize("content", [b"", b"{}", b'{ "debug": true }\n\n'])
def test_what_nobody_declared_keeps_its_bytes(content: bytes) -> None:
    host = replace(RUNNING, files={**RUNNING.files, DAEMON_FILE: content})
    assert _engine_setup.plan(Request(), host).actions == []
    assert _engine_setup.plan(Request(absent=True), host).actions == []


def test_another_engine_than_the_systems_leaves_its_files_alone() -> None:
    there = after(RUNNING, _engine_setup.plan(Request({"debug": True}), RUNNING))
    rootless = replace(there, foreign="the engine runs without root", forwarding_off=True)
    assert _engine_setup.plan(Request(proxy=PROXY), rootless) == Plan()
    with pytest.raises(DeclarationError, match="without root; config is that of the system's"):
        _engine_setup.plan(Request({"debug": True}), rootless)
    assert "remove debug" in _engine_setup.plan(Request(absent=True), rootless).actions


@pytest.mark.parametrize("host", [PRISTINE, RUNNING, replace(RUNNING, systemd=False)])
def test_a_second_plan_finds_nothing_and_absence_takes_all_back(host: Host) -> None:
    request = Request({"debug": True, "log-driver": "local"}, PROXY)
    there = after(host, _engine_setup.plan(request, host))
    assert _engine_setup.plan(request, there).actions == []
    gone = after(there, _engine_setup.plan(Request(absent=True), there))
    # What waits for a restart is remembered until it comes.
    assert {path for path, content in gone.files.items() if content} <= {RECORD_FILE}
    assert json.loads(gone.files[RECORD_FILE] or b'{"keys": {}}')["keys"] == {}


def test_what_waits_is_told_until_the_daemon_lives_anew() -> None:
    request = Request({"mtu": 1400})
    there = after(RUNNING, _engine_setup.plan(request, RUNNING))
    again = _engine_setup.plan(request, there)
    assert (again.actions, again.course.waiting) == ([], ("mtu",))
    restarted = _engine_setup.plan(request, replace(there, life="8:100"))
    assert (restarted.actions, restarted.course.waiting) == ([], ())
    idle = _engine_setup.plan(request, replace(there, live=Live(running=True)))
    assert idle.actions == [f"write {RECORD_FILE}", "restart the engine"]
    assert json.loads(idle.files[RECORD_FILE] or b"")["pending"] == []


def test_systemd_reads_the_proxy_by_a_drop_in_and_nobody_else_the_password() -> None:
    plan = _engine_setup.plan(Request(proxy=PROXY), RUNNING)
    assert plan.actions == [
        f"write {_engine_proxy.FILE}",
        f"write {RECORD_FILE}",
        f"write {_engine_proxy.DROP_IN}",
        "reload the units",
    ]
    assert [path for path, content in plan.files.items() if CANARY.encode() in (content or b"")] == [_engine_proxy.FILE]
    assert CANARY not in json.dumps([plan.before, plan.after])
    assert "HTTP_PROXY='http://***@proxy.example:3128'" in plan.after[_engine_proxy.FILE]


def test_a_file_for_root_alone_that_others_can_read_is_written_anew() -> None:
    request = Request(proxy=PROXY)
    there = after(PRISTINE, _engine_setup.plan(request, PRISTINE))
    loose = replace(there, open_files=(_engine_proxy.FILE,))
    assert _engine_setup.plan(request, loose).actions == [f"write {_engine_proxy.FILE}"]


def test_a_shell_gets_the_variables_as_they_are(tmp_path: Path) -> None:
    value = 'http://us$er:p%40`x`"\\@proxy.example:3128'
    file = tmp_path / "proxy.env"
    file.write_text(_engine_proxy.environment_file({"HTTP_PROXY": value}))
    told = subprocess.run(["/bin/sh", "-c", f'. {file}; printf %s "$HTTP_PROXY"'], stdout=subprocess.PIPE, check=True)
    assert told.stdout.decode() == value


@pytest.mark.parametrize("value", ["http://it's@proxy.example", "http://proxy.example\nLD_PRELOAD=/tmp/x"])
def test_a_value_that_would_leave_its_quotes_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(DeclarationError, match="http_proxy: ") as refused:
        _engine_proxy.environment_file({"HTTP_PROXY": value})
    assert value not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HTTP_PROXY='http://u:p@proxy.example:1'", "HTTP_PROXY='http://***@proxy.example:1'"),
        ("HTTP_PROXY='u:p@proxy.example:1'", "HTTP_PROXY='***@proxy.example:1'"),
        ("HTTP_PROXY='http://u:p@q@proxy.example:1'", "HTTP_PROXY='http://***@proxy.example:1'"),
        ("NO_PROXY='localhost'", "NO_PROXY='localhost'"),
    ],
)
def test_no_login_is_shown(text: str, shown: str) -> None:
    assert _engine_proxy.shown(text) == shown


@pytest.mark.parametrize("text", ["", "# a comment\nDOCKER_OPTS=--debug\n"])
def test_the_block_comes_once_and_goes_without_a_trace(text: str) -> None:
    there = _engine_proxy.with_block(text, True)
    assert there.startswith(text)
    assert _engine_proxy.with_block(there, True) == there
    assert _engine_proxy.with_block(there, False) == text


@pytest.mark.parametrize(
    ("host", "request_", "actions"),
    [
        # The daemon does it itself when it starts.
        (PRISTINE, Request(), []),
        (replace(RUNNING, forwarding=False), Request(), ["switch packet forwarding on"]),
        (replace(RUNNING, forwarding_off=True), Request(), [f"write {_forwarding.OWN_FILE}"]),
        (replace(PRISTINE, forwarding_off=True), Request(), [f"write {_forwarding.OWN_FILE}"]),
        (replace(RUNNING, forwarding=False, forwarding_off=True), Request(absent=True), []),
        (
            replace(PRISTINE, forwarding_off=True),
            Request({"ip-forward": False}),
            ["set ip-forward", f"write {RECORD_FILE}", f"write {DAEMON_FILE}"],
        ),
    ],
)
def test_packets_are_forwarded_where_containers_need_it(host: Host, request_: Request, actions: list[str]) -> None:
    assert _engine_setup.plan(request_, host).actions == actions


@pytest.mark.parametrize(
    ("texts", "off"),
    [
        ([], False),
        (["net.ipv4.ip_forward = 0"], True),
        (["net/ipv4/ip_forward=0\n"], True),
        (["-net.ipv4.conf.all.forwarding=0"], True),
        (["# net.ipv4.ip_forward = 0\n; net.ipv4.ip_forward = 0\nnonsense"], False),
        (["net.ipv4.ip_forward = 0", "net.ipv4.ip_forward = 1"], False),
        (["net.ipv4.ip_forward = 1", "net.ipv4.conf.all.forwarding = 0"], True),
        (["net.ipv4.conf.default.forwarding = 0"], False),
    ],
)
def test_the_last_file_says_whether_packets_are_forwarded(texts: list[str], off: bool) -> None:
    assert _forwarding.is_switched_off(texts) is off


def test_files_with_settings_count_by_name_and_etc_over_usr(tmp_path: Path) -> None:
    for path, text in {
        "usr/lib/sysctl.d/50-a.conf": "hidden by the one in etc",
        "etc/sysctl.d/50-a.conf": "a",
        "run/sysctl.d/10-b.conf": "b",
        "etc/sysctl.d/zz-agentbox-docker.conf": "our own",
        "etc/sysctl.d/README": "no setting",
        "etc/sysctl.conf": "last",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert _forwarding.texts(tmp_path) == ["b", "a", "last"]
