"""What an export takes of a HOME is what an import accepts, and what stays is told."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.agentbox.fleet.plugins.module_utils import _backup
from ansible_collections.agentbox.fleet.plugins.module_utils._backup import Manifest
from ansible_collections.agentbox.fleet.plugins.module_utils._backup_export import Sieve, login_files
from ansible_collections.agentbox.fleet.plugins.module_utils._backup_tar import BackupError, packed

MANIFEST = Manifest("web", "agentbox", "2026-01-31T08:15:00Z", {}, "", "", {"logins": [], "secrets": []})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A HOME of all kinds of files, the odd ones too."""
    directory = tmp_path / "agent"
    (directory / ".tool/deep").mkdir(parents=True)
    (directory / ".tool/login").write_text("token")
    (directory / ".tool/login.bak").write_text("kept")
    (directory / ".tool/deep/talk.jsonl").write_bytes(b"x" * 3000)
    (directory / ("long" * 50)).mkdir()
    (directory / ("long" * 50) / ("name" * 40)).touch()
    Path(os.fsdecode(os.fsencode(directory) + b"/\xff\n")).write_text("odd")
    (directory / "inside").symlink_to("/home/agent/.tool/deep")
    (directory / ".tool/up").symlink_to("../inside/")
    (directory / "self").symlink_to(".")
    (directory / "outside").symlink_to("/usr/bin/python3")
    (directory / ".tool/above").symlink_to("../../x")
    (directory / "sly").symlink_to("inside/../../..")
    os.link(directory / ".tool/deep/talk.jsonl", directory / "zzz")
    os.link(directory / ".tool/login", directory / ".tool/login2")
    os.mkfifo(directory / "pipe")
    (directory / "setuid").write_text("#!/bin/sh")
    (directory / "setuid").chmod(0o6755)
    (directory / "sticky").mkdir()
    (directory / "sticky").chmod(0o1777)
    return directory


def as_the_engine_sends_it(home: Path) -> tarfile.TarFile:
    """Directories before what is in them, in the format of Go's library; names begin with that of the directory."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(home, "agent")
    buffer.seek(0)
    return tarfile.open(fileobj=buffer, mode="r|")


def backup_of(home: Path, sieve: Sieve, file: Path) -> None:
    content = MANIFEST.content()
    info = tarfile.TarInfo("manifest.json")
    info.size = len(content)
    sums: dict[str, Any] = {"manifest.json": _backup.checksum(len(content), hashlib.sha256(content).hexdigest())}

    def members() -> Iterator[tuple[tarfile.TarInfo, Iterable[bytes]]]:
        yield info, [content]
        with as_the_engine_sends_it(home) as archive:
            for found in archive:
                taken = sieve.take(found)
                if taken is None:
                    continue
                stream = archive.extractfile(found) if taken.isreg() else None
                data = stream.read() if stream else b""
                if taken.isreg():
                    sums[taken.name] = _backup.checksum(len(data), hashlib.sha256(data).hexdigest())
                yield taken, [data]
        index = json.dumps(sums).encode()
        last = tarfile.TarInfo("checksums.json")
        last.size = len(index)
        yield last, [index]

    file.write_bytes(gzip.compress(b"".join(packed(members())), 1))


def test_what_is_taken_is_accepted_and_the_rest_is_told(home: Path, tmp_path: Path) -> None:
    sieve, file = Sieve([".tool/login", ".tool/none"]), tmp_path / "backup"
    backup_of(home, sieve, file)
    assert sieve.logins == [".tool/login"]
    # The hard link to the login is none to a file that travels.
    assert sorted(sieve.others) == [".tool/above", ".tool/login2", "outside", "pipe", "sly"]
    found = _backup.inspect(str(file))
    assert found.files == 5
    with tarfile.open(file) as archive:
        kept = {info.name: info for info in archive}
    assert not {"home/.tool/login", "home/outside"} & set(kept)
    assert kept["home/setuid"].mode == 0o755
    assert kept["home/sticky"].mode == 0o777
    assert {kept[name].type for name in ("home/inside", "home/self", "home/.tool/up")} == {tarfile.SYMTYPE}
    links = [info for info in kept.values() if info.islnk()]
    assert [(info.name, info.linkname) for info in links] == [("home/zzz", "home/.tool/deep/talk.jsonl")]
    assert {(info.uid, info.gid, info.uname, info.gname) for info in kept.values()} == {(0, 0, "", "")}
    assert b"token" not in gzip.decompress(file.read_bytes())


def test_a_login_that_is_asked_for_travels_privately(home: Path, tmp_path: Path) -> None:
    (home / ".tool/login").chmod(0o600)
    backup_of(home, Sieve([]), tmp_path / "backup")
    with tarfile.open(tmp_path / "backup") as archive:
        assert archive.getmember("home/.tool/login").mode == 0o600


def test_a_member_that_is_shorter_than_it_says_ends_the_writing() -> None:
    info = tarfile.TarInfo("home/x")
    info.size = 3
    with pytest.raises(BackupError, match="says that it has 3 bytes and has 2"):
        list(packed([(info, [b"ab"])]))


def test_logins_are_where_manifests_and_environment_say() -> None:
    manifests = {
        "tool": {"config": {"directory": ".tool", "variable": "TOOL_HOME"}, "credentials": {"file": "login"}},
        "other": {"config": {"directory": ".other"}, "credentials": {"file": "auth.json"}},
        "keyless": {"config": {"directory": ".keyless"}},
        "bare": {},
    }
    found = login_files(manifests, {"TOOL_HOME": "/home/agent/moved/"})
    assert {".tool/login", "moved/login", ".other/auth.json", ".netrc"} <= set(found)
    assert not [path for path in found if "keyless" in path]
    assert "login" not in login_files(manifests, {"TOOL_HOME": "/workspace/tool"})
