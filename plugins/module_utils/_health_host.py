"""Verdicts about the host: engine, images, disk, certificates, proxy, kernel settings, configuration. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from . import _manifests
from ._advisory import advisory_checks, unenforced_limits
from ._engine import is_rootless
from ._health import HOST, Check, Verdict, plain, size, without_credentials
from ._health_facts import EngineFacts, EngineFailure, HostFacts, ImageFacts, Space
from ._health_hardening import limit_title
from ._naming import LABEL_AGENTS, LABEL_BASE, LABEL_CONTEXT, LABEL_MANAGED

IMAGE_IDS = ("image", "image-agents", "image-age")
IMAGE_AGE_WARN = 30.0  # days
SPACE_WARN = 5 * 1024**3
SPACE_FAIL = 500 * 1024**2
_DAY = 86400.0
_REBUILD = "Run `agentbox rebuild`"

# What decides whether ordinary users get user namespaces, the second on Debian's kernels: sysctl to a value that does.
USER_NAMESPACE_SETTINGS = {
    "kernel.apparmor_restrict_unprivileged_userns": 0,
    "kernel.unprivileged_userns_clone": 1,
    "user.max_user_namespaces": 15000,
}

# A stopped or missing engine is certain. Whether a denied or hanging one has healthy boxes nobody can say.
_CERTAIN = ("absent", "stopped", "unsupported", "error")


def host_checks(
    facts: HostFacts,
    configuration: Mapping[str, Mapping[str, Any]],
    image_context: str | None,
    predicting: bool,
) -> list[Check]:
    """All checks with the subject ``host``.

    ``configuration`` maps a key to ``value`` and
    ``source``. ``predicting`` says that what is missing would be made by the run this is part of.
    """
    checks = [engine_check(facts.engine, predicting)]
    if isinstance(facts.engine, EngineFacts):
        checks.append(cgroup_check(facts.engine.info))
        checks += advisory_checks(facts.engine)
        for image in facts.images:
            checks += image_checks(image, image_context, facts.now, predicting)
    else:
        reason = unreachable(facts.engine)
        checks += [Check(check_id, HOST, "unknown", reason) for check_id in ("cgroup", *IMAGE_IDS)]
    checks += [space_check(space) for space in facts.spaces]
    checks.append(ca_check(facts))
    checks.append(proxy_check(HOST, facts.proxy))
    checks += user_namespace_checks(facts.user_namespaces)
    checks += configuration_checks(configuration)
    return checks


def unreachable(engine: EngineFailure) -> str:
    """Why everything that depends on the engine stays open."""
    return f"the engine is not reachable ({engine.kind})"


def engine_check(engine: EngineFacts | EngineFailure, predicting: bool) -> Check:
    if isinstance(engine, EngineFacts):
        name = "Podman" if engine.podman else "Docker"
        rootless = "rootless, " if is_rootless(engine.info) else ""
        return Check(
            "engine", HOST, "ok", f"{name} {plain(engine.version, 60)}, {rootless}API {engine.api}, {engine.host}"
        )
    if engine.kind == "absent" and predicting:
        return Check("engine", HOST, "unknown", "no engine is installed; this run would install it")
    verdict: Verdict = "fail" if engine.kind in _CERTAIN else "unknown"
    return Check(
        "engine", HOST, verdict, f"{engine.kind}: {plain(engine.message)}", engine.hint or "Look at the engine's log"
    )


def cgroup_check(info: Mapping[str, Any]) -> Check:
    """Which cgroup version the engine uses, and which limits it says it cannot set."""
    version = plain(info.get("CgroupVersion") or "1", 10)
    driver = plain(info.get("CgroupDriver") or "unknown", 30)
    lacking = sorted(unenforced_limits(info))
    seen = f"cgroup v{version}, driver {driver}"
    if lacking:
        return Check(
            "cgroup",
            HOST,
            "warn",
            f"{seen}; advisory, not enforced by this engine: limits of {', '.join(map(limit_title, lacking))}",
            "Enable the missing controllers (kernel command line, or delegation for a rootless engine)",
        )
    return Check("cgroup", HOST, "ok", seen)


def image_checks(image: ImageFacts, wanted_context: str | None, now: float, predicting: bool) -> list[Check]:
    if image.inspect is None:
        verdict: Verdict = "unknown" if predicting else "fail"
        seen = f"there is no image {image.reference}" + (" yet; this run would build it" if predicting else "")
        return [
            Check("image", HOST, verdict, seen, "" if predicting else "Run `agentbox up`, which builds it"),
            *(Check(check_id, HOST, "unknown", f"there is no image {image.reference}") for check_id in IMAGE_IDS[1:]),
        ]
    labels: Mapping[str, Any] = (image.inspect.get("Config") or {}).get("Labels") or {}
    return [
        _context_check(image, labels, wanted_context),
        _agents_check(image, labels),
        _age_check(image.reference, str(image.inspect.get("Created", "")), now),
        *_base_checks(image, str(labels.get(LABEL_BASE) or "")),
    ]


def _context_check(image: ImageFacts, labels: Mapping[str, Any], wanted: str | None) -> Check:
    reference = image.reference
    if LABEL_MANAGED not in labels:
        return Check("image", HOST, "warn", f"{reference} was not built by Agentbox", _REBUILD)
    context = plain(labels.get(LABEL_CONTEXT) or "unknown", 80)
    if wanted and context != wanted:
        return Check(
            "image",
            HOST,
            "warn",
            f"{reference} was built from {context[:19]}, declared is {wanted[:19]}",
            _REBUILD,
        )
    amount = size(int((image.inspect or {}).get("Size") or 0))
    return Check("image", HOST, "ok", f"{reference} is there, {amount}, built from {context[:19]}")


def parse_agents(label: str) -> dict[str, str]:
    """Agents of an image by its label, safe to print."""
    return {plain(name, 60): plain(version, 60) for name, version in _manifests.parse_agents(label).items()}


def wanted_versions(manifests: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Pinned version of each agent; an agent without a pin (``latest``) is left out."""
    found = {}
    for name, manifest in manifests.items():
        version = str((manifest.get("package") or {}).get("version") or "latest")
        if version != "latest":
            found[name] = version
    return found


def differing_versions(found: Mapping[str, str], manifests: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One text per agent whose found version is not the pinned one."""
    return [
        f"{agent} is {found[agent]}, declared is {version}"
        for agent, version in wanted_versions(manifests).items()
        if agent in found and found[agent] != version
    ]


def _agents_check(image: ImageFacts, labels: Mapping[str, Any]) -> Check:
    found = parse_agents(str(labels.get(LABEL_AGENTS) or ""))
    missing = [agent for agent in image.agents if agent not in found]
    if missing:
        return Check("image-agents", HOST, "fail", f"{image.reference} lacks {', '.join(missing)}", _REBUILD)
    differing = differing_versions(found, image.agents)
    if differing:
        return Check("image-agents", HOST, "warn", f"{image.reference}: {'; '.join(differing)}", _REBUILD)
    listed = ", ".join(f"{agent} {version}" for agent, version in found.items()) or "no agents"
    return Check("image-agents", HOST, "ok", f"{image.reference} holds {listed}")


def _age_check(reference: str, created: str, now: float) -> Check:
    built = parse_time(created)
    if built is None:
        return Check("image-age", HOST, "unknown", f"{reference} has no readable build time")
    days = max(0.0, (now - built) / _DAY)
    seen = f"{reference} is {days:.0f} days old"
    if days > IMAGE_AGE_WARN:
        return Check("image-age", HOST, "warn", seen, f"{_REBUILD} for current packages")
    return Check("image-age", HOST, "ok", seen)


def _base_checks(image: ImageFacts, built_on: str) -> list[Check]:
    """Whether the engine has got another base since; an image that was built elsewhere is its builder's to judge."""
    base = image.base
    if base is None or base.image_id is None or not built_on:
        return []
    if base.image_id != built_on:
        seen = f"{image.reference} was built on an earlier {base.reference} than the engine has now"
        return [Check("image-base", HOST, "warn", seen, f"{_REBUILD}, which builds on the present one")]
    return [Check("image-base", HOST, "ok", f"{image.reference} was built on the present {base.reference}")]


def parse_time(text: str) -> float | None:
    """Seconds since the epoch of the engine's RFC 3339 time with nanoseconds; None when it is not one."""
    head, _, fraction = text.partition(".")
    offset = fraction.lstrip("0123456789") if fraction else ""
    try:
        moment = datetime.fromisoformat(head + offset)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def space_check(space: Space) -> Check:
    if space.free is None:
        return Check("disk", HOST, "unknown", f"{space.purpose} {space.path}: {plain(space.error)}")
    seen = f"{space.purpose} {space.path}: {size(space.free)} free"
    if space.free >= SPACE_WARN:
        return Check("disk", HOST, "ok", seen)
    verdict: Verdict = "warn" if space.free >= SPACE_FAIL else "fail"
    return Check("disk", HOST, verdict, seen, "Free space, for example with `docker system prune`")


def ca_check(facts: HostFacts) -> Check:
    if facts.ca_bundle is None:
        return Check(
            "ca", HOST, "warn", "the host has no bundle of certificates", "Install the package ca-certificates"
        )
    if not facts.ca_digests:
        return Check(
            "ca",
            HOST,
            "fail",
            f"{facts.ca_bundle} holds no certificate",
            "Correct SSL_CERT_FILE, or install the package ca-certificates",
        )
    return Check("ca", HOST, "ok", f"{facts.ca_bundle} holds {len(facts.ca_digests)} certificates")


def proxy_check(subject: str, variables: Mapping[str, str]) -> Check:
    """Proxy variables agree in both spellings and leave loopback alone.

    An agent that sends its hooks for 127.0.0.1 to a proxy hangs, and its work with it.
    """
    proxies = {name: value for name, value in variables.items() if not _is_exception_list(name) and value}
    if not proxies:
        return Check("proxy", subject, "ok", "no proxy is set")
    shown = ", ".join(f"{name}={without_credentials(value)}" for name, value in sorted(proxies.items()))
    split = _unequal_spellings(variables)
    if split:
        return Check(
            "proxy",
            subject,
            "warn",
            f"{shown}; upper and lower case of {', '.join(split)} differ",
            "Set both spellings to the same value",
        )
    missing = [name for name in ("127.0.0.1", "localhost") if name not in _exceptions(variables)]
    if missing:
        return Check(
            "proxy",
            subject,
            "warn" if subject == HOST else "fail",
            f"{shown}; NO_PROXY lacks {', '.join(missing)}",
            "Add 127.0.0.1 and localhost to NO_PROXY" + ("" if subject == HOST else " and recreate the box"),
        )
    return Check("proxy", subject, "ok", shown)


def _is_exception_list(name: str) -> bool:
    return name.upper() == "NO_PROXY"


def _unequal_spellings(variables: Mapping[str, str]) -> list[str]:
    upper = sorted({name.upper() for name in variables})
    return [
        name
        for name in upper
        if name in variables and name.lower() in variables and variables[name] != variables[name.lower()]
    ]


def _exceptions(variables: Mapping[str, str]) -> set[str]:
    lists = (value for name, value in variables.items() if _is_exception_list(name))
    return {entry.strip() for value in lists for entry in value.split(",")}


def user_namespace_checks(settings: Mapping[str, int]) -> Iterable[Check]:
    """A kernel that keeps user namespaces from ordinary programs breaks the agents' own nested sandboxes.

    ``settings`` are the values of those of ``USER_NAMESPACE_SETTINGS`` that the kernel has.
    """
    wrong = {name: USER_NAMESPACE_SETTINGS[name] for name in sorted(settings) if _prevents(name, settings[name])}
    if not wrong:
        return []
    found = ", ".join(f"{name} is {settings[name]}" for name in wrong)
    commands = " && ".join(f"sysctl -w {name}={value}" for name, value in wrong.items())
    return [
        Check(
            "user-namespaces",
            HOST,
            "warn",
            f"{found}: an agent's own sandbox, nested in a box or on the host, will not start",
            "Switch such sandboxes off in boxes: the box is one, and its system call filter keeps others out; "
            f"for agents on the host run `{commands}` and keep that in /etc/sysctl.d",
        )
    ]


def _prevents(name: str, value: int) -> bool:
    """Whether a setting leaves no user namespaces; it does when it is on which side of zero the remedy is not."""
    return bool(value) != bool(USER_NAMESPACE_SETTINGS[name])


def displayable(configuration: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """A configuration as it may be shown: texts of one line, no user and password in an address."""
    return {
        plain(key, 80): {
            "value": _shown(entry.get("value")),
            "source": plain(entry.get("source", "unknown")),
        }
        for key, entry in configuration.items()
    }


def _shown(value: object) -> str:
    text = str(value)
    return without_credentials(text) if "://" in text else plain(text)


def configuration_checks(configuration: Mapping[str, Mapping[str, Any]]) -> Iterable[Check]:
    return [
        Check("configuration", HOST, "ok", f"{key} = {entry['value']} (from {entry['source']})")
        for key, entry in displayable(configuration).items()
    ]
