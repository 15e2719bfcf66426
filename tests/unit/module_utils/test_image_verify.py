"""How an image's programs are asked and judged; a real shell runs the script."""

from __future__ import annotations

import subprocess

import pytest

from agentbox._shared._image_verify import Check, VerificationError, checks, judge, parse, quoted, script
from agentbox._shared._manifests import Agent


def agent(*argv: str, version: str = "1.2.3") -> Agent:
    return Agent("tool", "tool-package", version, argv, r"^v?(\d+\.\d+\.\d+)")


def run(wanted: list[Check]) -> dict[str, str]:
    done = subprocess.run(["bash", "-c", script(wanted)], capture_output=True, text=True, check=True)
    return judge(wanted, parse(done.stdout))


def test_versions_are_read_from_what_the_programs_print() -> None:
    tool = agent("printf", "a banner\nv%s (Tool)", "1.2.3")
    assert run(checks([tool], {"tool": "1.2.3"}, [["true"], ["echo", "it's; $HOME"]])) == {"tool": "1.2.3"}
    assert run(checks([tool], {"tool": "latest"}, [])) == {"tool": "1.2.3"}


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (("sh", "-c", "echo native binary not installed >&2; exit 1"), "failed with status 1: native", "tool-package"),
        (("no-such-program",), "no-such-program is not there", "omit=optional"),
        (("echo", "hello"), "named no version", "version.pattern"),
        (("echo", "1.2.4"), "holds tool 1.2.4 instead of 1.2.3", "Rebuild"),
    ],
)
def test_an_agent_that_does_not_work_is_named(argv: tuple[str, ...], message: str, hint: str) -> None:
    with pytest.raises(VerificationError) as caught:
        run(checks([agent(*argv)], {"tool": "1.2.3"}, []))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_program_that_fails_is_named() -> None:
    with pytest.raises(VerificationError, match=r"sh -c 'exit 3' failed with status 3"):
        run(checks([], {}, [["true"], ["sh", "-c", "exit 3"]]))


def test_a_container_that_ends_early_is_no_success() -> None:
    wanted = checks([], {}, [["true"], ["false"]])
    output = script(wanted[:1])
    done = subprocess.run(["bash", "-c", output], capture_output=True, text=True, check=True)
    with pytest.raises(VerificationError, match="ended before it ran false"):
        judge(wanted, parse(done.stdout))


@pytest.mark.parametrize(
    ("output", "end"), [("", ""), (" \n\n", ""), ("one\n", ": one"), ("one\ntwo\nthree\n\n", ": two\nthree")]
)
def test_the_last_lines_of_an_output_end_a_message(output: str, end: str) -> None:
    assert quoted(output, 2) == end
