"""One repository of packages as an APT source of this host: a deb822 file and the key that signs it.

APT refuses to work at all when two sources of one repository name different keys. So every other source of the same
repository, in whatever file and form, goes when ours comes. What to do is pure (``plan``); ``apply`` does it.
"""

from __future__ import annotations

import re
import ssl
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from . import _proxy, _state
from ._errors import AgentboxError, DeclarationError

FETCH_TIMEOUT = 15.0  # seconds
MOST_KEY = 1 << 20  # bytes
_ARMOUR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_/-]*")
# dpkg's names for the machines of uname(2) that repositories have packages for.
_ARCHITECTURES = {
    "aarch64": "arm64",
    "amd64": "amd64",
    "armv7l": "armhf",
    "i686": "i386",
    "ppc64le": "ppc64el",
    "riscv64": "riscv64",
    "s390x": "s390x",
    "x86_64": "amd64",
}
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")
_LINE = re.compile(r"\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(?P<uri>\S+)\s")


@dataclass(frozen=True)
class Source:
    """A repository. ``name`` names its files."""

    name: str
    uri: str
    suite: str
    components: Sequence[str]
    architecture: str  # as dpkg calls it

    @property
    def text(self) -> str:
        """Content of the deb822 file."""
        return (
            "# Managed by Ansible: agentbox.fleet.\n"
            "Types: deb\n"
            f"URIs: {self.uri}\n"
            f"Suites: {self.suite}\n"
            f"Components: {' '.join(self.components)}\n"
            f"Architectures: {self.architecture}\n"
            f"Signed-By: {Places().keyring(self.name)}\n"
        )


@dataclass(frozen=True)
class Places:
    """Where a host keeps its sources and keys; tests give a directory of their own."""

    root: Path = Path("/")

    @property
    def sources(self) -> Path:
        return self.root / "etc/apt/sources.list.d"

    def source(self, name: str) -> Path:
        return self.sources / f"{name}.sources"

    def keyring(self, name: str) -> Path:
        return self.root / f"etc/apt/keyrings/{name}.asc"

    def existing(self) -> dict[Path, str]:
        """The files with sources that this host has, and their content."""
        files = [self.root / "etc/apt/sources.list", *sorted(self.sources.glob("*.list"))]
        files += sorted(self.sources.glob("*.sources"))
        return {file: file.read_text(encoding="utf-8", errors="surrogateescape") for file in files if file.is_file()}


@dataclass(frozen=True)
class Change:
    """A file that changes; ``after`` None: it goes."""

    path: Path
    before: str | None
    after: str | None

    @property
    def action(self) -> str:
        return f"{'remove' if self.after is None else 'write'} {self.path}"


def source(name: str, uri: str, suite: str, components: Sequence[str], machine: str) -> Source:
    """A source whose parts can stand in a file. Raises ``DeclarationError`` naming the option."""
    if not _NAME.fullmatch(name):
        raise DeclarationError("name: must be small letters, digits and dashes")
    for option, words in (("suite", [suite]), ("components", components)):
        if not words or not all(_WORD.fullmatch(word) for word in words):
            raise DeclarationError(f"{option}: must be names such as a repository has")
    return Source(name, repository(uri), suite, components, architecture(machine))


def repository(uri: str) -> str:
    """An address without the slash at its end. Raises ``DeclarationError`` for what is none, and for a login in it."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise DeclarationError("uri: must be an http or https address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or _UNPRINTABLE.search(uri):
        raise DeclarationError("uri: must be an http or https address")
    if "@" in parts.netloc:
        raise DeclarationError("uri: must hold no login, put it into a file in /etc/apt/auth.conf.d")
    return uri.rstrip("/")


def architecture(machine: str) -> str:
    """dpkg's name for a machine, as ``x86_64``. Raises ``DeclarationError`` for one that is not known."""
    try:
        return _ARCHITECTURES[machine]
    except KeyError:
        known = ", ".join(sorted(_ARCHITECTURES))
        raise DeclarationError(
            f"there are no packages for the machine {machine or 'without a name'}, known are {known}"
        ) from None


def key_text(given: str, installed: str | None, fetch: Callable[[str], str]) -> tuple[str, str]:
    """The armoured key that ``given`` is or names (text, address, or file of this host), and a warning or "".

    An address that can't be reached is a warning while there is an ``installed`` key, which then stays.
    """
    given = given.strip()
    if given.startswith(_ARMOUR):
        return armoured(given, "the key"), ""
    if given.startswith("/"):
        return armoured(_file_text(given), given), ""
    if not _is_trustworthy(given):
        raise DeclarationError(
            "key: must be armoured text, an https address or the absolute path of a file; anybody between could "
            "answer plain http"
        )
    try:
        return armoured(fetch(given), given), ""
    except AgentboxError as error:
        if installed is None:
            raise
        return installed, f"{error.message}. The key that is installed stays"


def _is_trustworthy(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _proxy.LOOPBACK)


def _file_text(path: str) -> str:
    try:
        if not Path(path).is_file():
            raise DeclarationError(f"key: {path} is not a file")
        with Path(path).open(encoding="utf-8", errors="replace") as stream:
            return stream.read(MOST_KEY)
    except OSError as error:
        raise DeclarationError(f"key: cannot read {path}: {error.strerror}") from error


def armoured(text: str, origin: str) -> str:
    """``text`` if it is an armoured public key, with one line end. Raises ``AgentboxError`` naming ``origin``."""
    if _ARMOUR not in text or "-----END PGP PUBLIC KEY BLOCK-----" not in text:
        raise AgentboxError(f"{origin} is no armoured OpenPGP public key", "`gpg --enarmor` makes one of a binary key")
    return "\n".join(text.split("\r\n")).strip() + "\n"


def fetch(url: str) -> str:
    """What an address answers, through the proxy of this process's environment. Raises ``AgentboxError``."""
    context = ssl.create_default_context()
    try:
        with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT, context=context) as answer:  # noqa: S310 -- checked
            text: str = answer.read(MOST_KEY).decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        raise AgentboxError(f"cannot fetch the key from {url}: {getattr(error, 'reason', error)}") from error
    return text


def plan(
    wanted: Source, key: str, existing: Mapping[Path, str], installed_key: str | None, places: Places
) -> list[Change]:
    """What makes ``wanted``, signed by ``key``, the only source of its repository."""
    own = places.source(wanted.name)
    others = [
        Change(path, text, without(text, wanted.uri, deb822=path.suffix == ".sources"))
        for path, text in existing.items()
        if path != own
    ]
    changes = [
        Change(places.keyring(wanted.name), installed_key, key),
        *(_removing_empty(change) for change in others),
        Change(own, existing.get(own), wanted.text),
    ]
    return [change for change in changes if change.before != change.after]


def plan_absence(name: str, existing: Mapping[Path, str], installed_key: str | None, places: Places) -> list[Change]:
    """What takes ``name`` away."""
    own = places.source(name)
    changes = [Change(own, existing.get(own), None), Change(places.keyring(name), installed_key, None)]
    return [change for change in changes if change.before is not None]


def _removing_empty(change: Change) -> Change:
    """A file that loses its last source goes, but for the one that every host has."""
    left = [line for line in (change.after or "").splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if left or change.before == change.after or change.path.name == "sources.list":
        return change
    return Change(change.path, change.before, None)


def without(text: str, uri: str, *, deb822: bool) -> str:
    """``text`` of a file without the sources of the repository at ``uri``; all else keeps every byte."""
    if not deb822:
        lines = text.splitlines(keepends=True)
        return "".join(line for line in lines if not ((found := _LINE.match(line)) and _same(found["uri"], uri)))
    parts = re.split(r"(\n(?:[ \t]*\n)+)", text)
    stanzas, gaps = parts[::2], [*parts[1::2], ""]
    kept = [(_stanza_without(stanza, uri), gap) for stanza, gap in zip(stanzas, gaps, strict=True)]
    return "".join(stanza + gap for stanza, gap in kept if stanza)


def _stanza_without(stanza: str, uri: str) -> str:
    """A deb822 stanza without an address; empty if it had no other."""
    found = re.search(r"^URIs[ \t]*:(?P<uris>.*(?:\n[ \t]+.*)*)", stanza, re.IGNORECASE | re.MULTILINE)
    uris = found["uris"].split() if found else []
    left = [address for address in uris if not _same(address, uri)]
    if found is None or left == uris:
        return stanza
    return stanza[: found.start("uris")] + " " + " ".join(left) + stanza[found.end() :] if left else ""


def _same(one: str, other: str) -> bool:
    """Whether two addresses lead to one repository; neither protocol nor login make a difference."""
    return _origin(one) == _origin(other)


def _origin(uri: str) -> tuple[str, str]:
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
        return f"{host}:{parts.port or ''}", parts.path.rstrip("/")
    except ValueError:  # no address at all, such as "cdrom:[Debian]/"
        return "", uri


def read_key(name: str, places: Places) -> str | None:
    """The key that is installed."""
    content = _state.read_file(str(places.keyring(name)))
    return None if content is None else content.decode("utf-8", "surrogateescape")


def apply(changes: Iterable[Change]) -> None:
    """Do what was planned. Raises ``StateError`` for a file that is a link or can't be written."""
    for change in changes:
        if change.after is None:
            _state.read_file(str(change.path))  # refuses links, whose target would stay
            _state.remove_file(str(change.path))
        else:
            if not change.path.parent.is_dir():
                _state.ensure_directory(_state.Directory(str(change.path.parent), 0o755))
            _state.write_file(_state.File(str(change.path), change.after.encode("utf-8", "surrogateescape"), 0o644))


def shown(text: str | None) -> str:
    """A file's content for a diff; sources of others may hold logins."""
    return _proxy.without_logins(text or "")
