"""Reading a builder's output: where it is, and when it fails, where, with what and what to do next."""

from __future__ import annotations

import re
from collections import defaultdict, deque

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

_TOOLS = {"apt": r"\bapt-get\b", "pip": r"\bpip\b", "npm": r"\bnpm\b"}
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
        r"E404|404 Not Found|No matching version|No matching distribution|ETARGET",
        "Check name and version of the package",
    ),
    (r"native binary not installed|postinstall|optional dependenc", "The agent's package came without its native part"),
    (r"Unable to locate package", "Check the names in image_packages"),
)


class BuildError(AgentboxError):
    """The image could not be built."""


class BuildLog:
    """Consumes a builder's lines; ``take`` returns what is worth showing."""

    def __init__(self) -> None:
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
        where = f" in {_short(title)}" if title else ""
        return BuildError(
            f"the image's build failed{where}{_tool(title)}: {reason}; its last lines:\n{lines}\n",
            _hint(f"{lines}\n{reason}"),
        )


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LINE_LENGTH else f"{flat[: _LINE_LENGTH - 3]}..."


def _tool(title: str) -> str:
    tools = [tool for tool, pattern in _TOOLS.items() if re.search(pattern, title)]
    return f" ({tools[0]})" if tools else ""


def _hint(text: str) -> str:
    matching = (hint for pattern, hint in _HINTS if re.search(pattern, text, re.IGNORECASE))
    return next(matching, "Run again with more verbosity, or look at the step named above")
