"""Where this host gets packages from, as far as a build inside a container can use it.

APT, pip and npm settings are carried over when they are http(s); a path of this host means nothing in a container.
Credentials never become build arguments or files of the context: they come back as ``Secret``, which only BuildKit
can hand to a build without leaving them in a layer.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

_DEBIAN_KEYRING = "debian-archive-keyring"
_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>\S.*)$")
_PIP_KEYS = {"index-url": "PIP_INDEX_URL", "extra-index-url": "PIP_EXTRA_INDEX_URL"}
_NPM_AUTH = re.compile(r"^//(?P<host>[^/]+)/.*:(_authToken|_auth|username|_password)$")


@dataclass(frozen=True)
class Secret:
    """A file that a build sees while it runs and that no layer keeps."""

    target: str
    content: str = field(repr=False)
    hidden: tuple[str, ...] = field(repr=False)  # the parts of it that no output may show


@dataclass(frozen=True)
class AptSource:
    """One line of a source list."""

    uri: str
    suite: str
    components: str

    @property
    def line(self) -> str:
        return f"deb {self.uri} {self.suite} {self.components}"


@dataclass(frozen=True)
class PackageSources:
    """What a build gets from its host."""

    debian: Sequence[AptSource]  # Debian's own archives, as configured
    apt: str  # content of /etc/apt/sources.list; empty: the base's own sources stay
    arguments: Mapping[str, str]  # build arguments
    secrets: Mapping[str, Secret]  # by id


def read(suite: str | None, environ: Mapping[str, str], root: Path = Path("/")) -> PackageSources:
    """The settings of this host for a base of ``suite`` (None: not a Debian base, APT is left alone)."""
    home = Path(environ.get("HOME", "/"))
    debian = debian_sources(_apt_texts(root), suite) if suite else []
    apt, apt_secrets = carried_apt(debian)
    pip, pip_secrets = carried_pip(_texts(_pip_files(root, home, environ)), environ)
    npm, npm_secrets = carried_npm(_texts(_npm_files(root, home, environ)), environ)
    return PackageSources(debian, apt, {**pip, **npm}, {**apt_secrets, **pip_secrets, **npm_secrets})


def debian_sources(texts: Iterable[str], suite: str) -> list[AptSource]:
    """The http(s) sources of Debian's own archives for ``suite`` with its updates and security suites.

    A host of another release has them too, under its own suite: one archive holds all supported releases. Sources of
    others that are named after a suite are left out, because a base has no key for them.
    """
    found = [(source, part) for text in texts for source in _parse_sources(text) for part in _parts(source.suite)]
    own = [(source, part) for source, part in found if source.suite == suite + part]
    return list(dict.fromkeys(replace(source, suite=suite + part) for source, part in own or found))


def _parts(suite: str) -> list[str]:
    """What follows the release's name; empty for a suite that a base does not need, such as backports."""
    found = re.match(r"^[a-z]+(|-updates|-security)$", suite)
    return [found[1]] if found else []


def _parse_sources(text: str) -> Iterator[AptSource]:
    for stanza in re.split(r"\n\s*\n", text):
        lines = [line for line in stanza.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        if any(re.match(r"types\s*:", line, re.IGNORECASE) for line in lines):
            yield from _deb822(lines)
        else:
            yield from _one_line(lines)


def _one_line(lines: Iterable[str]) -> Iterator[AptSource]:
    for line in lines:
        found = _ONE_LINE.match(line.strip())
        if not found:
            continue
        signed_by = re.search(r"signed-by=(\S+)", found["options"] or "", re.IGNORECASE)
        components = found["components"].partition("#")[0]
        if _is_debian(found["uri"], signed_by[1] if signed_by else "", components):
            yield AptSource(found["uri"], found["suite"], " ".join(components.split()))


def _deb822(lines: Iterable[str]) -> Iterator[AptSource]:
    fields: dict[str, str] = {}
    key = ""
    for line in lines:
        if line[0].isspace():
            fields[key] = f"{fields.get(key, '')}\n{line.strip()}"
        else:
            key, _, value = line.partition(":")
            key = key.strip().lower()
            fields[key] = value.strip()
    if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
        return
    components = " ".join(fields.get("components", "").split())
    for uri in fields.get("uris", "").split():
        for suite in fields.get("suites", "").split():
            if _is_debian(uri, fields.get("signed-by", ""), components):
                yield AptSource(uri, suite, components)


def _is_debian(uri: str, signed_by: str, components: str) -> bool:
    """Debian's archive by its keyring; without a keyring by its path, which mirrors keep."""
    if not is_http(uri) or "main" not in components.split():
        return False
    if signed_by:
        return _DEBIAN_KEYRING in signed_by
    return urlsplit(uri).path.rstrip("/").rpartition("/")[2].startswith("debian")


def carried_apt(sources: Iterable[AptSource]) -> tuple[str, dict[str, Secret]]:
    """The source list without credentials, and these apart."""
    lines = []
    logins: dict[str, tuple[str, str]] = {}
    for source in sources:
        uri, login = without_login(source.uri)
        lines.append(AptSource(uri, source.suite, source.components).line + "\n")
        if login:
            logins[uri] = login
    entries = [f"machine {uri} login {user} password {password}\n" for uri, (user, password) in logins.items()]
    hidden = tuple(password for _, password in logins.values())
    secret = Secret("/etc/apt/auth.conf.d/90agentbox.conf", "".join(entries), hidden)
    return "".join(lines), {"apt": secret} if logins else {}


def carried_pip(texts: Iterable[str], environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Secret]]:
    """pip's indexes; ``texts`` are its configuration files, the later ones winning, the environment over all."""
    settings: dict[str, str] = {}
    for text in texts:
        settings.update(_pip_settings(text))
    settings.update({key: environ[variable] for key, variable in _PIP_KEYS.items() if environ.get(variable)})
    urls = {key: [url for url in value.split() if is_http(url)] for key, value in settings.items()}
    urls = {key: value for key, value in urls.items() if value}
    hidden = _logins(url for value in urls.values() for url in value)
    if hidden:
        lines = [f"{key} = {' '.join(value)}\n" for key, value in sorted(urls.items())]
        return {}, {"pip": Secret("/etc/pip.conf", "[global]\n" + "".join(lines), hidden)}
    return {_PIP_KEYS[key]: " ".join(value) for key, value in urls.items()}, {}


def _pip_settings(text: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}  # pip itself complains about it; a build goes on with the defaults
    sections = [parser[name] for name in ("global", "install") if parser.has_section(name)]
    return {key: section[key] for section in sections for key in _PIP_KEYS if section.get(key)}


def carried_npm(texts: Iterable[str], environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Secret]]:
    """npm's registry; ``texts`` are its configuration files, the later ones winning, the environment over all."""
    settings: dict[str, str] = {}
    for text in texts:
        settings.update(_npm_settings(text, environ))
    from_environment = environ.get("npm_config_registry") or environ.get("NPM_CONFIG_REGISTRY")
    registry = from_environment or settings.get("registry", "")
    if not is_http(registry):
        return {}, {}
    host = urlsplit(registry).netloc.rpartition("@")[2]
    auth = {key: value for key, value in settings.items() if _auth_host(key) == host}
    hidden = (*auth.values(), *_logins([registry]))
    if hidden:
        lines = [f"{key}={value}\n" for key, value in {"registry": registry, **auth}.items()]
        return {}, {"npm": Secret("/root/.npmrc", "".join(lines), hidden)}
    return {"NPM_CONFIG_REGISTRY": registry}, {}


def _npm_settings(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator and not key.lstrip().startswith(("#", ";")):
            expanded = re.sub(r"\$\{(\w+)\}", lambda found: environ.get(found[1], found[0]), value.strip())
            settings[key.strip()] = expanded.strip("\"'")
    return settings


def _auth_host(key: str) -> str:
    found = _NPM_AUTH.match(key)
    return found["host"] if found else ""


def is_http(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:  # a host such as "["
        return False


def without_login(url: str) -> tuple[str, tuple[str, str] | None]:
    """``url`` without user and password, and these (decoded) if there are any."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url, None
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return bare, (unquote(parts.username or ""), unquote(parts.password or ""))


def _logins(urls: Iterable[str]) -> tuple[str, ...]:
    """The ``user:password`` parts as they stand in ``urls``."""
    places = [urlsplit(url).netloc for url in urls]
    return tuple(place.rpartition("@")[0] for place in places if "@" in place)


def _apt_texts(root: Path) -> list[str]:
    folder = root / "etc/apt/sources.list.d"
    files = [*sorted(folder.glob("*.list")), *sorted(folder.glob("*.sources"))]
    return _texts([root / "etc/apt/sources.list", *files])


def _pip_files(root: Path, home: Path, environ: Mapping[str, str]) -> list[Path]:
    configuration = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [root / "etc/xdg/pip/pip.conf", root / "etc/pip.conf", home / ".pip/pip.conf"]
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:  # pip's own way to say "no configuration at all"
        return []
    return [*files, configuration / "pip/pip.conf", *([Path(named)] if named else [])]


def _npm_files(root: Path, home: Path, environ: Mapping[str, str]) -> list[Path]:
    def named(option: str, default: Path) -> Path:
        variable = f"npm_config_{option}"
        return Path(environ.get(variable) or environ.get(variable.upper()) or default)

    return [root / "usr/etc/npmrc", named("globalconfig", root / "etc/npmrc"), named("userconfig", home / ".npmrc")]


def _texts(files: Iterable[Path]) -> list[str]:
    """Contents of those ``files`` that exist and may be read."""
    texts = []
    for file in files:
        try:
            texts.append(file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return texts
