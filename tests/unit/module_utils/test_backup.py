"""Backups that nobody vouches for: what is wrong with one is found before anything is made from it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.agentbox.fleet.plugins.module_utils import _backup
from ansible_collections.agentbox.fleet.plugins.module_utils._backup_tar import BackupError

MANIFEST: dict[str, Any] = {
    "format": 1,
    "box": "web",
    "instance": "agentbox",
    "created": "2026-01-31T08:15:00Z",
    "declaration": {"lead": None, "agents": ["tool"], "memory": 1 << 30, "mounts": [{"source": "/etc"}], "ports": []},
    "image": "agentbox:latest",
    "context": "sha256:0",
    "left_out": {"logins": [".tool/login"], "secrets": ["TOKEN"]},
}
Change = Callable[[list[tuple[tarfile.TarInfo, bytes]]], object]


def member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def directory(name: str, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE, **{"mode": 0o755, **fields})


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=kind, linkname=target)


def sound() -> list[tuple[tarfile.TarInfo, bytes]]:
    return [
        member("manifest.json", json.dumps(MANIFEST).encode()),
        member("secrets/TOKEN", b"value"),
        directory("home"),
        directory("home/.tool"),
        member("home/.tool/" + "long" * 60, b"talk" * 1000),
        member("home/.tool/\udcff\n", b"odd"),
        member("home/.tool/empty"),
        link("home/.tool/latest", "/home/agent/.tool/empty"),
        link("home/again", "home/.tool/empty", tarfile.LNKTYPE),
    ]


def sums(members: list[tuple[tarfile.TarInfo, bytes]]) -> tuple[tarfile.TarInfo, bytes]:
    found = {
        info.name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for info, content in members
        if info.isreg()
    }
    return member("checksums.json", json.dumps(found).encode())


def tar(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Written by Python's own library, not by the code under test."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def write(place: Path, content: bytes) -> str:
    path = place / "web.agentbox.tar.gz"
    path.write_bytes(gzip.compress(content, 1, mtime=0))
    return str(path)


def good(place: Path) -> str:
    members = sound()
    return write(place, tar([*members, sums(members)]))


def test_a_sound_backup_is_read_whole(tmp_path: Path) -> None:
    path = good(tmp_path)
    found = _backup.inspect(path)
    assert found.manifest.box == "web"
    assert found.secrets == {"TOKEN": "value"}
    assert "value" not in repr(found)
    assert found.files == 4
    assert found.size > 4000
    assert found.digest == f"sha256:{hashlib.sha256(Path(path).read_bytes()).hexdigest()}"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        pytest.param([member("/etc/passwd", b"x")], "leads out", id="absolute"),
        pytest.param([member("home/../../etc/passwd", b"x")], "leads out", id="dots"),
        pytest.param([member("home/.tool/../x", b"x")], "leads out", id="dots inside"),
        pytest.param([member("home/./x", b"x")], "leads out", id="dot"),
        pytest.param([member("other", b"x")], "leads out", id="beside"),
        pytest.param([member("homes", b"x")], "leads out", id="looks like it"),
        pytest.param([member("home/none/x", b"x")], "in no directory", id="no parent"),
        pytest.param([link("home/l", ".tool"), member("home/l/x", b"x")], "in no directory", id="through a link"),
        pytest.param([member("home/.tool/empty/x", b"x")], "in no directory", id="below a file"),
        pytest.param([link("home/l", "/etc")], "leads out of HOME", id="absolute link"),
        pytest.param([link("home/l", "../..")], "leads out of HOME", id="link upwards"),
        pytest.param([link("home/.tool/l", "../../x")], "leads out of HOME", id="link upwards from below"),
        pytest.param([link("home/l", "")], "leads out of HOME", id="link to nothing"),
        pytest.param([link("home/l", "/home/agent2")], "leads out of HOME", id="another home"),
        pytest.param([link("home/l", "/home/agent/../root")], "leads out of HOME", id="upwards from HOME"),
        # .tool may be a link on its host, whose parent is anywhere.
        pytest.param([link("home/l", ".tool/../..")], "leads out of HOME", id="upwards behind a name"),
        pytest.param([link("home/l", "home/nothing", tarfile.LNKTYPE)], "no file before", id="hard link to nothing"),
        pytest.param([link("home/l", "../x", tarfile.LNKTYPE)], "no file before", id="hard link upwards"),
        pytest.param([link("home/l", "secrets/TOKEN", tarfile.LNKTYPE)], "no file before", id="hard link to a secret"),
        pytest.param([link("home/l", "home/.tool", tarfile.LNKTYPE)], "no file before", id="hard link to a directory"),
        pytest.param([member("home/p", type=tarfile.FIFOTYPE)], "no file, directory", id="pipe"),
        pytest.param([member("home/d", type=tarfile.CHRTYPE)], "no file, directory", id="character device"),
        pytest.param([member("home/d", type=tarfile.BLKTYPE)], "no file, directory", id="block device"),
        pytest.param([member("home/d", type=tarfile.CONTTYPE)], "no file, directory", id="contiguous"),
        pytest.param([member("home/s", b"x", mode=0o4755)], "mode 4755", id="setuid"),
        pytest.param([directory("home/s", mode=0o2755)], "mode 2755", id="setgid"),
        pytest.param([member("home/.tool/empty", b"x")], "twice", id="duplicate"),
        pytest.param([directory("home/.tool")], "twice", id="duplicate directory"),
        pytest.param([member("secrets/TOKEN", b"x")], "twice", id="duplicate secret"),
        pytest.param([member("secrets/a/b", b"x")], "no secret", id="secret below"),
        pytest.param([member("secrets/..", b"x")], "no secret", id="secret upwards"),
        pytest.param([link("secrets/X", "/etc/shadow")], "no secret", id="secret link"),
        pytest.param([member("manifest.json", b"{}")], "leads out", id="another manifest"),
    ],
)
def test_hostile_members_are_refused(tmp_path: Path, more: list[tuple[tarfile.TarInfo, bytes]], reason: str) -> None:
    members = sound() + more
    with pytest.raises(BackupError, match=reason):
        _backup.inspect(write(tmp_path, tar([*members, sums(members)])))


def without_sums(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    return tar(members)


def sums_first(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    return tar([*members, sums(members), member("home/late", b"x")])


def wrong_content(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    return tar([*members, sums(members)]).replace(b"talktalk", b"walktalk", 1)


def missing_file(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    return tar([*[item for item in members if item[0].name != "home/.tool/empty"][:-1], sums(members)])


def unsummed_file(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    return tar([*members, member("home/more", b"x"), sums(members)])


def behind_the_end(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    return tar([*members, sums(members)]) + b"more"


def two_archives(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    return 2 * tar([*members, sums(members)])


def no_manifest(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    return tar([*members[1:], sums(members)])


def damaged_header(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    return tar([*members, sums(members)]).replace(b"home/again", b"home/agaim", 1)


def with_header(members: list[tuple[tarfile.TarInfo, bytes]], info: tarfile.TarInfo) -> bytes:
    """The archive of ``members`` up to its end, then one more header with little behind it."""
    return tar(members)[: sum(512 + -(-info.size // 512) * 512 for info, _ in members)] + info.tobuf() + b"short"


def endless_name(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 32
    return with_header(members[:3], info)


def lying_size(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    info, _ = member("home/big")
    info.size = 1 << 32
    return with_header(members[:3], info)


def content_of_a_directory(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    info, _ = directory("home/full")
    info.size = 512
    return with_header(members[:3], info)


def negative_size(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    info, _ = member("home/less")
    header = bytearray(info.tobuf())
    header[124:136] = b"\xff" * 11 + b"\x00"  # GNU's base 256, -256
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return tar(members[:3])[:2560] + bytes(header) + bytes(1024)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (without_sums, "no checksums"),
        (sums_first, "behind its checksums"),
        (wrong_content, "checksum of 'home/.tool/long"),
        (missing_file, "files are missing|no file before"),
        (unsummed_file, "checksum of 'home/more'"),
        (behind_the_end, "behind its end"),
        (two_archives, "behind its end"),
        (no_manifest, "begin with a manifest"),
        (damaged_header, "header is damaged"),
        (endless_name, "a name has 4294967296 bytes"),
        (lying_size, "ends early"),
        (content_of_a_directory, "no file and has content"),
        (negative_size, "no file, directory or link"),
    ],
)
def test_a_damaged_archive_is_refused(tmp_path: Path, made: Callable[..., bytes], reason: str) -> None:
    members = sound()
    with pytest.raises(BackupError, match=reason):
        _backup.inspect(write(tmp_path, made(members)))


def test_every_truncation_and_extension_is_refused(tmp_path: Path) -> None:
    path = Path(good(tmp_path))
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(BackupError):
            _backup.inspect(str(path))
    for more in (b"x", gzip.compress(b"x"), whole):
        path.write_bytes(whole + more)
        with pytest.raises(BackupError):
            _backup.inspect(str(path))


def test_every_changed_byte_of_its_content_is_noticed(tmp_path: Path) -> None:
    """A change that decompresses to the same content, such as another place in a run of zeros, is none."""
    path = Path(good(tmp_path))
    whole, refused = path.read_bytes(), 0
    for place in range(10, len(whole), 3):
        changed = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
        path.write_bytes(changed)
        try:
            _backup.inspect(str(path))
        except BackupError:
            refused += 1
        else:
            assert gzip.decompress(changed) == gzip.decompress(whole), place
    assert refused > 200


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "its format is 2, this version reads 1"),
        ({"format": "1"}, "manifest is none"),
        ({"box": "../x"}, "manifest is none"),
        ({"box": None}, "manifest is none"),
        ({"instance": "A B"}, "manifest is none"),
        ({"declaration": []}, "manifest is none"),
        ({"left_out": {}}, "manifest is none"),
    ],
)
def test_an_unknown_manifest_is_refused(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    members = [member("manifest.json", json.dumps({**MANIFEST, **change}).encode()), directory("home")]
    with pytest.raises(BackupError, match=reason):
        _backup.inspect(write(tmp_path, tar([*members, sums(members)])))


def test_what_is_no_backup_is_told_so(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no archive")
    empty = tmp_path / "empty"
    empty.touch()
    for path in (text, empty):
        with pytest.raises(BackupError, match=f"{path} is no sound backup"):
            _backup.inspect(str(path))
    with pytest.raises(BackupError, match=r"cannot read .*No such file"):
        _backup.inspect(str(tmp_path / "none"))
    with pytest.raises(BackupError, match=r"cannot read .*directory"):
        _backup.inspect(str(tmp_path))


def test_what_opens_a_host_does_not_travel() -> None:
    declaration = {**MANIFEST["declaration"], "yolo": True, "network": "lan", "env": {"A": "b"}, "uid": 0}
    assert _backup.travelling(declaration) == {
        "lead": "none",
        "agents": ["tool"],
        "memory": 1 << 30,
        "env": {"A": "b"},
    }
    assert _backup.staying(declaration) == ["yolo", "network", "mounts"]
