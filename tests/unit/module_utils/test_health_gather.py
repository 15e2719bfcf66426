"""Looking at files, ports and certificates of this very machine."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentbox._shared._errors import (
    EngineAbsentError,
    EngineDeniedError,
    EngineError,
    EngineStoppedError,
    EngineTimeoutError,
    EngineUnsupportedError,
)
from agentbox._shared._health_gather import (
    certificate_digests,
    engine_failure,
    free_space,
    hook_settings,
    mount_facts,
    path_kind,
    state_files,
    user_namespace_settings,
)
from agentbox._shared._health_page import page_facts
from agentbox._shared._hooks import managed_settings
from agentbox._shared._naming import HOOK_PORT, BoxPaths
from tests.unit.module_utils import health_samples as samples

MANIFEST: dict[str, Any] = {
    "name": "claude",
    "hooks": {
        "mechanism": "claude-managed-settings",
        "file": "managed-settings.d/50-agentbox.json",
        "timeout": 3,
        "http": ["Stop"],
        "command": ["SessionStart"],
    },
}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (EngineAbsentError("x"), "absent"),
        (EngineStoppedError("x"), "stopped"),
        (EngineDeniedError("x"), "denied"),
        (EngineTimeoutError("x"), "timeout"),
        (EngineUnsupportedError("x"), "unsupported"),
        (EngineError("x"), "error"),
    ],
)
def test_ways_in_which_an_engine_fails_are_told_apart(error: EngineError, kind: str) -> None:
    assert engine_failure(error).kind == kind


def test_space_is_that_of_the_place_where_a_directory_will_be(tmp_path: Path) -> None:
    space = free_space("state directory", str(tmp_path / "not" / "yet"))
    found = os.statvfs(tmp_path)
    assert space.free is not None
    assert abs(space.free - found.f_bavail * found.f_frsize) < 1 << 30


def test_kinds_of_paths(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    names = ["file", "link", "dangling", "pipe", "socket", ".", "gone", "file/below"]
    assert [path_kind(str(tmp_path / name), follow=False) for name in names] == [
        "file",
        "link",
        "link",
        "other",
        "socket",
        "directory",
        "missing",
        "missing",
    ]
    assert [path_kind(str(tmp_path / name), follow=True) for name in ("link", "dangling")] == ["file", "missing"]


def test_the_files_of_a_box_are_looked_at_themselves_and_not_what_they_link_to(tmp_path: Path) -> None:
    paths = BoxPaths(str(tmp_path), "web")
    Path(paths.mount).mkdir(parents=True)
    Path(paths.relay).mkdir(parents=True)
    for name in ("entry.sh", "tmux.conf", "passwd"):
        Path(paths.mount, name).touch()
    Path(paths.mount, "attach.sh").symlink_to("/bin/sh")
    Path(paths.mount, "box.json").mkdir()
    wrong = {Path(file.path).name: file.kind for file in state_files(paths) if file.kind != file.wanted}
    assert wrong == {"attach.sh": "link", "box.json": "directory"}


def test_only_bind_mounts_have_a_source_to_look_at(tmp_path: Path) -> None:
    inspect = {
        "Mounts": [
            {"Type": "bind", "Source": str(tmp_path), "Destination": "/workspace"},
            {"Type": "volume", "Name": "agentbox-web-home", "Destination": "/home/agent"},
            {"Type": "bind", "Source": str(tmp_path / "gone"), "Destination": "/x"},
        ]
    }
    assert [(mount.target, mount.kind) for mount in mount_facts(inspect, 0)] == [
        ("/workspace", "directory"),
        ("/x", "missing"),
    ]


def test_a_directory_that_was_made_anew_under_a_running_box(tmp_path: Path) -> None:
    """This very process stands for the box: it sees ``/`` as the host does."""
    mount = {"Type": "bind", "Source": str(tmp_path), "Destination": str(tmp_path)}
    other = {**mount, "Destination": "/"}
    same, moved = mount_facts({"Mounts": [mount, other]}, os.getpid())
    assert (same.same, moved.same) == (True, False)


def hooks_of(root: Path, content: str | None) -> Any:
    paths = BoxPaths(str(root), "web")
    path = Path(paths.agent_settings("claude"), MANIFEST["hooks"]["file"])
    path.parent.mkdir(parents=True)
    if content is not None:
        path.write_text(content, encoding="utf-8")
    box = replace(samples.EXPECTED, manifests={"claude": MANIFEST})
    return hook_settings(box, paths)[0]


def test_hook_settings_as_agentbox_writes_them(tmp_path: Path) -> None:
    found = hooks_of(tmp_path, json.dumps(managed_settings(MANIFEST, HOOK_PORT), indent=7))
    assert (found.found, found.problem) == (found.wanted, "")


@pytest.mark.parametrize(("content", "problem"), [(None, "is missing"), ("{", "is not JSON")])
def test_hook_settings_that_cannot_be_read(tmp_path: Path, content: str | None, problem: str) -> None:
    assert hooks_of(tmp_path, content).problem == problem


def test_an_agent_without_hooks_has_no_settings(tmp_path: Path) -> None:
    assert hook_settings(samples.EXPECTED, BoxPaths(str(tmp_path), "web")) == ()


def pem(*bodies: bytes) -> str:
    blocks = (base64.encodebytes(body).decode() for body in bodies)
    return "".join(f"# note\n-----BEGIN CERTIFICATE-----\n{block}-----END CERTIFICATE-----\n" for block in blocks)


def test_certificates_are_compared_by_what_they_are() -> None:
    one, two = b"1" * 200, b"2" * 200
    assert certificate_digests(pem(one, two)) == certificate_digests(pem(two, one, two).replace("\n", "\r\n"))
    assert len(certificate_digests(pem(one, two))) == 2


def test_what_is_no_certificate_is_left_out() -> None:
    assert certificate_digests("-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n") == frozenset()
    assert certificate_digests("") == frozenset()


# --- who answers at an address --------------------------------------------------------------------------------------


@contextmanager
def answering(answer: bytes | None) -> Iterator[tuple[str, int]]:
    """An address that answers every connection with ``answer``, with silence when that is None."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address: tuple[str, int] = server.getsockname()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                if answer is None:
                    connection.recv(1)  # until the other side gives up
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield address
        thread.join(10)


def http(status: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n{body}".encode()


def test_a_free_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    assert page_facts(address, []).taken is None


@pytest.mark.parametrize(
    ("answer", "healthy", "reason"),
    [
        (http("200 OK", '{"state": "ok", "reasons": []}'), True, ""),
        (http("200 OK", '{"state": "degraded", "reasons": ["the lead has ended"]}'), True, "the lead has ended"),
        (http("503 Service Unavailable", '{"state": "down", "reasons": ["lost", "late"]}'), False, "lost; late"),
    ],
)
def test_a_box_observer(answer: bytes, healthy: bool, reason: str) -> None:
    with answering(answer) as address:
        page = page_facts(address, [])
    assert (page.ours, page.healthy, page.reason) == (True, healthy, reason)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (http("200 OK", "<html>"), "status 200 and no health report"),
        (http("200 OK", '{"reasons": []}'), "status 200 and no health report"),
        (http("404 Not Found", '{"state": "ok", "reasons": []}'), "status 404 and no health report"),
        (http("200 OK", "[" * 50_000), "status 200 and no health report"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
        (b"HTTP/1.1", "does not speak HTTP"),
        (b"", "does not speak HTTP"),
        (None, "timed out"),
    ],
)
def test_something_else(answer: bytes | None, reason: str) -> None:
    with answering(answer) as address:
        page = page_facts(address, [])
    assert not page.ours
    assert reason in page.reason
    assert f"{address[0]}:{address[1]} is taken by" in str(page.taken)


def test_settings_of_user_namespaces_from_a_recorded_tree(tmp_path: Path) -> None:
    """Ubuntu's kernel has the first, Debian's the second; what is no number counts as not there."""
    recorded = {"kernel/apparmor_restrict_unprivileged_userns": "1\n", "user/max_user_namespaces": "96365\n"}
    for name, text in {**recorded, "kernel/unprivileged_userns_clone": ""}.items():
        path = tmp_path / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    assert user_namespace_settings(tmp_path) == {
        "kernel.apparmor_restrict_unprivileged_userns": 1,
        "user.max_user_namespaces": 96365,
    }


def test_a_kernel_without_user_namespaces_is_seen_live() -> None:
    """In a user namespace of the test's own no other may be made; what such programs meet is what is told."""
    script = (
        "from agentbox._shared._health_gather import user_namespace_settings\n"
        "from agentbox._shared._health_host import user_namespace_checks\n"
        "print([check.seen for check in user_namespace_checks(user_namespace_settings())])\n"
    )
    shell = 'echo 0 > /proc/sys/user/max_user_namespaces; unshare --user true && exit 9; exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", shell, sys.executable, script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "user.max_user_namespaces is 0: an agent's own sandbox" in done.stdout
