"""Verdicts about one box, from the facts of a healthy one with one thing changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentbox._shared._health import Check, overall, settled
from agentbox._shared._health_box import (
    LIVE_IDS,
    PROBE_IDS,
    box_checks,
    troubles,
    unreachable_box_checks,
)
from agentbox._shared._health_facts import (
    BoxFacts,
    CredentialFacts,
    Hidden,
    HookFacts,
    HookSettings,
    LeadFacts,
    MountFacts,
    ObserverFacts,
    PageFacts,
    Pane,
    PathKind,
    SessionFacts,
    StateFile,
    SupervisorFacts,
)
from agentbox._shared._health_state import explain_exit
from tests.unit.module_utils import health_samples as samples

STOPPED: dict[str, Any] = {"Status": "exited", "Pid": 0, "Health": None}
ALL_IDS = {"state", "mounts", "port", "hook-settings", *LIVE_IDS, *PROBE_IDS}


def judged(facts: BoxFacts, predicting: bool = False) -> list[Check]:
    return box_checks(facts, samples.HOST, samples.SOCKET, predicting)


def one(check_id: str, **changed: Any) -> Check:
    """The check of a healthy box with some facts changed; the others do not matter."""
    return next(check for check in judged(samples.box(**changed)) if check.id == check_id)


def state(**changed: Any) -> Check:
    return one("state", inspect=samples.inspect(**changed))


def test_a_healthy_box_has_every_check_and_all_are_fine() -> None:
    checks = judged(samples.box())
    assert [check for check in checks if check.verdict != "ok"] == []
    assert {check.id for check in checks} == ALL_IDS
    assert {check.subject for check in checks} == {"web"}


def test_a_box_that_cannot_be_asked_about_has_the_same_checks_all_undecided() -> None:
    checks = unreachable_box_checks(samples.EXPECTED, "the engine is not reachable (timeout)")
    assert {check.id for check in checks} == ALL_IDS
    assert {check.verdict for check in checks} == {"unknown"}


# --- state ----------------------------------------------------------------------------------------------------------


def test_a_declared_box_that_is_missing() -> None:
    checks = judged(samples.box(inspect=None))
    assert (checks[0].id, checks[0].verdict) == ("state", "fail")
    assert {check.verdict for check in checks if check.id in (*LIVE_IDS, *PROBE_IDS)} == {"unknown"}
    assert settled(checks)


def test_a_box_that_this_run_would_make_is_no_failure() -> None:
    assert overall(judged(samples.box(inspect=None), predicting=True)) == "unknown"


@pytest.mark.parametrize("wanted", ["stopped", "absent"])
def test_a_box_that_is_absent_as_declared(wanted: str) -> None:
    checks = judged(samples.box(inspect=None, expected=samples.expected(state=wanted)))
    assert [(check.id, check.verdict) for check in checks] == [("state", "ok")]


def test_a_box_that_is_stopped_as_declared() -> None:
    facts = samples.box(
        inspect=samples.inspect(**STOPPED, ExitCode=143), expected=samples.expected(state="stopped"), probe=None
    )
    checks = judged(facts)
    assert overall(checks) == "ok"
    assert {check.id for check in checks} == {"state", "mounts", "port", "hook-settings"}


@pytest.mark.parametrize("wanted", ["stopped", "absent"])
def test_a_box_that_runs_against_its_declaration(wanted: str) -> None:
    check = one("state", expected=samples.expected(state=wanted))
    assert (check.verdict, check.seen) == ("warn", f"running; declared is {wanted}")


def test_a_box_that_is_not_running_leaves_its_inside_undecided() -> None:
    checks = judged(samples.box(inspect=samples.inspect(**STOPPED, ExitCode=1), probe=None))
    assert checks[0].verdict == "fail"
    assert {check.verdict for check in checks if check.id in (*LIVE_IDS, *PROBE_IDS)} == {"unknown"}


@pytest.mark.parametrize(
    ("changed", "verdict", "seen", "settling"),
    [
        ({"Health": {"Status": "starting"}}, "ok", "has no result yet", False),
        ({"Health": None}, "ok", "no health check", False),
        (
            {"Health": {"Status": "unhealthy", "Log": [{"Output": "curl: (7)\x1b[2J refused"}]}},
            "fail",
            "unhealthy: curl: (7)[2J refused",
            True,
        ),
        ({"Status": "paused"}, "fail", "paused", False),
        ({"Status": "created"}, "fail", "created, not started", True),
        (
            {"Status": "created", "Error": "error while mounting volume"},
            "fail",
            "not started (error while mounting volume)",
            True,
        ),
        ({"Status": "restarting", "ExitCode": 1}, "fail", "restarting: exit code 1", True),
        ({"Status": "exited", "ExitCode": 0}, "fail", "exited: exit code 0, ended as asked", False),
        (
            {"Status": "exited", "ExitCode": 137, "OOMKilled": True},
            "fail",
            "killed processes at the memory limit",
            False,
        ),
        ({"Status": "exited", "ExitCode": 137}, "fail", "killed: it did not end in time", False),
        ({"Status": "dead", "ExitCode": 127}, "fail", "was not found", False),
        (
            {"Status": "exited", "ExitCode": 255, "Error": "bind source path does not exist: /srv/code"},
            "fail",
            "the engine could not start it (bind source path does not exist: /srv/code)",
            False,
        ),
    ],
)
def test_states_are_explained(changed: dict[str, Any], verdict: str, seen: str, settling: bool) -> None:
    check = state(**changed)
    assert (check.verdict, check.settling) == (verdict, settling)
    assert seen in check.seen


def test_restarts_are_counted() -> None:
    inspect = {**samples.inspect(), "RestartCount": 4}
    assert one("state", inspect=inspect).seen == "running, healthy, restarted 4 times"


@pytest.mark.parametrize(
    ("code", "out_of_memory", "meaning"),
    [
        (0, False, "ended as asked"),
        (1, False, "start script failed"),
        (126, False, "cannot be executed"),
        (127, False, "not found"),
        (137, True, "memory limit"),
        (137, False, "killed"),
        (143, False, "ended by SIGTERM"),
        (139, False, "ended by SIGSEGV"),
        (255, False, "ended by signal 127"),
    ],
)
def test_exit_codes_are_explained(code: int, out_of_memory: bool, meaning: str) -> None:
    assert meaning in explain_exit(code, out_of_memory)[0]


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mount", "verdict", "seen"),
    [
        (MountFacts("/srv/code/web", "/workspace", "directory", True), "ok", "all 1 mounted paths are there"),
        (MountFacts("/srv/code/web", "/workspace", "missing"), "fail", "/srv/code/web (for /workspace) is missing"),
        (MountFacts("/srv/code/web", "/workspace", "directory", False), "fail", "was made anew while the box ran"),
        (MountFacts("/srv/code/web", "/workspace", "unreadable"), "unknown", "not allowed to look at /srv/code/web"),
    ],
)
def test_mounted_paths(mount: MountFacts, verdict: str, seen: str) -> None:
    check = one("mounts", mounts=(mount,))
    assert check.verdict == verdict
    assert seen in check.seen


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("missing", "/s/box.json is missing"),
        ("directory", "/s/box.json is a directory, not a file"),
        ("link", "/s/box.json is a link, not a file"),
    ],
)
def test_a_state_file_that_is_something_else(kind: PathKind, seen: str) -> None:
    check = one("mounts", state_files=(StateFile("/s/box.json", "file", kind),))
    assert (check.verdict, check.seen) == ("fail", seen)


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("directory", "ok"), ("missing", "fail"), ("file", "fail"), ("unreadable", "unknown")],
)
def test_the_workspace_of_a_box_that_is_not_there_yet(kind: PathKind, verdict: str) -> None:
    check = one("mounts", inspect=None, workspace_kind=kind)
    assert check.verdict == verdict
    assert "/srv/code/web" in check.seen


@pytest.mark.parametrize(
    ("settings", "verdict", "seen"),
    [
        (HookSettings("claude", "/s/50.json", {"hooks": {}}, {"hooks": {}}), "ok", "in place for claude"),
        (HookSettings("claude", "/s/50.json", {"hooks": {}}, {"hooks": {"Stop": []}}), "fail", "/s/50.json differs"),
        (HookSettings("claude", "/s/50.json", {"hooks": {}}, None, "is missing"), "fail", "/s/50.json is missing"),
    ],
)
def test_hook_settings(settings: HookSettings, verdict: str, seen: str) -> None:
    check = one("hook-settings", hooks=(settings,))
    assert check.verdict == verdict
    assert seen in check.seen


# --- page -----------------------------------------------------------------------------------------------------------

PUBLISHED = samples.expected(publish=("127.0.0.1", 4317))
TAKEN = "127.0.0.1:4317 is taken by nginx (process 812)"


@pytest.mark.parametrize(
    ("page", "verdict", "seen"),
    [
        (PageFacts(TAKEN, "agentbox-web", ours=True, healthy=True), "ok", "the page answers on http://127.0.0.1:4317"),
        (PageFacts(None), "fail", "nothing listens on 127.0.0.1:4317"),
        (PageFacts(TAKEN), "fail", "nginx (process 812)"),
        (PageFacts(TAKEN, ours=True, healthy=True), "fail", "nginx (process 812)"),
        (PageFacts(TAKEN, "registry", ours=False), "fail", "published by container registry"),
        (PageFacts(TAKEN, "agentbox-web", reason="no answer"), "fail", "does not answer as a box Observer: no answer"),
        (
            PageFacts(TAKEN, "agentbox-web", ours=True, healthy=False, reason="the tmux session is lost"),
            "fail",
            "answers, and says: the tmux session is lost",
        ),
    ],
)
def test_the_port_of_a_running_box(page: PageFacts, verdict: str, seen: str) -> None:
    check = one("port", expected=PUBLISHED, page=page)
    assert check.verdict == verdict
    assert seen in check.seen


@pytest.mark.parametrize(("page", "verdict"), [(PageFacts(None), "ok"), (PageFacts(TAKEN), "fail")])
def test_the_port_of_a_box_that_is_not_there(page: PageFacts, verdict: str) -> None:
    assert one("port", expected=PUBLISHED, inspect=None, page=page).verdict == verdict


def test_a_port_that_another_program_holds_is_not_waited_for() -> None:
    assert not one("port", expected=PUBLISHED, page=PageFacts(TAKEN)).settling
    assert one("port", expected=PUBLISHED, page=PageFacts(TAKEN, "agentbox-web")).settling


# --- image, certificates, proxy -------------------------------------------------------------------------------------


def test_a_box_that_runs_an_earlier_image() -> None:
    check = one("image-current", inspect={**samples.inspect(), "Image": "sha256:earlier"})
    assert check.verdict == "warn"


def test_a_box_whose_image_tag_is_gone() -> None:
    assert one("image-current", expected=samples.expected(image="agentbox:gone")).verdict == "unknown"


@pytest.mark.parametrize(
    ("files", "verdict", "seen"),
    [
        ({"/ca.pem": frozenset({"a", "b", "c"})}, "ok", "all 2 certificates"),
        ({"/ca.pem": frozenset({"a"}), "/more.pem": frozenset({"b"})}, "ok", "all 2 certificates"),
        ({"/ca.pem": frozenset({"a"})}, "warn", "lacks 1 of the 2 certificates"),
        ({"/ca.pem": frozenset({"a", "b"}), "/gone.pem": frozenset()}, "fail", "/gone.pem"),
        ({}, "warn", "no variable"),
    ],
)
def test_certificates_of_a_box(files: dict[str, frozenset[str]], verdict: str, seen: str) -> None:
    check = one("ca", ca_files=files)
    assert check.verdict == verdict
    assert seen in check.seen


def test_the_proxy_of_a_box_comes_from_its_own_variables() -> None:
    env = ["HTTPS_PROXY=http://u:pa55word@proxy.example:3128", "NO_PROXY=.example", "OTHER=x"]
    check = one("proxy", inspect=samples.inspect(config={"Env": env}))
    assert check.verdict == "fail"
    assert check.seen == "HTTPS_PROXY=http://proxy.example:3128; NO_PROXY lacks 127.0.0.1, localhost"


# --- what the box reports -------------------------------------------------------------------------------------------


def reported(check_id: str, **changed: Any) -> Check:
    return one(check_id, probe=samples.probe(**changed))


def test_a_box_that_does_not_report() -> None:
    checks = judged(samples.box(probe=Hidden("no end within 30 s")))
    failed = next(check for check in checks if check.id == "probe")
    assert failed.verdict == "fail"
    assert "no end within 30 s" in failed.seen
    assert {check.verdict for check in checks if check.id in PROBE_IDS} == {"unknown"}
    assert not settled(checks)


def test_a_part_the_box_could_not_find_out_is_undecided() -> None:
    check = reported("versions", versions=Hidden("no answer within 12 s"))
    assert (check.verdict, check.seen) == ("unknown", "the box could not find out: no answer within 12 s")


@pytest.mark.parametrize(
    ("supervisor", "verdict", "seen", "settling"),
    [
        (SupervisorFacts("ready", ""), "ok", "ready", False),
        (SupervisorFacts("starting", "tmux refused"), "unknown", "still starting: tmux refused", True),
        (SupervisorFacts("parked", "lost 5 sessions"), "fail", "lost 5 sessions", False),
        (SupervisorFacts("ready", "", ("~/.claude.json is not JSON",)), "warn", "~/.claude.json is not JSON", False),
    ],
)
def test_the_supervisor(supervisor: SupervisorFacts, verdict: str, seen: str, settling: bool) -> None:
    check = reported("supervisor", supervisor=supervisor)
    assert (check.verdict, check.settling) == (verdict, settling)
    assert seen in check.seen


@pytest.mark.parametrize(
    ("session", "verdict", "seen"),
    [
        (SessionFacts(("main", "observer"), ()), "ok", "windows main, observer"),
        (SessionFacts(("main",), ()), "fail", "window observer is missing"),
        (SessionFacts((), ()), "fail", "window main is missing; window observer is missing"),
        (
            SessionFacts(("main", "observer"), (Pane("observer", "%1", True, 1, "python"),)),
            "fail",
            "pane observer %1 (status 1) is dead",
        ),
        (SessionFacts(("main", "observer"), (Pane("main", "%0", True, 0, "claude"),)), "ok", "windows"),
    ],
)
def test_the_session(session: SessionFacts, verdict: str, seen: str) -> None:
    check = reported("tmux", session=session)
    assert check.verdict == verdict
    assert seen in check.seen


@pytest.mark.parametrize(
    ("lead", "verdict", "seen"),
    [
        (LeadFacts("claude", "running", None), "ok", "claude is running"),
        (LeadFacts("claude", "exited", 0), "warn", "Claude Code exited with code 0"),
        (LeadFacts("claude", "exited", 130), "warn", "code 130 (SIGINT)"),
        (LeadFacts("claude", "exited", 1), "fail", "exited with code 1"),
        (LeadFacts("claude", "exited", 137), "fail", "code 137 (SIGKILL)"),
        (LeadFacts("claude", "exited", 78), "fail", "Claude Code was not started (code 78)"),
        (LeadFacts("claude", "exited", None), "fail", "an unknown code"),
        (LeadFacts(None, "none", None), "fail", "claude has not been started"),
    ],
)
def test_the_lead(lead: LeadFacts, verdict: str, seen: str) -> None:
    check = reported("lead", lead=lead)
    assert check.verdict == verdict
    assert seen in check.seen


@pytest.mark.parametrize(
    ("lead", "panes", "seen"),
    [
        (LeadFacts("claude", "running", None), [Pane("main", "%0", True, 137, "claude")], "code 137 (SIGKILL)"),
        (LeadFacts("claude", "exited", None), [Pane("main", "%0", True, 1, "claude")], "code 1"),
        (LeadFacts("claude", "exited", 1), [Pane("main", "%0", True, None, "claude")], "code 1"),
        (LeadFacts("claude", "exited", 1), [Pane("main", "%0", False, None, "claude")], "code 1"),
        (LeadFacts("claude", "running", None), [Pane("observer", "%1", True, 1, "python")], "claude is running"),
        (
            LeadFacts("claude", "running", None),
            [Pane("main", "%0", False, None, "claude"), Pane("main", "%2", True, 0, "claude")],
            "claude is running",
        ),
    ],
)
def test_a_dead_pane_says_more_than_the_supervisor_knows_yet(lead: LeadFacts, panes: list[Pane], seen: str) -> None:
    session = SessionFacts(("main", "observer"), tuple(panes))
    assert reported("lead", lead=lead, session=session).seen.endswith(seen)


def test_an_exited_lead_is_not_waited_for() -> None:
    assert not reported("lead", lead=LeadFacts("claude", "exited", 1)).settling
    assert reported("lead", lead=LeadFacts("claude", "none", None)).settling


def test_a_box_without_lead() -> None:
    facts = samples.box(expected=samples.expected(lead=None), probe=samples.probe(lead=LeadFacts(None, "none", None)))
    assert next(check for check in judged(facts) if check.id == "lead").verdict == "ok"


@pytest.mark.parametrize(
    ("observer", "verdict", "seen"),
    [
        (ObserverFacts(True, True, ""), "ok", "answer in the box"),
        (
            ObserverFacts(True, False, "port 4318 is taken"),
            "fail",
            "its hook sink does not answer in the box: port 4318",
        ),
        (ObserverFacts(False, False, ""), "fail", "its page and its hook sink"),
        (ObserverFacts(True, True, "3 events were lost"), "warn", "3 events were lost"),
    ],
)
def test_the_observer(observer: ObserverFacts, verdict: str, seen: str) -> None:
    check = reported("observer", observer=observer)
    assert check.verdict == verdict
    assert seen in check.seen


@pytest.mark.parametrize(
    ("hook", "verdict", "seen"),
    [
        (HookFacts(True, 0.0234, ""), "ok", "round trip in 0.02 s"),
        (HookFacts(True, None, ""), "ok", "round trip"),
        (HookFacts(False, None, "refused"), "fail", "lost: refused"),
    ],
)
def test_the_synthetic_event(hook: HookFacts, verdict: str, seen: str) -> None:
    check = reported("hook-event", hook=hook)
    assert check.verdict == verdict
    assert seen in check.seen


@pytest.mark.parametrize(
    ("found", "verdict", "seen"),
    [
        ({"claude": CredentialFacts(True, "file")}, "ok", "claude: present (file), not validated"),
        ({"claude": CredentialFacts(True, None)}, "ok", "claude: present, not validated"),
        ({"claude": CredentialFacts(False, None)}, "warn", "claude: none"),
        ({}, "unknown", "claude: the box does not say"),
    ],
)
def test_credentials_are_present_or_none_and_never_valid(
    found: dict[str, CredentialFacts], verdict: str, seen: str
) -> None:
    check = reported("credentials", credentials=found)
    assert (check.verdict, check.seen) == (verdict, seen)


def test_missing_credentials_come_with_the_way_to_log_in() -> None:
    check = reported("credentials", credentials={"claude": CredentialFacts(False, None)})
    assert "`claude auth login`" in check.todo
    assert "`agentbox shell --name web`" in check.todo


def test_commands_name_the_instance_unless_it_is_the_default() -> None:
    check = one("state", expected=samples.expected(instance="team"), inspect=None)
    assert check.todo == "Run `agentbox up --instance team --name web` or site.yml"


def test_an_agent_that_needs_no_credentials() -> None:
    check = one("credentials", expected=samples.expected(manifests={"claude": {"name": "claude"}}))
    assert (check.verdict, check.seen) == ("ok", "claude: needs none")


def test_no_credentials_as_declared() -> None:
    facts = samples.box(
        expected=samples.expected(credentials="none"),
        probe=samples.probe(credentials={"claude": CredentialFacts(False, None)}),
    )
    found = next(check for check in judged(facts) if check.id == "credentials")
    assert (found.verdict, found.seen) == ("ok", "claude: none, as declared")


@pytest.mark.parametrize("mode", ["seed", "mount"])
def test_a_login_that_was_declared_and_is_not_there(mode: str) -> None:
    facts = samples.box(
        expected=samples.expected(credentials=mode),
        probe=samples.probe(credentials={"claude": CredentialFacts(False, None)}),
    )
    found = next(check for check in judged(facts) if check.id == "credentials")
    assert (found.verdict, found.seen) == ("fail", f"claude: none, though its declaration says {mode}")


@pytest.mark.parametrize(
    ("versions", "verdict", "seen"),
    [
        ({"claude": "2.1.332", "tmux": "3.3a"}, "ok", "claude 2.1.332, tmux 3.3a"),
        ({"claude": "2.1.400"}, "warn", "claude is 2.1.400, declared is 2.1.332"),
        ({"claude": None, "tmux": "3.3a"}, "fail", "claude does not tell its version"),
        ({}, "fail", "claude does not tell its version"),
    ],
)
def test_versions_of_agents(versions: dict[str, str | None], verdict: str, seen: str) -> None:
    check = reported("versions", versions=versions)
    assert (check.verdict, check.seen) == (verdict, seen)


def test_an_agent_without_pinned_version_may_have_any() -> None:
    manifests = {"claude": {"package": {"version": "latest"}}}
    facts = samples.box(
        expected=samples.expected(manifests=manifests), probe=samples.probe(versions={"claude": "9.9.9"})
    )
    assert next(check for check in judged(facts) if check.id == "versions").verdict == "ok"


@pytest.mark.parametrize(
    ("problem", "todo"),
    [
        ("Permission denied", "Check the owner on the host"),
        ("No space left on device", "Free space there (`agentbox shell --name web`)"),
        ("Disk quota exceeded", "quota"),
        ("Read-only file system", "a disk with errors becomes read-only"),
    ],
)
def test_a_directory_the_agent_cannot_write_to(problem: str, todo: str) -> None:
    check = reported("writable", writable={"/workspace": "", "/home/agent": problem})
    assert (check.verdict, check.seen) == ("fail", f"the agent cannot write to /home/agent ({problem})")
    assert todo in check.todo


def test_a_lead_killed_at_the_memory_limit_is_explained() -> None:
    probe = samples.probe(lead=LeadFacts("claude", "exited", 137))
    check = one("lead", probe=probe, cgroup=replace(samples.CGROUP, oom_kills=1))
    assert "code 137 (SIGKILL); the kernel killed processes of this box at the memory limit" in check.seen
    assert check.todo.startswith("Raise `memory`")


def test_troubles_are_what_keeps_a_box_from_its_work() -> None:
    assert troubles(samples.box(cgroup=replace(samples.CGROUP, pids_refused=3))) == []
    bombed = samples.box(probe=Hidden("no room for it"), cgroup=replace(samples.CGROUP, pids_refused=3))
    assert [(check.id, check.verdict) for check in troubles(bombed)] == [("probe", "fail"), ("pressure", "warn")]
    exited = samples.box(probe=samples.probe(lead=LeadFacts("claude", "exited", 1), credentials={}))
    assert [check.id for check in troubles(exited)] == ["lead"]


def test_a_stopped_box_has_no_trouble_and_one_that_failed_has() -> None:
    stopped = samples.box(inspect=samples.inspect(**STOPPED), expected=samples.expected(state="stopped"), probe=None)
    assert troubles(stopped) == []
    failed = samples.box(inspect=samples.inspect(**STOPPED, Error="no such file or directory: /srv"), probe=None)
    assert ["the engine could not start it (no such file or directory: /srv)" in c.seen for c in troubles(failed)]


def test_texts_of_the_engine_cannot_drive_a_terminal() -> None:
    evil = "\x1b[2J\x07"
    inspect = samples.inspect(Status="exited", Error=evil, ExitCode=1)
    inspect = {**inspect, "Mounts": [], "Image": evil}
    mounts = (MountFacts(evil, evil, "missing"),)
    checks = judged(replace(samples.box(), inspect=inspect, mounts=mounts, probe=None))
    assert not [check for check in checks if "\x1b" in check.seen or "\x07" in check.seen]
