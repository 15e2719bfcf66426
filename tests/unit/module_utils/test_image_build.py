"""What a builder gets, and what a user sees of it."""

from __future__ import annotations

import io
import tarfile

import pytest

from agentbox._shared._build import Build, _arguments, context_archive, with_secret_mounts
from agentbox._shared._buildlog import BuildLog, missing_tool, snippet_line
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
    assert error.hint.startswith("APT knows no package gitt: ")


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


@pytest.mark.parametrize(
    ("line", "tool"),
    [
        ("/bin/sh: 1: curl: not found", "curl"),
        ("/bin/sh: 12: /opt/x/y: not found", "/opt/x/y"),
        ("/bin/bash: line 1: cargo: command not found", "cargo"),
        ("bash: gh: command not found", "gh"),
        ("/usr/bin/env: \u2018node\u2019: No such file or directory", "node"),
        ('OCI runtime create failed: exec: \\"python\\": executable file not found in $PATH: unknown', "python"),
        ("E: Package 'curl' not found", ""),
        ("fatal: repository 'x' not found", ""),
    ],
)
def test_a_missing_tool_is_named(line: str, tool: str) -> None:
    log, _ = follow(f"#5 [x 1/1] RUN something\n#5 1.0 {line}\n#5 ERROR: exit code: 127\n")
    error = log.failure("ended")
    assert missing_tool(line) == tool
    if tool:
        assert f"; {tool} is not in the image: " in error.message
        assert error.hint == f"Name the package that brings {tool} in image_packages"
    else:
        assert "is not in the image" not in error.message


SNIPPET = """\
# Tools of ours
RUN apt-get -q update; \\
    apt-get -q -y install golang

ENV GOPATH=/go
RUN   go version
"""


@pytest.mark.parametrize(
    ("instruction", "line"),
    [
        ("RUN apt-get -q update;     apt-get -q -y install golang", 2),
        ("RUN --mount=type=secret,id=npm,target=/root/.npmrc go version", 6),
        ("ENV GOPATH=/go", 5),
        ("RUN go env", None),
        ("", None),
    ],
)
def test_an_own_line_is_found(instruction: str, line: int | None) -> None:
    assert snippet_line(SNIPPET, instruction) == line


def test_a_failure_in_an_own_line_is_placed() -> None:
    log = BuildLog("FROM x\n" + SNIPPET, SNIPPET)
    for line in ("#7 [stage-3 4/9] RUN   go version", "#7 0.2 /bin/sh: 1: go: not found", "#7 ERROR: exit code: 127"):
        log.take(line)
    message = log.failure("ended").message
    assert "in [stage-3 4/9] RUN go version, line 6 of the image's own lines (image_snippet); go is not" in message


def test_a_syntax_error_in_an_own_line_is_placed() -> None:
    log = BuildLog("FROM x\nRUN true\nRNU x\nUSER root\n", "RUN true\nRNU x")
    reason = "dockerfile parse error line {}: unknown instruction: RNU"
    assert ", line 2 of the image's own lines" in log.failure(reason.format(3)).message
    for line in (1, 4):
        assert "own lines" not in log.failure(reason.format(line)).message
