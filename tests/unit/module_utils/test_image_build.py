"""What a builder gets, and what a user sees of it."""

from __future__ import annotations

import io
import tarfile

import pytest

from agentbox._shared._build import Build, _arguments, context_archive, with_secret_mounts
from agentbox._shared._buildlog import BuildLog
from agentbox._shared._sources import Secret

BUILDKIT = """\
#1 [internal] load build definition from Dockerfile
#1 transferring dockerfile: 68B done
#1 DONE 0.0s
#7 [system 2/3] RUN apt-get -q update;     apt-get -q install git
#7 sha256:0123
#7 0.512 Get:1 http://mirror.example/debian bookworm InRelease
#9 [agent-claude 1/1] RUN npm install --global claude
#9 2.5 added 3 packages
#7 3.1 E: Unable to locate package gitt
#7 ERROR: executor failed running [/bin/sh -c apt-get]: exit code: 100
#9 CANCELED
------
"""
CLASSIC = """\
Step 1/4 : FROM debian:bookworm-slim AS node
 ---> 0123
Step 2/4 : RUN python3 -m pip install --require-hashes -r node.txt
 ---> Running in 4567
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.
"""


def test_a_context_depends_on_names_and_contents_only() -> None:
    archive = context_archive("FROM x\n", {"b/c.txt": "ü\n", "a.txt": ""})
    assert archive == context_archive("FROM x\n", {"a.txt": "", "b/c.txt": "ü\n"})
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.getnames() == ["Dockerfile", "a.txt", "b/c.txt"]
        assert {(entry.mtime, entry.mode, entry.uid) for entry in tar.getmembers()} == {(0, 0o644, 0)}
        stream = tar.extractfile("b/c.txt")
        assert stream is not None
        assert stream.read() == "ü\n".encode()


def test_secrets_are_mounted_into_every_run_instruction() -> None:
    secrets = {"npm": Secret("/root/.npmrc", "x", ()), "apt": Secret("/etc/apt/auth", "y", ())}
    dockerfile = "FROM x\nRUN one; \\\n    RUN_two\nCOPY a b\nRUN three\n"
    mounts = "--mount=type=secret,id=apt,target=/etc/apt/auth --mount=type=secret,id=npm,target=/root/.npmrc"
    mounted = with_secret_mounts(dockerfile, secrets)
    assert mounted == f"FROM x\nRUN {mounts} one; \\\n    RUN_two\nCOPY a b\nRUN {mounts} three\n"
    assert with_secret_mounts(dockerfile, {}) == dockerfile


def test_proxies_stand_in_the_command_line_by_name_only() -> None:
    build = Build(
        "", {}, {"WORD": "x y"}, {"l": "1"}, proxy={"http_proxy": "http://a:canary@b.example"}, network="host"
    )
    words = _arguments(build)
    assert words == ["--network=host", "--build-arg", "WORD=x y", "--label", "l=1", "--build-arg", "http_proxy"]
    assert "canary" not in repr(build)


def follow(text: str) -> tuple[BuildLog, list[str]]:
    log = BuildLog()
    return log, [news for line in text.splitlines() if (news := log.take(line))]


def test_buildkits_output_is_told_step_by_step() -> None:
    log, news = follow(BUILDKIT)
    assert news[:4] == [
        "[system 2/3] RUN apt-get -q update; apt-get -q install git",
        "Get:1 http://mirror.example/debian bookworm InRelease",
        "[agent-claude 1/1] RUN npm install --global claude",
        "added 3 packages",
    ]
    error = log.failure("docker build ended with status 1")
    assert "failed in [system 2/3] RUN apt-get" in error.message
    assert "(apt)" in error.message
    assert "\nE: Unable to locate package gitt\n" in error.message
    assert "added 3 packages" not in error.message
    assert error.hint == "Check the names in image_packages"


def test_the_classic_builders_output_is_told_step_by_step() -> None:
    log, _ = follow(CLASSIC)
    error = log.failure("returned a non-zero code: 1")
    assert "failed in [node] RUN python3 -m pip install" in error.message
    assert "(pip)" in error.message
    assert "pinned" in error.hint


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("npm error code SELF_SIGNED_CERT_IN_CHAIN", "ca_file"),
        ("ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED]", "ca_file"),
        ("Temporary failure resolving 'mirror.example'", "build_network"),
        ("npm error code ENOTFOUND", "build_network"),
        ("connect ECONNREFUSED 10.0.0.1:3128", "firewall"),
        ("407  Proxy Authentication Required", "credentials"),
        ("write error: No space left on device", "Free space"),
        ("npm error code ETARGET", "version of the package"),
        ("The following signatures couldn't be verified: NO_PUBKEY 0E98404D386FA1D9", "APT sources"),
    ],
)
def test_a_known_cause_comes_with_what_to_do(line: str, hint: str) -> None:
    log, _ = follow(f"#5 [x 1/1] RUN tool\n#5 1.0 {line}\n#5 ERROR: exit code: 1\n")
    assert hint in log.failure("ended").hint


def test_a_failure_shows_the_last_thirty_lines() -> None:
    lines = "".join(f"#5 1.0 line {number}\n" for number in range(50))
    log, _ = follow(f"#5 [x 1/1] RUN tool\n{lines}")
    message = log.failure("ended").message
    assert "line 20\n" in message
    assert "line 19\n" not in message
