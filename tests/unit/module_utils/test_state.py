"""Files that hold: modes from the first byte, one run at a time, nothing half done."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from agentbox._shared._acl import users
from agentbox._shared._errors import LockedError, StateError
from agentbox._shared._state import (
    Directory,
    File,
    digester,
    directory_differs,
    ensure_directory,
    entries,
    file_differs,
    find,
    json_file,
    locked,
    read_file,
    read_json,
    remove_file,
    remove_tree,
    replace_link,
    shown,
    write_file,
)

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
UID = 12345


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture(autouse=True)
def _wide_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_directory_gets_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    wanted = Directory(str(tmp_path / "a" / "b"), 0o711)
    assert directory_differs(wanted)
    ensure_directory(wanted)
    assert mode(tmp_path / "a" / "b") == 0o711
    assert not directory_differs(wanted)
    (tmp_path / "a" / "b").chmod(0o777)
    assert directory_differs(wanted)
    ensure_directory(wanted)
    assert mode(tmp_path / "a" / "b") == 0o711


def test_a_file_gets_mode_and_content_and_keeps_them(tmp_path: Path) -> None:
    wanted = File(str(tmp_path / "f"), b"one", 0o640)
    assert file_differs(wanted)
    write_file(wanted)
    inode = (tmp_path / "f").stat().st_ino
    assert (mode(tmp_path / "f"), (tmp_path / "f").read_bytes()) == (0o640, b"one")
    assert not file_differs(wanted)
    (tmp_path / "f").chmod(0o644)
    assert file_differs(wanted)
    write_file(wanted)
    assert mode(tmp_path / "f") == 0o640
    assert (tmp_path / "f").stat().st_ino != inode, "replaced, never written in place"
    assert names(tmp_path) == ["f"]


def test_a_link_is_replaced_whatever_was_there(tmp_path: Path) -> None:
    link = tmp_path / "link"
    (tmp_path / ".link.new").write_text("left by a killed run", encoding="utf-8")
    for target in ("one", "two"):
        replace_link(link, target)
        assert str(link.readlink()) == target
    link.unlink()
    (link / "below").mkdir(parents=True)
    replace_link(link, "target")
    assert str(link.readlink()) == "target"
    assert names(tmp_path) == ["link"]


def test_a_link_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=f"cannot link {tmp_path}/missing/link"):
        replace_link(tmp_path / "missing/link", "target")


@ROOT_ONLY
def test_a_secret_belongs_to_the_box_uid(tmp_path: Path) -> None:
    ensure_directory(Directory(str(tmp_path / "s"), 0o500, UID))
    wanted = File(str(tmp_path / "s" / "TOKEN"), b"x", 0o400, UID, secret=True)
    write_file(wanted)
    found = (tmp_path / "s" / "TOKEN").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o400, UID)
    os.chown(tmp_path / "s" / "TOKEN", 0, 0)
    assert file_differs(wanted)


@ROOT_ONLY
def test_an_ordinary_owner_writes_into_its_read_only_directory(open_place: Path) -> None:
    script = """
import os, sys
from agentbox._shared._state import Directory, File, ensure_directory, remove_file, remove_tree, write_file
os.setgid(12345); os.setuid(12345)
ensure_directory(Directory(sys.argv[1], 0o500))
write_file(File(sys.argv[1] + "/A", b"1", 0o400))
write_file(File(sys.argv[1] + "/A", b"2", 0o400))
write_file(File(sys.argv[1] + "/B", b"3", 0o400))
remove_file(sys.argv[1] + "/B")
print(oct(os.stat(sys.argv[1]).st_mode & 0o777), os.listdir(sys.argv[1]), open(sys.argv[1] + "/A").read())
remove_tree(sys.argv[1])
print(os.path.exists(sys.argv[1]))
"""
    os.chown(open_place, UID, UID)
    done = subprocess.run(
        [sys.executable, "-c", script, str(open_place / "secrets")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["0o500 ['A'] 2", "False"], done.stderr


@pytest.mark.parametrize("obstacle", ["directory", "link", "dangling link", "fifo"])
def test_what_is_no_file_is_named_and_left_alone(tmp_path: Path, obstacle: str) -> None:
    target = tmp_path / "f"
    _place(obstacle, target, tmp_path / "elsewhere")
    with pytest.raises(StateError) as caught:
        write_file(File(str(target), b"new", 0o600))
    assert str(target) in str(caught.value)
    assert target.is_symlink() == ("link" in obstacle)
    assert not (tmp_path / "elsewhere").exists() or (tmp_path / "elsewhere").read_bytes() == b"old"


@pytest.mark.parametrize("obstacle", ["file", "link", "dangling link"])
def test_what_is_no_directory_is_named_and_left_alone(tmp_path: Path, obstacle: str) -> None:
    target = tmp_path / "d"
    _place(obstacle, target, tmp_path / "elsewhere")
    with pytest.raises(StateError) as caught:
        ensure_directory(Directory(str(target), 0o700))
    assert f"{target} is a " in str(caught.value)


def test_a_parent_that_is_no_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(b"old")
    with pytest.raises(StateError, match=r"a parent of .*/d/below is no directory"):
        directory_differs(Directory(str(tmp_path / "d" / "below"), 0o700))


def _place(obstacle: str, target: Path, elsewhere: Path) -> None:
    if obstacle == "directory":
        target.mkdir()
    elif obstacle == "file":
        target.write_bytes(b"old")
    elif obstacle == "fifo":
        os.mkfifo(target)
    else:
        if obstacle == "link":
            elsewhere.write_bytes(b"old")
        target.symlink_to(elsewhere)


def test_what_a_killed_run_left_does_not_stop_the_next(tmp_path: Path) -> None:
    (tmp_path / ".f.new").write_bytes(b"half")
    write_file(File(str(tmp_path / "f"), b"whole", 0o600))
    assert names(tmp_path) == ["f"]


@ROOT_ONLY
def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "abx-test", str(disk)], check=True)
    try:
        write_file(File(str(disk / "f"), b"old", 0o600))
        with pytest.raises(StateError) as caught:
            write_file(File(str(disk / "f"), b"x" * 200_000, 0o600))
        assert str(caught.value) == f"cannot write {disk / 'f'}: No space left on device. Free some space"
        assert (disk / "f").read_bytes() == b"old"
        assert names(disk) == ["f"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_reading(tmp_path: Path) -> None:
    path = str(tmp_path / "r.json")
    assert read_file(path) is None
    assert read_json(path) is None
    write_file(json_file(path, {"b": 1, "a": [2]}, 0o600))
    assert read_json(path) == {"a": [2], "b": 1}
    write_file(File(path, b'{"cut', 0o600))
    assert read_json(path) is None
    remove_file(path)
    remove_file(path)
    assert read_file(path) is None


def test_a_tree_goes_and_what_it_links_to_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "tree" / "below").mkdir(parents=True)
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    remove_tree(str(tmp_path / "tree"))
    remove_tree(str(tmp_path / "tree"))
    assert names(tmp_path) == ["kept"]


def test_digests_are_keyed_and_stable(tmp_path: Path) -> None:
    unkept = digester(str(tmp_path), create=False)
    assert names(tmp_path) == []
    first = digester(str(tmp_path), create=True)
    assert mode(tmp_path / "digest.key") == 0o600
    again = digester(str(tmp_path), create=False)
    assert first.digest("a", "T", "x") == again.digest("a", "T", "x")
    assert (
        len({first.digest(*args) for args in (("a", "T", "x"), ("b", "T", "x"), ("a", "U", "x"), ("a", "T", "y"))}) == 4
    )
    assert unkept.digest("a", "T", "x") == ""


def test_a_diff_shows_a_change_and_no_content(tmp_path: Path) -> None:
    digest = digester(str(tmp_path), create=True).of_bytes
    ensure_directory(Directory(str(tmp_path / "d"), 0o700))
    wanted = File(str(tmp_path / "d" / "T"), b"canary", 0o400, secret=True)
    metadata = f"file, mode 0400, uid {os.geteuid()}"
    assert shown(wanted, find(wanted), digest) == (None, metadata)
    write_file(File(wanted.path, b"older canary", 0o400, secret=True))
    older, after = shown(wanted, find(wanted), digest)
    assert older is not None
    assert older != after
    assert older.startswith(f"{metadata}, content ")
    assert "canary" not in older + after
    without_key = digester(str(tmp_path / "none"), create=False).of_bytes
    assert shown(wanted, find(wanted), without_key) == (metadata, metadata)
    directory = Directory(str(tmp_path / "d"), 0o711)
    assert shown(directory, find(directory), digest) == (
        f"directory, mode 0700, uid {os.geteuid()}",
        f"directory, mode 0711, uid {os.geteuid()}",
    )


def test_a_file_that_is_mounted_alone_stays_the_same_file(tmp_path: Path) -> None:
    """Who has mounted it sees the repair; nothing of a longer content is left."""
    path = tmp_path / "passwd"
    wanted = File(str(path), b"short\n", 0o644, mounted_alone=True)
    write_file(wanted)
    before = path.stat().st_ino
    path.write_bytes(b"something longer\n")
    path.chmod(0o400)
    write_file(wanted)
    assert (path.stat().st_ino, path.read_bytes(), file_differs(wanted)) == (before, wanted.content, False)


def _hold(state_dir: str, told: Connection) -> None:
    with locked(state_dir, "another converge", 1):
        told.send("held")
        signal.pause()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[multiprocessing.Process]:
    """A process that holds the lock of ``tmp_path``."""
    context = multiprocessing.get_context("fork")
    hears, tells = context.Pipe(duplex=False)
    process = context.Process(target=_hold, args=(str(tmp_path), tells))
    process.start()
    assert hears.recv() == "held"
    yield process  # type: ignore[misc]
    process.kill()
    process.join()


def test_a_second_run_waits_and_then_names_who_holds_the_lock(tmp_path: Path, holder: multiprocessing.Process) -> None:
    with pytest.raises(LockedError) as caught, locked(str(tmp_path), "mine", 0.3):
        pytest.fail("two runs at once")
    assert f"process {holder.pid} (another converge, since 2" in str(caught.value)
    assert str(tmp_path / "lock") in str(caught.value)


def test_a_killed_holder_frees_the_lock(tmp_path: Path, holder: multiprocessing.Process) -> None:
    holder.kill()
    holder.join()
    with locked(str(tmp_path), "mine", 5):
        assert mode(tmp_path / "lock") == 0o600


def test_a_lock_that_went_with_its_holder_is_taken_anew(tmp_path: Path, holder: multiprocessing.Process) -> None:
    """Who removes the state directory removes the lock while others wait for it; they must not share the new one."""

    def remove() -> None:
        (tmp_path / "lock").unlink()
        holder.kill()

    timer = threading.Timer(0.5, remove)
    timer.start()
    with locked(str(tmp_path), "mine", 10):
        assert (tmp_path / "lock").exists()
        with pytest.raises(LockedError), locked(str(tmp_path), "another's", 0):
            pytest.fail("two runs at once")
    timer.join()


def test_entries_of_a_directory(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
    assert entries(str(tmp_path)) == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert entries(str(tmp_path / "none")) == []


def test_the_kernels_form_of_a_list() -> None:
    """As ``setfacl -m u:1000:rwX,u:1001:rwx,m::rx`` leaves it: version, then tag, bits and id of every entry."""
    entries = [
        (1, 7, 0xFFFFFFFF),
        (2, 7, 1000),
        (2, 5, 1001),
        (4, 5, 0xFFFFFFFF),
        (16, 5, 0xFFFFFFFF),
        (32, 5, 0xFFFFFFFF),
    ]
    raw = (2).to_bytes(4, "little") + b"".join(
        tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + uid.to_bytes(4, "little") for tag, bits, uid in entries
    )
    assert users(raw) == {1000: 5, 1001: 5}
