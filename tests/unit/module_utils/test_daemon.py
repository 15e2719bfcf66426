"""The daemon as a service: who made it, and whose process a pid file names."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbox._shared import _daemon
from agentbox._shared._errors import EngineError


@pytest.fixture
def sleeping() -> Iterator[int]:
    """The number of a real process that is no engine."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.terminate()


@pytest.fixture
def paths(tmp_path: Path) -> _daemon.HostPaths:
    """A host with no systemd, whose processes are this machine's."""
    return _daemon.HostPaths(
        systemd=tmp_path / "systemd",
        init_script=tmp_path / "init",
        pid_file=tmp_path / "docker.pid",
        service_pid_file=tmp_path / "docker-ssd.pid",
        containerd_pid_file=tmp_path / "containerd.pid",
        log=tmp_path / "docker.log",
    )


@pytest.mark.parametrize(
    ("state", "package", "own_source", "provider"),
    [
        ("absent", None, True, "none"),
        ("running", "docker.io", False, "distribution"),
        ("stopped", "docker.io", True, "distribution"),
        ("running", "docker-ce", True, "upstream"),
        ("stopped", "docker-ce", False, "other"),
        ("running", None, True, "other"),
        ("denied", None, False, "other"),
    ],
)
def test_an_engine_is_ours_only_if_its_package_and_source_are(
    state: str, package: str | None, own_source: bool, provider: str
) -> None:
    assert _daemon.provider(state, package, own_source) == provider


def test_a_file_of_a_package_names_it() -> None:
    assert _daemon.owning_package("/usr/bin/dpkg") == "dpkg"


def test_a_file_of_no_package_names_none(tmp_path: Path) -> None:
    assert _daemon.owning_package(str(tmp_path)) is None


@pytest.mark.parametrize("content", ["", "x", "99999999", "-1"])
def test_a_pid_file_of_nobody_names_no_engine(paths: _daemon.HostPaths, content: str) -> None:
    paths.pid_file.write_text(content)
    assert _daemon.daemon_pid(paths.pid_file) is None


def test_a_number_that_another_program_got_is_no_engine(paths: _daemon.HostPaths, sleeping: int) -> None:
    paths.pid_file.write_text(f"{sleeping}\n")
    assert _daemon.daemon_pid(paths.pid_file) is None


def test_an_engine_whose_program_was_replaced_is_still_one(paths: _daemon.HostPaths, tmp_path: Path) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "exe").symlink_to("/usr/sbin/dockerd (deleted)")
    paths.pid_file.write_text("42")
    assert _daemon.daemon_pid(paths.pid_file, tmp_path) == 42


def test_stale_pid_files_are_removed_and_others_kept(paths: _daemon.HostPaths, tmp_path: Path, sleeping: int) -> None:
    for number, program in (("1", "dockerd"), ("2", "containerd")):
        (tmp_path / number).mkdir()
        (tmp_path / number / "exe").symlink_to(f"/usr/bin/{program}")
    paths.pid_file.write_text("1")
    paths.service_pid_file.write_text(str(sleeping))
    paths.containerd_pid_file.write_text("2")
    _daemon.remove_stale_pid_files(_daemon.HostPaths(**{**vars(paths), "proc": tmp_path}))
    assert paths.pid_file.exists()
    assert not paths.service_pid_file.exists()
    assert paths.containerd_pid_file.exists()


def test_another_process_is_never_stopped(paths: _daemon.HostPaths, sleeping: int) -> None:
    paths.pid_file.write_text(str(sleeping))
    assert not _daemon.stop_needed(paths)
    _daemon.stop(timeout=1, paths=paths)
    assert Path(f"/proc/{sleeping}").exists()


def test_only_the_systems_engine_can_be_started(tmp_path: Path) -> None:
    listener = tmp_path / "docker.sock"
    with pytest.raises(EngineError, match="not the system's engine"):
        _daemon.needs_start(f"unix://{listener}")


def test_the_life_of_a_daemon_ends_with_its_process(paths: _daemon.HostPaths, tmp_path: Path) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "exe").symlink_to("/usr/sbin/dockerd")
    (tmp_path / "42" / "stat").write_text("42 (a) name)) S " + " ".join(map(str, range(1, 40))))
    paths.pid_file.write_text("42")
    host = _daemon.HostPaths(**{**vars(paths), "proc": tmp_path})
    assert _daemon.life(host) == "42:19"
    (tmp_path / "42" / "exe").unlink()
    assert _daemon.life(host) is None


def test_data_is_what_directories_hold_and_these_stay(paths: _daemon.HostPaths, tmp_path: Path) -> None:
    (tmp_path / "data/overlay2/x").mkdir(parents=True)
    (tmp_path / "data/link").symlink_to("/etc")
    host = _daemon.HostPaths(**{**vars(paths), "data": tmp_path / "data", "containerd_data": tmp_path / "missing"})
    assert _daemon.data(host) == [tmp_path / "data"]
    _daemon.remove_data(_daemon.data(host))
    assert (tmp_path / "data").is_dir()
    assert _daemon.data(host) == []
    assert Path("/etc/passwd").exists()
