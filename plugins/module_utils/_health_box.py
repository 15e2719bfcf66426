"""The checklist of one box, and verdicts about its files, page, image, certificates, credentials, versions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import _proxy
from ._advisory import unenforced_limits
from ._credentials import EXPLICIT
from ._health import Check, plain
from ._health_facts import (
    BoxFacts,
    CgroupFacts,
    CredentialFacts,
    EngineFacts,
    Expected,
    Hidden,
    HostFacts,
    PageFacts,
    ProbeFacts,
)
from ._health_hardening import hardening_check, limits_check, pressure_check
from ._health_host import differing_versions, proxy_check
from ._health_state import adopted_check, running, state_check
from ._health_working import (
    hook_event_check,
    lead_check,
    lead_now,
    observer_check,
    supervisor_check,
    tmux_check,
    writable_check,
)

# What can be known only while the box runs, in the order of the checklist.
LIVE_IDS = (
    "image-current",
    "hardening",
    "limits",
    "pressure",
    "ca",
    "proxy",
    "probe",
)
# What the box itself reports.
PROBE_IDS = ("supervisor", "tmux", "lead", "observer", "hook-event", "credentials", "versions", "writable")
# What a box needs for its work, of that.
_WORKING_IDS = ("probe", "supervisor", "tmux", "lead", "observer", "writable")
# Environment variables of a proxy, in both spellings.
PROXY_VARIABLES = tuple(spelling for name in _proxy.VARIABLES for spelling in (name.upper(), name))


def box_checks(facts: BoxFacts, host: HostFacts, engine_socket: str, predicting: bool) -> list[Check]:
    """All checks of one box, on an engine that answers.

    ``predicting`` says that a missing box would be made by the
    run this is part of.
    """
    box = facts.expected
    if box.state == "adopted":
        return [adopted_check(facts)]
    state = state_check(facts, predicting)
    if facts.inspect is None:
        return _not_there(facts, state, predicting)
    checks = [state, *source_checks(facts), _page_check_of(facts), *hook_settings_checks(facts)]
    if not running(facts.inspect):
        if box.state == "started":
            checks += _open_checks(box, state, "the box is not running", (*LIVE_IDS, *PROBE_IDS))
        return checks
    unenforced = unenforced_limits(host.engine.info) if isinstance(host.engine, EngineFacts) else frozenset[str]()
    checks += [
        image_current_check(facts, host),
        hardening_check(facts, engine_socket),
        limits_check(facts, unenforced),
        pressure_check(facts),
        box_ca_check(facts, host),
        proxy_check(box.name, proxy_variables(facts.inspect)),
    ]
    return checks + _probe_checks(facts)


def troubles(facts: BoxFacts) -> list[Check]:
    """What keeps a box from its work, of what is known at a glance; the pressure on it only as the reason of more."""
    if facts.inspect is None or not running(facts.inspect):
        return [state for state in [state_check(facts, predicting=False)] if state.verdict != "ok"]
    checks = [state_check(facts, predicting=False)]
    checks += [check for check in _probe_checks(facts) if check.id in _WORKING_IDS]
    found = [check for check in checks if check.verdict in ("fail", "warn")]
    return [*found, pressure] if found and (pressure := pressure_check(facts)).verdict == "warn" else found


def unreachable_box_checks(box: Expected, reason: str) -> list[Check]:
    """The checks of a box nobody can ask about, because the engine does not answer."""
    if box.state == "adopted":
        return [Check("state", box.name, "unknown", reason)]
    open_ids = ("state", "mounts", "port", "hook-settings", *LIVE_IDS, *PROBE_IDS)
    return [Check(check_id, box.name, "unknown", reason) for check_id in open_ids]


def _not_there(facts: BoxFacts, state: Check, predicting: bool) -> list[Check]:
    box = facts.expected
    if box.state != "started":
        return [state]
    reason = "the box is not there yet" if predicting else "there is no such box"
    checks = [state, *_workspace_checks(facts), _page_check_of(facts)]
    return checks + _open_checks(box, state, reason, ("hook-settings", *LIVE_IDS, *PROBE_IDS))


def _open_checks(box: Expected, cause: Check, reason: str, ids: Iterable[str]) -> list[Check]:
    return [Check(check_id, box.name, "unknown", reason, settling=cause.settling) for check_id in ids]


# --- files on the host ----------------------------------------------------------------------------------------------


def source_checks(facts: BoxFacts) -> list[Check]:
    """What is mounted into the box exists on the host and is what it has to be."""
    name = facts.expected.name
    problems = [*_mount_problems(facts), *_state_file_problems(facts)]
    if problems:
        return [Check("mounts", name, "fail", "; ".join(problems), "Correct the named paths, then run site.yml")]
    unreadable = [mount.source for mount in facts.mounts if mount.kind == "unreadable"]
    if unreadable:
        return [Check("mounts", name, "unknown", f"not allowed to look at {', '.join(map(plain, unreadable))}")]
    return [Check("mounts", name, "ok", f"all {len(facts.mounts)} mounted paths are there")]


def _mount_problems(facts: BoxFacts) -> Iterator[str]:
    for mount in facts.mounts:
        source = plain(mount.source)
        if mount.kind == "missing":
            yield f"{source} (for {plain(mount.target)}) is missing"
        elif mount.same is False:
            yield f"{source} was made anew while the box ran; the box still holds the old one until it is restarted"
    workspace = facts.expected.workspace
    if workspace and facts.workspace_kind not in ("directory", "missing", "unreadable", None):
        yield f"the workspace {plain(workspace)} is a {facts.workspace_kind}, not a directory"


def _state_file_problems(facts: BoxFacts) -> Iterator[str]:
    for file in facts.state_files:
        if file.kind == "missing":
            yield f"{file.path} is missing"
        elif file.kind not in (file.wanted, "unreadable"):
            yield f"{file.path} is a {file.kind}, not a {file.wanted}"


def _workspace_checks(facts: BoxFacts) -> list[Check]:
    """For a box that is not there yet, all that can be said about mounts is whether its workspace exists."""
    box = facts.expected
    if not box.workspace or facts.workspace_kind is None:
        return []
    path = plain(box.workspace)
    if facts.workspace_kind == "directory":
        return [Check("mounts", box.name, "ok", f"the workspace {path} is there")]
    if facts.workspace_kind == "unreadable":
        return [Check("mounts", box.name, "unknown", f"not allowed to look at the workspace {path}")]
    what = "is missing" if facts.workspace_kind == "missing" else f"is a {facts.workspace_kind}, not a directory"
    return [Check("mounts", box.name, "fail", f"the workspace {path} {what}", "Make it, or correct `workspace`")]


def hook_settings_checks(facts: BoxFacts) -> list[Check]:
    """The hook settings that agents read are exactly those that Agentbox renders."""
    name, problems = facts.expected.name, []
    for settings in facts.hooks:
        if settings.problem:
            problems.append(f"{settings.agent}: {settings.path} {plain(settings.problem)}")
        elif settings.found != settings.wanted:
            problems.append(f"{settings.agent}: {settings.path} differs from what Agentbox writes")
    if problems:
        return [Check("hook-settings", name, "fail", "; ".join(problems), "Run site.yml, which writes them again")]
    if not facts.hooks:
        return [Check("hook-settings", name, "ok", "no agent of this box has hooks")]
    agents = ", ".join(settings.agent for settings in facts.hooks)
    return [Check("hook-settings", name, "ok", f"in place for {agents}")]


# --- the page -------------------------------------------------------------------------------------------------------


def _page_check_of(facts: BoxFacts) -> Check:
    return page_check(facts.expected, facts.page, facts.inspect is not None and running(facts.inspect))


def page_check(box: Expected, page: PageFacts | None, box_runs: bool) -> Check:
    """Whether the published address is free, answered by this box, or held by something else."""
    if box.publish is None or page is None:
        return Check("port", box.name, "ok", "the page is not published on the host")
    address = f"{box.publish[0]}:{box.publish[1]}"
    if page.taken is None:
        return _free_port_check(box, address, box_runs)
    if page.container != box.container or not box_runs:
        return _foreign_port_check(box, page, address)
    return _own_page_check(box, page, address)


def _free_port_check(box: Expected, address: str, box_runs: bool) -> Check:
    if box.state == "started" and box_runs:
        return Check(
            "port",
            box.name,
            "fail",
            f"nothing listens on {address}",
            "Run site.yml; if the port is not published, recreate the box",
        )
    return Check("port", box.name, "ok", f"{address} is free")


def _foreign_port_check(box: Expected, page: PageFacts, address: str) -> Check:
    seen = f"{address} is published by container {plain(page.container)}" if page.container else plain(page.taken)
    return Check(
        "port",
        box.name,
        "fail" if box.state == "started" else "warn",
        seen,
        "Stop what holds it, or choose another address with `publish` (`--port`)",
    )


def _own_page_check(box: Expected, page: PageFacts, address: str) -> Check:
    if page.ours and page.healthy is not False:
        return Check("port", box.name, "ok", f"the page answers on http://{address}")
    what = "answers, and says" if page.ours else "does not answer as a box Observer"
    return Check(
        "port",
        box.name,
        "fail",
        f"the page on http://{address} {what}: {page.reason}",
        f"Look at `{box.command('logs')}`",
        settling=True,
    )


# --- image, certificates, environment -------------------------------------------------------------------------------


def image_current_check(facts: BoxFacts, host: HostFacts) -> Check:
    """Whether the box runs the image its tag means now."""
    box, inspect = facts.expected, facts.inspect or {}
    used = str(inspect.get("Image") or "")
    tagged = next((image.inspect for image in host.images if image.reference == box.image), None)
    if tagged is None:
        return Check("image-current", box.name, "unknown", f"there is no image {box.image} to compare with")
    if used != tagged.get("Id"):
        return Check(
            "image-current",
            box.name,
            "warn",
            f"runs an earlier image than {box.image} means now",
            "Recreate the box when it suits you: `agentbox rebuild`, or `recreate: drift`",
        )
    return Check("image-current", box.name, "ok", f"runs the current {box.image}")


def environment(inspect: Mapping[str, Any]) -> dict[str, str]:
    """Variables the container was created with."""
    pairs = (str(entry).partition("=") for entry in (inspect.get("Config") or {}).get("Env") or [])
    return {name: value for name, separator, value in pairs if separator}


def proxy_variables(inspect: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in environment(inspect).items() if name in PROXY_VARIABLES}


def box_ca_check(facts: BoxFacts, host: HostFacts) -> Check:
    """What the host trusts the box trusts: the files its variables name are there and hold the host's certificates."""
    name = facts.expected.name
    missing = sorted(path for path, digests in facts.ca_files.items() if not digests)
    if missing:
        return Check(
            "ca",
            name,
            "fail",
            f"variables of the box name {', '.join(map(plain, missing))}, which hold no certificate in it",
            "Run `agentbox rebuild`",
        )
    if not facts.ca_files:
        return Check(
            "ca", name, "warn", "no variable of the box names a bundle of certificates", "Run `agentbox rebuild`"
        )
    held = frozenset[str]().union(*(digests or () for digests in facts.ca_files.values()))
    lacking = host.ca_digests - held
    if lacking:
        return Check(
            "ca",
            name,
            "warn",
            f"the box lacks {len(lacking)} of the {len(host.ca_digests)} certificates the host trusts",
            "Run `agentbox rebuild`, which takes the host's bundle along",
        )
    return Check("ca", name, "ok", f"the box trusts all {len(host.ca_digests)} certificates the host trusts")


# --- what the box reports -------------------------------------------------------------------------------------------


def _probe_checks(facts: BoxFacts) -> list[Check]:
    box, probe = facts.expected, facts.probe
    if not isinstance(probe, ProbeFacts):
        reason = probe.reason if isinstance(probe, Hidden) else "not asked"
        failed = Check(
            "probe",
            box.name,
            "fail",
            f"the box does not report about itself: {reason}",
            f"Look at `{box.command('logs')}`",
            settling=True,
        )
        return [failed, *_open_checks(box, failed, "the box does not report about itself", PROBE_IDS)]
    judged: tuple[tuple[str, object, Callable[[Any], Iterable[Check]]], ...] = (
        ("supervisor", probe.supervisor, lambda part: [supervisor_check(box, part)]),
        ("tmux", probe.session, lambda part: [tmux_check(box, part)]),
        ("lead", probe.lead, lambda part: [lead_check(box, lead_now(part, probe.session), _out_of_memory(facts))]),
        ("observer", probe.observer, lambda part: [observer_check(box, part)]),
        ("hook-event", probe.hook, lambda part: [hook_event_check(box, part)]),
        ("credentials", probe.credentials, lambda part: credential_checks(box, part)),
        ("versions", probe.versions, lambda part: [versions_check(box, part)]),
        ("writable", probe.writable, lambda part: [writable_check(box, part)]),
    )
    checks = [Check("probe", box.name, "ok", "the box reports about itself")]
    for check_id, part, judge in judged:
        checks += _untold(box, check_id, part) if isinstance(part, Hidden) else judge(part)
    return checks


def _untold(box: Expected, check_id: str, part: Hidden) -> list[Check]:
    return [Check(check_id, box.name, "unknown", f"the box could not find out: {part.reason}", settling=True)]


def _out_of_memory(facts: BoxFacts) -> bool:
    """Whether the kernel has killed a process of the box at its memory limit."""
    return isinstance(facts.cgroup, CgroupFacts) and bool(facts.cgroup.oom_kills)


def credential_checks(box: Expected, credentials: Mapping[str, CredentialFacts]) -> list[Check]:
    """Whether each agent has credentials. Never whether they are valid: only their vendor could tell."""
    return [_credential_check(box, agent, credentials.get(agent)) for agent in box.agents or tuple(sorted(credentials))]


def _credential_check(box: Expected, agent: str, found: CredentialFacts | None) -> Check:
    manifest = box.manifests.get(agent)
    if manifest is not None and not manifest.get("credentials"):
        return Check("credentials", box.name, "ok", f"{agent}: needs none")
    if found is None:
        return Check("credentials", box.name, "unknown", f"{agent}: the box does not say")
    if found.present:
        kind = f" ({found.kind})" if found.kind else ""
        return Check("credentials", box.name, "ok", f"{agent}: present{kind}, not validated")
    if box.credentials == "none":
        return Check("credentials", box.name, "ok", f"{agent}: none, as declared")
    login = ((manifest or {}).get("credentials") or {}).get("login") or f"{agent}'s own log-in"
    inside = f"Log in inside the box: `{login}` (`{box.command('shell')}`), or declare a secret"
    if box.credentials in EXPLICIT:
        seen = f"{agent}: none, though its declaration says {box.credentials}"
        return Check("credentials", box.name, "fail", seen, inside)
    return Check("credentials", box.name, "warn", f"{agent}: none", inside)


def versions_check(box: Expected, versions: Mapping[str, str | None]) -> Check:
    """The agents' own version commands against the pinned versions."""
    told = {name: version for name, version in versions.items() if version}
    silent = [agent for agent in box.agents if agent not in told]
    if silent:
        return Check(
            "versions", box.name, "fail", f"{', '.join(silent)} does not tell its version", "Run `agentbox rebuild`"
        )
    differing = differing_versions(told, box.manifests)
    if differing:
        return Check("versions", box.name, "warn", "; ".join(differing), "Run `agentbox rebuild`, recreate the box")
    listed = ", ".join(f"{name} {version}" for name, version in sorted(told.items()))
    return Check("versions", box.name, "ok", listed or "no agents")
