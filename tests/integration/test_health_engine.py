"""Health of a host whose engine is absent, stopped, denied, hanging or not one: told apart, and never waited for."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration import engines, runs
from tests.integration.sites import Site, manifests

BECOME = {"become": True, "become_method": "ansible.builtin.su", "become_user": "nobody", "become_flags": "-s /bin/sh"}
SYSTEM_PYTHON = {"ansible_python_interpreter": "/usr/bin/python3"}


@pytest.fixture
def site(place: Path) -> Site:
    return Site(engines.new_instance_name(), place)


def task(site: Site, host: str | None = None, keywords: dict[str, Any] | None = None, **options: Any) -> runs.Task:
    """A look at one declared box of an instance that has none."""
    args = {
        "instance": site.instance,
        "state_root": str(site.state_root),
        "manifests": manifests(),
        "boxes": [site.box("one")],
        "wait": 60,  # nothing here can be cured by waiting
        **({"docker_host": host} if host else {}),
        **options,
    }
    return runs.module_task("health", args, **(keywords or {}))


def check(result: runs.Result, check_id: str, subject: str = "host") -> dict[str, str]:
    found: dict[str, str] = next(
        check for check in result["checks"] if (check["id"], check["subject"]) == (check_id, subject)
    )
    return found


def assert_only_the_engine_is_known(result: runs.Result, verdict: str, kind: str, *parts: str) -> None:
    engine = check(result, "engine")
    assert engine["verdict"] == verdict
    assert engine["seen"].startswith(f"{kind}: ")
    for part in parts:
        assert part in engine["seen"]
    assert engine["todo"]
    dependent = [found for found in result["checks"] if found["subject"] == "one" or found["id"].startswith("image")]
    assert len(dependent) > 10
    assert {found["verdict"] for found in dependent} == {"unknown"}
    assert {found["seen"] for found in dependent} == {f"the engine is not reachable ({kind})"}
    assert result["verdict"] == verdict


def assert_failed(result: runs.Result, kind: str, *parts: str) -> None:
    assert result["failed"] is True
    assert f"host: engine: {kind}: " in result["msg"]
    assert_only_the_engine_is_known(result, "fail", kind, *parts)


def assert_undecided(run: runs.Run, index: int, kind: str, *parts: str) -> None:
    result = run.results[index]
    assert not result.get("failed")
    assert "can't be decided" in run.output
    assert_only_the_engine_is_known(result, "unknown", kind, *parts)


def test_stopped(site: Site, second_engine: engines.SecondEngine) -> None:
    second_engine.stop()
    try:
        result = runs.play([task(site, second_engine.host)]).results[0]
    finally:
        second_engine.start()
    assert_failed(result, "stopped", str(second_engine.socket))


def test_crashed(site: Site, second_engine: engines.SecondEngine) -> None:
    second_engine.crash()
    try:
        result = runs.play([task(site, second_engine.host)]).results[0]
    finally:
        second_engine.start()
    assert_failed(result, "stopped", str(second_engine.socket))


def test_denied(site: Site, second_engine: engines.SecondEngine) -> None:
    """Another user runs the module; the engine's socket is root's."""
    second_engine.socket.chmod(0o600)
    run = runs.play([task(site, second_engine.host, BECOME)], variables=SYSTEM_PYTHON)
    assert_undecided(run, 0, "denied", str(second_engine.socket))


def test_hanging(site: Site, second_engine: engines.SecondEngine, place: Path) -> None:
    """A stopped process still accepts connections; so does a socket that nobody ever reads."""
    path = place / "silent.sock"
    start = time.monotonic()
    with second_engine.hanging(), socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        run = runs.play([task(site, second_engine.host), task(site, f"unix://{path}")])
    assert time.monotonic() - start < 60
    assert_undecided(run, 0, "timeout", str(second_engine.socket))
    assert_undecided(run, 1, "timeout", str(path))


def test_absent(site: Site, place: Path) -> None:
    """A failure, unless this run would install the engine."""
    predicted = task(site, engine_absent="predict", keywords={"check_mode": True})
    results = runs.play([task(site), predicted], prefix=engines.without_engine(place)).results
    assert_failed(results[0], "absent", "no engine is installed")
    assert not results[1].get("failed"), results[1]
    assert results[1]["verdict"] == "unknown"
    assert "would install it" in check(results[1], "engine")["seen"]


def test_an_engine_without_the_image_and_the_box(site: Site, second_engine: engines.SecondEngine) -> None:
    """What is missing is a failure, and no failure in check mode, where this run would make it."""
    real, predicted = runs.play(
        [task(site, second_engine.host), task(site, second_engine.host, {"check_mode": True})]
    ).results
    assert real["failed"] is True
    assert "host: image: there is no image agentbox-test-standin:latest" in real["msg"]
    assert f"one: state: there is no container {site.container('one')}" in real["msg"]
    assert check(real, "image-agents")["verdict"] == "unknown"
    assert not predicted.get("failed"), predicted
    assert predicted["verdict"] == "unknown"
    assert predicted["counts"]["fail"] == 0


@contextmanager
def engine_that_says(path: Path, version: dict[str, Any]) -> Iterator[str]:
    """Something on a socket that answers every request as an engine of this ``version`` does."""
    body = json.dumps(version).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"unix://{path}"


NO_ENGINES: dict[str, tuple[dict[str, Any], str, str]] = {
    "old": ({"Version": "19.03.15", "ApiVersion": "1.40", "MinAPIVersion": "1.12"}, "unsupported", "API 1.40"),
    "odd": ({"Version": "?", "ApiVersion": "newest"}, "error", "no usable API version"),
    "web": ({"hello": "world"}, "error", "no usable API version"),
}


def test_engines_that_are_too_old_elsewhere_or_none(site: Site, place: Path) -> None:
    elsewhere = "tcp://192.0.2.1:2375"
    with ExitStack() as stack:
        hosts = [
            stack.enter_context(engine_that_says(place / f"{name}.sock", version))
            for name, (version, _, _) in NO_ENGINES.items()
        ]
        results = runs.play([task(site, host) for host in [*hosts, elsewhere]]).results
    for result, (_, kind, seen) in zip(results, NO_ENGINES.values(), strict=False):
        assert_failed(result, kind, seen)
    assert_failed(results[-1], "unsupported", elsewhere)


def test_options(site: Site) -> None:
    """The caller may judge for itself; a wrong declaration names its key."""
    wrong = {"boxes": [{"name": "one", "memori": "4g"}], "manifests": manifests()}
    judged, refused = runs.play(
        [task(site, "unix:///nonexistent/engine.sock", fail_on="never"), runs.module_task("health", wrong)]
    ).results
    assert not judged.get("failed")
    assert judged["verdict"] == "fail"
    assert refused["failed"] is True
    assert "boxes[0].memori: unknown key, did you mean memory?" in refused["msg"]
