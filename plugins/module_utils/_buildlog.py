"""Reading a builder's output: where it is, and when it fails, where, with what and what to do next."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator

from ._errors import AgentboxError

KEPT_LINES = 30
_LINE_LENGTH = 200
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# BuildKit: "#7 [node 2/3] RUN ...", "#7 12.3 output", "#7 ERROR: ...".
_STEP = re.compile(r"^#(?P<number>\d+) (?P<title>\[(?!internal)[^\]]+\] .+)$")
_OUTPUT = re.compile(r"^#(?P<number>\d+) (?P<seconds>\d+\.\d+) (?P<text>.+)$")
_ERROR = re.compile(r"^#(?P<number>\d+) ERROR: (?P<text>.+)$")
_NOISE = re.compile(r"^#\d+ (?:sha256:|DONE|CACHED|\[internal\]|transferring|resolve |extracting|\.\.\.)|^#\d+ *$|^-+$")
# Classic builder: "Step 3/20 : RUN ...".
_CLASSIC_STEP = re.compile(r"^Step \d+/\d+ : (?P<instruction>.+)$")
_CLASSIC_FROM = re.compile(r"^FROM \S+(?: AS (?P<name>\S+))?$", re.IGNORECASE)

_SYNTAX = re.compile(r"dockerfile parse error (?:on )?line (?P<line>\d+)", re.IGNORECASE)
_MOUNTS = re.compile(r"^RUN (?:--mount=\S+ )+")

_TOOLS = {"apt": r"\bapt-get\b", "pip": r"\bpip\b", "npm": r"\bnpm\b"}
# A shell, exec and env each have their own words for a program that is not there.
_MISSING = (
    r"^(?:\S*sh|/\S+): (?:line )?(?:\d+: )?(?P<tool>[\w./+-]+): (?:command )?not found$",
    r"exec: \\?\"(?P<tool>[^\"\\]+)\\?\": (?:executable file not found|stat \S+: no such file)",
    r"env: ['\u2018](?P<tool>[^'\u2019]+)['\u2019]: No such file or directory$",
)
# What a pattern's group finds stands for the braces.
_HINTS = (
    (r"no space left on device", "Free space on the engine's disk, e.g. `docker system prune`"),
    (
        r"certificate|CERTIFICATE_VERIFY_FAILED|unable to get local issuer|self.signed",
        "Give the authority that signs this network's TLS in ca_file, or in the host's own bundle (SSL_CERT_FILE)",
    ),
    (
        r"407 |Proxy Authentication|Tunnel connection failed",
        "Check the proxy and its credentials",
    ),
    (
        r"Temporary failure resolving|EAI_AGAIN|ENOTFOUND|Name or service not known|Could not resolve|"
        r"NameResolutionError",
        "Containers can't resolve names: check the engine's DNS, set the proxy, or set build_network to host",
    ),
    (
        r"Connection refused|ECONNREFUSED|Network is unreachable|ETIMEDOUT|timed out|Connection failed",
        "Containers can't reach the package registry: check proxy and firewall, or set build_network to host",
    ),
    (r"THESE PACKAGES DO NOT MATCH THE HASHES", "What was downloaded is not what was pinned: check mirror and proxy"),
    (r"NO_PUBKEY|is not signed", "The base has no key for an APT source of this host: check the host's APT sources"),
    (
        r"Unable to locate package (\S+)|Package '?(\S+?)'? has no installation candidate",
        "APT knows no package {}: check the names in image_packages and in the image's own lines",
    ),
    (r"No matching distribution found for (\S+)", "pip finds no {}: check its name and version"),
    (
        r"E404|404 Not Found|No matching version|No matching distribution|ETARGET",
        "Check name and version of the package",
    ),
    (r"native binary not installed|postinstall|optional dependenc", "The agent's package came without its native part"),
)


class BuildError(AgentboxError):
    """The image could not be built."""


class BuildLog:
    """Consumes a builder's lines; ``take`` returns what is worth showing.

    ``snippet`` is the part of ``dockerfile`` that a user wrote.
    """

    def __init__(self, dockerfile: str = "", snippet: str = "") -> None:
        self._dockerfile = dockerfile
        self._snippet = snippet
        self._titles: dict[str, str] = {}
        self._lines: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=KEPT_LINES))
        self._current = ""
        self._failed = ""
        self._stage = ""

    @property
    def step(self) -> str:
        """The step whose output came last."""
        return self._titles.get(self._current, "")

    def take(self, raw: str) -> str | None:
        """What to tell the user about this line of output; None for a line without news."""
        line = _ESCAPES.sub("", raw).rstrip()
        if not line or _NOISE.match(line):
            return None
        if step := _STEP.match(line):
            return self._begin(step["number"], step["title"])
        if output := _OUTPUT.match(line):
            return self._keep(output["number"], output["text"])
        if error := _ERROR.match(line):
            self._failed = error["number"]
            return self._keep(error["number"], error["text"])
        if classic := _CLASSIC_STEP.match(line):
            return self._begin_classic(classic["instruction"])
        return self._keep(self._current, line)

    def _begin(self, number: str, title: str) -> str | None:
        news = None if self._titles.get(number) == title else _short(title)
        self._current = number
        self._titles[number] = title
        return news

    def _begin_classic(self, instruction: str) -> str | None:
        if stage := _CLASSIC_FROM.match(instruction):
            self._stage = stage["name"] or "final"
        return self._begin(str(len(self._titles)), f"[{self._stage}] {instruction}")

    def _keep(self, number: str, text: str) -> str:
        self._current = number
        self._lines[number].append(_short(text))
        return _short(text)

    def failure(self, reason: str) -> BuildError:
        """The error to raise after the builder gave up; ``reason`` is its own last word."""
        number = self._failed or self._current
        title = self._titles.get(number, "")
        lines = "\n".join(self._lines[number])
        text = f"{lines}\n{reason}"
        tool = missing_tool(text)
        found = f"; {tool} is not in the image" if tool else ""
        hint = f"Name the package that brings {tool} in image_packages" if tool else _hint(text)
        where = f"{self._where(title, text)}{_tool(title)}"
        return BuildError(f"the image's build failed{where}{found}: {reason}; its last lines:\n{lines}\n", hint)

    def _where(self, title: str, text: str) -> str:
        where = f" in {_short(title)}" if title else ""
        line = self._line_of_syntax_error(text) or snippet_line(self._snippet, title.partition("] ")[2])
        return f"{where}, line {line} of the image's own lines (image_snippet)" if line else where

    def _line_of_syntax_error(self, text: str) -> int | None:
        error = _SYNTAX.search(text)
        before, found, _ = self._dockerfile.partition(self._snippet) if self._snippet else ("", "", "")
        if not error or not found:
            return None
        line = int(error["line"]) - before.count("\n")
        return line if 1 <= line <= self._snippet.count("\n") + 1 else None


def missing_tool(text: str) -> str:
    """The program that a step wanted to run and that is not there; empty when that was not the trouble."""
    found = (re.search(pattern, text, re.MULTILINE) for pattern in _MISSING)
    return next((match["tool"] for match in found if match), "")


def snippet_line(snippet: str, instruction: str) -> int | None:
    """The line of ``snippet`` in which ``instruction`` starts, counted from 1; None when it is not one of its."""
    wanted = " ".join(_MOUNTS.sub("RUN ", instruction).split())
    return next((line for line, text in _instructions(snippet) if wanted and text == wanted), None)


def _instructions(snippet: str) -> Iterator[tuple[int, str]]:
    """Every instruction on one line, as builders show it, with the line it starts in."""
    start, parts = 0, []
    for number, line in enumerate(snippet.splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        start = start or number
        parts.append(text.removesuffix("\\"))
        if not text.endswith("\\"):
            yield start, " ".join(" ".join(parts).split())
            start, parts = 0, []


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LINE_LENGTH else f"{flat[: _LINE_LENGTH - 3]}..."


def _tool(title: str) -> str:
    tools = [tool for tool, pattern in _TOOLS.items() if re.search(pattern, title)]
    return f" ({tools[0]})" if tools else ""


def _hint(text: str) -> str:
    for pattern, hint in _HINTS:
        if match := re.search(pattern, text, re.IGNORECASE):
            return hint.format(*filter(None, match.groups()))
    return "Run again with more verbosity, or look at the step named above"
