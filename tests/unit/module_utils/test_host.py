"""Facts of a host, read from real files, sockets and access control lists."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentbox._shared import _acl, _host
from agentbox._shared._errors import AgentboxError
from agentbox._shared._ports import HostPort

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
UID = 12345


@contextmanager
def without_lists(place: Path) -> Iterator[Path]:
    """A file system without access control lists, mounted at ``place``."""
    place.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "abx-test", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


class TestPort:
    def test_a_free_one(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        assert _host.port_problem(HostPort("127.0.0.1", port)) is None

    @pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
    def test_a_taken_one_names_the_program(self, family: socket.AddressFamily, address: str) -> None:
        with socket.create_server((address, 0), family=family) as server:
            publish = HostPort(address, server.getsockname()[1])
            problem = _host.port_problem(publish)
        assert problem is not None
        assert problem.startswith(f"{publish} is taken by ")
        assert f"(process {os.getpid()})" in problem

    def test_a_taken_one_of_datagrams(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            port = server.getsockname()[1]
            problem = _host.port_problem(HostPort("127.0.0.1", port, "udp"))
            assert _host.port_problem(HostPort("127.0.0.2", port, "udp")) is None
        assert problem is not None
        assert problem.startswith(f"127.0.0.1:{port}/udp is taken by ")
        assert f"(process {os.getpid()})" in problem

    def test_an_address_of_another_machine(self) -> None:
        problem = _host.port_problem(HostPort("192.0.2.1", 4317))
        assert problem == "nothing can listen on 192.0.2.1:4317: Cannot assign requested address"


class TestPerson:
    def test_a_declared_home(self) -> None:
        assert _host.person("/home/dev", {}).home == "/home/dev"

    @ROOT_ONLY
    def test_root_alone_and_through_sudo(self) -> None:
        alone = _host.person(None, {})
        assert (alone.home, alone.uid) == ("/root", 1000)
        assert _host.person("", {"SUDO_UID": str(UID)}).uid == UID
        assert _host.person(None, {"SUDO_UID": "0"}).uid == 1000
        assert _host.person(None, {"SUDO_UID": "x"}).uid == 1000

    @ROOT_ONLY
    def test_a_uid_without_an_account(self) -> None:
        assert _host.person(None, {"SUDO_UID": str(UID), "HOME": "/somewhere"}).home == "/somewhere"


class TestIdentity:
    def test_nothing_is_there(self, tmp_path: Path) -> None:
        assert _host.identity(str(tmp_path), git=True, gh=True) == _host.Identity()
        assert _host.identity(str(tmp_path / "none"), git=True, gh=True) == _host.Identity()

    def test_what_is_there_and_wanted(self, tmp_path: Path) -> None:
        (tmp_path / "dotfiles").mkdir()
        (tmp_path / "dotfiles/gitconfig").touch()
        (tmp_path / ".gitconfig").symlink_to("dotfiles/gitconfig")
        (tmp_path / ".config/gh").mkdir(parents=True)
        found = _host.identity(str(tmp_path), git=True, gh=True)
        assert found == _host.Identity(str(tmp_path / "dotfiles/gitconfig"), str(tmp_path / ".config/gh"))
        assert _host.identity(str(tmp_path), git=False, gh=False) == _host.Identity()

    @ROOT_ONLY
    def test_a_link_to_somebody_elses_file_is_not_followed(self, tmp_path: Path) -> None:
        os.chown(tmp_path, UID, UID)
        (tmp_path / ".gitconfig").symlink_to("/etc/shadow")
        assert _host.identity(str(tmp_path), git=True, gh=True) == _host.Identity()


class TestMount:
    def test_an_ordinary_directory(self, tmp_path: Path) -> None:
        assert _host.mount_problem(str(tmp_path), ()) is None

    def test_what_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("/proc")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "s"))
            expected = {
                str(tmp_path / "none"): "does not exist",
                str(tmp_path / "s"): "is a socket",
                str(tmp_path / "link"): "holds or lies in /proc",
                "/": "holds or lies in /dev",
                "/run": "holds or lies in /run",
                str(tmp_path.parent): f"holds or lies in {tmp_path}",
            }
            for source, reason in expected.items():
                assert reason in str(_host.mount_problem(source, [str(tmp_path)])), source


def test_a_workspace_is_seen_through_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    facts = _host.workspace_facts(str(tmp_path / "link"))
    assert (facts.path, facts.owner, facts.is_directory) == (str(tmp_path / "real"), os.geteuid(), True)
    missing = _host.workspace_facts(str(tmp_path / "none"))
    assert (missing.owner, missing.is_directory) == (None, False)


class TestAcl:
    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Path:
        workspace = tmp_path / "-odd name, ü"
        (workspace / "below").mkdir(parents=True)
        (workspace / "below/file").touch(mode=0o644)
        (tmp_path / "outside").touch(mode=0o600)
        (workspace / "link").symlink_to("../outside")
        return workspace

    def test_granting_reaches_all_below_and_what_comes_later(self, workspace: Path) -> None:
        assert _acl.read(str(workspace)).lacks([UID])
        _acl.grant(str(workspace), [UID])
        assert not _acl.read(str(workspace)).lacks([UID])
        (workspace / "below/later").mkdir()
        assert not _acl.read(str(workspace / "below/later")).lacks([UID])
        shown = subprocess.run(
            ["getfacl", "--numeric", "--omit-header", "--", str(workspace / "below/file")],
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"user:{UID}:rw-" in shown.stdout.split()
        assert workspace.stat().st_uid == os.geteuid()

    def test_links_lead_nowhere(self, workspace: Path) -> None:
        _acl.grant(str(workspace), [UID])
        assert (workspace.parent / "outside").stat().st_mode & 0o777 == 0o600

    @ROOT_ONLY
    def test_a_grant_that_was_only_begun_is_taken_up(self, workspace: Path) -> None:
        """The directory itself comes last: as long as something below could not be done, it lacks its entries."""
        with without_lists(workspace / "obstacle"), pytest.raises(AgentboxError):
            _acl.grant(str(workspace), [UID])
        assert _acl.read(str(workspace)).lacks([UID])
        _acl.grant(str(workspace), [UID])
        assert not _acl.read(str(workspace)).lacks([UID])

    @ROOT_ONLY
    def test_a_file_system_without_lists(self, tmp_path: Path) -> None:
        with without_lists(tmp_path / "ramfs") as place:
            assert _acl.read(str(place)).supported is False
            with pytest.raises(AgentboxError, match=r"cannot set an access control list .*ramfs: .*not supported"):
                _acl.grant(str(place), [UID])


def test_the_time_zone_of_the_host(tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    assert _host.timezone(tmp_path) == "Etc/UTC"
    (etc / "timezone").write_text("Asia/Tokyo\n")
    (etc / "localtime").write_bytes(b"TZif2, a copy")
    assert _host.timezone(tmp_path) == "Asia/Tokyo"
    (etc / "localtime").unlink()
    (etc / "localtime").symlink_to("/usr/share/zoneinfo/America/Argentina/Ushuaia")
    assert _host.timezone(tmp_path) == "America/Argentina/Ushuaia"
