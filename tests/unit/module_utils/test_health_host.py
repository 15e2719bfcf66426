"""Verdicts about the host, from facts as they were seen on real machines and as they could be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentbox._shared._health import Check
from agentbox._shared._health_facts import BaseFacts, EngineFacts, EngineFailure, HostFacts, ImageFacts, Space
from agentbox._shared._health_host import (
    ca_check,
    cgroup_check,
    configuration_checks,
    engine_check,
    host_checks,
    image_checks,
    parse_agents,
    parse_time,
    proxy_check,
    space_check,
    user_namespace_checks,
)

NOW = 1_796_000_000.0  # 2026-11-30
GIB = 1024**3
MANIFESTS: dict[str, dict[str, Any]] = {"claude": {"package": {"version": "2.1.332"}}}
INFO = {
    "CgroupVersion": "1",
    "CgroupDriver": "cgroupfs",
    "MemoryLimit": True,
    "SwapLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}


def engine(podman: bool = False, **info: Any) -> EngineFacts:
    return EngineFacts("unix:///var/run/docker.sock", "1.41", "20.10.24", podman, {**INFO, **info})


def image(created: str = "2026-11-29T20:15:31.737931731Z", **labels: str) -> ImageFacts:
    known = {
        "agentbox.managed": "true",
        "agentbox.context": "sha256:aaaaaaaaaaaaaaaaaaaa",
        "agentbox.agents": "claude=2.1.332",
    }
    return ImageFacts(
        "agentbox:latest", {"Id": "sha256:1", "Created": created, "Config": {"Labels": {**known, **labels}}}, MANIFESTS
    )


def verdicts(checks: list[Check]) -> dict[str, str]:
    return {check.id: check.verdict for check in checks}


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("absent", "fail"),
        ("stopped", "fail"),
        ("unsupported", "fail"),
        ("error", "fail"),
        ("denied", "unknown"),
        ("timeout", "unknown"),
        ("unreachable", "unknown"),
    ],
)
def test_only_what_is_certain_about_an_engine_is_a_failure(kind: str, verdict: str) -> None:
    check = engine_check(EngineFailure(kind, "no answer", "Start it"), predicting=False)
    assert (check.verdict, check.todo) == (verdict, "Start it")
    assert check.seen.startswith(f"{kind}: ")


def test_an_engine_that_this_run_would_install_is_no_failure() -> None:
    absent = EngineFailure("absent", "no engine is installed", "")
    assert engine_check(absent, predicting=True).verdict == "unknown"


@pytest.mark.parametrize("kind", ["stopped", "error"])
def test_prediction_excuses_nothing_but_an_absent_engine(kind: str) -> None:
    assert engine_check(EngineFailure(kind, "x", ""), predicting=True).verdict == "fail"


def test_engines_are_named() -> None:
    assert engine_check(engine(), predicting=False).seen.startswith("Docker 20.10.24, API 1.41")
    rootless = engine(podman=True, SecurityOptions=["name=seccomp,profile=default", "name=rootless"])
    assert engine_check(rootless, predicting=False).seen.startswith("Podman 20.10.24, rootless, API 1.41")


def test_without_an_engine_what_depends_on_it_is_undecided_and_says_why() -> None:
    facts = HostFacts(EngineFailure("stopped", "nothing listens", "Start the engine"), NOW)
    found = host_checks(facts, {}, None, predicting=False)
    dependent = [check for check in found if check.id in ("cgroup", "image", "image-agents", "image-age")]
    assert {check.verdict for check in dependent} == {"unknown"}
    assert {check.seen for check in dependent} == {"the engine is not reachable (stopped)"}
    assert len(dependent) == 4


def test_the_cgroup_version_is_named() -> None:
    assert cgroup_check({**INFO, "CgroupVersion": "2", "CgroupDriver": "systemd"}).seen == "cgroup v2, driver systemd"


def test_limits_that_an_engine_cannot_set_are_named() -> None:
    check = cgroup_check({**INFO, "SwapLimit": False, "PidsLimit": False})
    assert check.verdict == "warn"
    assert check.seen.endswith("advisory, not enforced by this engine: limits of memory and swap, pids")


def test_an_image_as_it_should_be() -> None:
    found = image_checks(image(), "sha256:aaaaaaaaaaaaaaaaaaaa", NOW, predicting=False)
    assert verdicts(found) == {"image": "ok", "image-agents": "ok", "image-age": "ok"}


def test_a_missing_image_leaves_its_agents_undecided() -> None:
    found = image_checks(ImageFacts("agentbox:latest", None), None, NOW, predicting=False)
    assert verdicts(found) == {"image": "fail", "image-agents": "unknown", "image-age": "unknown"}


def test_a_missing_image_that_this_run_would_build_is_no_failure() -> None:
    found = image_checks(ImageFacts("agentbox:latest", None), None, NOW, predicting=True)
    assert set(verdicts(found).values()) == {"unknown"}


def test_an_image_built_from_something_else() -> None:
    check = image_checks(image(), "sha256:bbbbbbbbbbbbbbbbbbbb", NOW, predicting=False)[0]
    assert check.verdict == "warn"
    assert "aaaa" in check.seen
    assert "bbbb" in check.seen


def test_a_foreign_image() -> None:
    foreign = ImageFacts("debian:12", {"Created": "", "Config": {"Labels": None}})
    assert verdicts(image_checks(foreign, None, NOW, predicting=False)) == {
        "image": "warn",
        "image-agents": "ok",
        "image-age": "unknown",
    }


@pytest.mark.parametrize(
    ("label", "verdict", "seen"),
    [
        ("claude=2.1.332", "ok", "holds claude 2.1.332"),
        ("claude=2.1.300", "warn", "claude is 2.1.300, declared is 2.1.332"),
        ("codex=0.171.0", "fail", "lacks claude"),
        ("", "fail", "lacks claude"),
    ],
)
def test_the_agents_of_an_image(label: str, verdict: str, seen: str) -> None:
    check = image_checks(image(**{"agentbox.agents": label}), None, NOW, predicting=False)[1]
    assert check.verdict == verdict
    assert seen in check.seen


def test_agents_of_a_label() -> None:
    assert parse_agents("claude=2.1.332 codex=0.171.0,broken") == {"claude": "2.1.332", "codex": "0.171.0"}


@pytest.mark.parametrize(
    ("created", "verdict"),
    [
        ("2026-11-30T00:00:00Z", "ok"),
        ("2026-11-01T00:00:00.123456789Z", "ok"),
        ("2026-10-20T00:00:00.123456789+02:00", "warn"),
        ("2030-01-01T00:00:00Z", "ok"),
        ("yesterday", "unknown"),
    ],
)
def test_the_age_of_an_image(created: str, verdict: str) -> None:
    assert image_checks(image(created), None, NOW, predicting=False)[2].verdict == verdict


@pytest.mark.parametrize(
    ("base", "verdict"),
    [
        (BaseFacts("debian:bookworm-slim", "sha256:7"), ["ok"]),
        (BaseFacts("debian:bookworm-slim", "sha256:8"), ["warn"]),
        (BaseFacts("debian:bookworm-slim", None), []),
        (None, []),
    ],
)
def test_the_base_of_an_image(base: BaseFacts | None, verdict: list[str]) -> None:
    facts = replace(image(**{"agentbox.base": "sha256:7"}), base=base)
    found = [check for check in image_checks(facts, None, NOW, predicting=False) if check.id == "image-base"]
    assert [check.verdict for check in found] == verdict
    assert all("debian:bookworm-slim" in check.seen for check in found)


def test_the_size_of_an_image_is_told() -> None:
    facts = replace(image(), inspect={**(image().inspect or {}), "Size": 839155321})
    assert "agentbox:latest is there, 800.3 MiB, " in image_checks(facts, None, NOW, predicting=False)[0].seen


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T02:00:10.999999999+02:00", 10.0),
        ("1970-01-01T00:00:10", 10.0),
        ("0001-01-01T00:00:00Z", -62135596800.0),
        ("", None),
    ],
)
def test_times_of_the_engine(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(5 * GIB, "ok"), (5 * GIB - 1, "warn"), (500 * 1024**2, "warn"), (500 * 1024**2 - 1, "fail"), (0, "fail")],
)
def test_free_space(free: int, verdict: str) -> None:
    check = space_check(Space("engine", "/var/lib/docker", free))
    assert check.verdict == verdict
    assert "/var/lib/docker" in check.seen


def test_space_that_cannot_be_read() -> None:
    check = space_check(Space("engine", "/var/lib/docker", None, "Permission denied"))
    assert (check.verdict, check.seen) == ("unknown", "engine /var/lib/docker: Permission denied")


@pytest.mark.parametrize(
    ("bundle", "digests", "verdict"),
    [
        ("/etc/ssl/certs/ca-certificates.crt", frozenset({"a"}), "ok"),
        ("/srv/empty.pem", frozenset(), "fail"),
        (None, frozenset(), "warn"),
    ],
)
def test_certificates_of_the_host(bundle: str | None, digests: frozenset[str], verdict: str) -> None:
    assert ca_check(HostFacts(engine(), NOW, ca_bundle=bundle, ca_digests=digests)).verdict == verdict


PROXY = "http://someone:pa55word@proxy.example:3128"
BOTH = {"HTTPS_PROXY": PROXY, "https_proxy": PROXY}


@pytest.mark.parametrize(
    ("variables", "subject", "verdict"),
    [
        ({}, "host", "ok"),
        ({"NO_PROXY": "localhost"}, "web", "ok"),
        ({**BOTH, "NO_PROXY": "localhost, 127.0.0.1", "no_proxy": "localhost, 127.0.0.1"}, "web", "ok"),
        ({**BOTH, "no_proxy": "localhost,127.0.0.1,.internal.example"}, "web", "ok"),
        ({**BOTH, "NO_PROXY": ".internal.example"}, "web", "fail"),
        ({**BOTH, "NO_PROXY": "127.0.0.1"}, "host", "warn"),
        (BOTH, "web", "fail"),
        ({**BOTH, "HTTPS_PROXY": "http://other.example", "NO_PROXY": "localhost,127.0.0.1"}, "web", "warn"),
    ],
)
def test_a_proxy_must_leave_loopback_alone(variables: dict[str, str], subject: str, verdict: str) -> None:
    check = proxy_check(subject, variables)
    assert check.verdict == verdict
    assert "pa55word" not in check.seen + check.todo


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        (
            {"kernel.apparmor_restrict_unprivileged_userns": 1},
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ({"kernel.unprivileged_userns_clone": 0}, "kernel.unprivileged_userns_clone=1"),
        ({"user.max_user_namespaces": 0}, "user.max_user_namespaces=15000"),
    ],
)
def test_a_kernel_that_restricts_user_namespaces(settings: dict[str, int], remedy: str) -> None:
    free = {"kernel.apparmor_restrict_unprivileged_userns": 0, "user.max_user_namespaces": 96365}
    [check] = user_namespace_checks({**free, **settings})
    [(name, value)] = settings.items()
    assert check.verdict == "warn"
    assert check.seen.startswith(f"{name} is {value}: ")
    assert f"`sysctl -w {remedy}`" in check.todo
    assert list(user_namespace_checks(free)) == []
    assert list(user_namespace_checks({})) == []


def test_all_settings_that_restrict_user_namespaces_are_told_at_once() -> None:
    [check] = user_namespace_checks({"user.max_user_namespaces": 0, "kernel.unprivileged_userns_clone": 0})
    assert check.seen.startswith("kernel.unprivileged_userns_clone is 0, user.max_user_namespaces is 0: ")


def test_every_value_of_the_configuration_comes_with_its_source() -> None:
    found = configuration_checks(
        {
            "memory": {"value": "4g", "source": "environment AGENTBOX_MEMORY"},
            "proxy": {"value": PROXY, "source": "~/.config/agentbox/config.yml"},
        }
    )
    assert [check.seen for check in found] == [
        "memory = 4g (from environment AGENTBOX_MEMORY)",
        "proxy = http://proxy.example:3128 (from ~/.config/agentbox/config.yml)",
    ]
