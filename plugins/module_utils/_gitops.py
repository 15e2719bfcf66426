"""What a host that converges itself from a Git repository is told to do: settings, their checks, names and paths.

Pure. ``config.json`` holds the settings between the role that writes them and the program that a timer starts.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ._errors import DeclarationError

UNIT = "agentbox-gitops"
SERVICE, TIMER = f"{UNIT}.service", f"{UNIT}.timer"
MODES = ("converge", "report")
COLLECTION_FOLDER = "ansible_collections/agentbox/fleet"
LOOPBACK_NAMES = ("localhost",)
BUSY = 75  # exit code of a run that found another one at work; EX_TEMPFAIL of sysexits.h

# The names go into a command line that ansible-pull splits at spaces, into a limit pattern and into paths.
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}")
_RELATIVE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]{0,400}")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_ABSOLUTE = re.compile(r"/[A-Za-z0-9_./-]{1,400}")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")
_SCP_LIKE = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9._-]*:(?!//|:)\S+")
_AUTHENTICATED = ("https", "ssh", "file")  # the client knows who it talks to
_OPEN = ("http", "git")


@dataclass(frozen=True)
class Places:
    """Where everything of the service lies on a host."""

    config: Path = Path("/etc/agentbox-gitops")
    code: Path = Path("/opt/agentbox-gitops")
    state: Path = Path("/var/lib/agentbox-gitops")
    units: Path = Path("/etc/systemd/system")

    @property
    def settings(self) -> Path:
        return self.config / "config.json"

    @property
    def allowed_signers(self) -> Path:
        """Keys of those whose SSH signatures count, as ssh-keygen(1) describes the format."""
        return self.config / "allowed_signers"

    @property
    def signing_keys(self) -> Path:
        """OpenPGP public keys, in ASCII armour, whose signatures count."""
        return self.config / "signing_keys.asc"

    @property
    def known_hosts(self) -> Path:
        return self.config / "known_hosts"

    @property
    def python(self) -> Path:
        """Link to the environment that is in use."""
        return self.code / "python"

    @property
    def collections(self) -> Path:
        """Link to the collection that is in use, a folder for ANSIBLE_COLLECTIONS_PATH."""
        return self.code / "collections"

    @property
    def status(self) -> Path:
        return self.state / "status.json"

    @property
    def reports(self) -> Path:
        """Reports and logs of the last run; only root reads them, for tasks may print anything."""
        return self.state / "reports"

    @property
    def work(self) -> Path:
        """Copies of the repository; only root reads them."""
        return self.state / "work"

    @property
    def repository(self) -> Path:
        """A bare copy of the branch; nothing is checked out here."""
        return self.work / "repository.git"

    @property
    def tree(self) -> Path:
        """What ansible-pull checks out."""
        return self.work / "tree"


@dataclass(frozen=True)
class Settings:
    """Checked settings; ``from_options`` makes them. Paths of the repository are relative to its root."""

    repository: str
    branch: str
    inventory: str
    playbook: str
    host: str  # its name in the inventory
    mode: str
    verify_signatures: bool
    allow_rewritten: bool
    deploy_key_file: str | None = None
    credentials_file: str | None = None  # of git-credential-store(1)
    vault_password_file: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # proxy and certificates; may hold a password

    @property
    def secret_files(self) -> dict[str, str]:
        """Setting to path of every file that only root may read."""
        names = ("deploy_key_file", "credentials_file", "vault_password_file")
        return {name: path for name in names if (path := getattr(self, name))}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Settings:
        """The settings of a file that ``to_json`` made; ``DeclarationError`` for any other."""
        try:
            return cls(**{item.name: value[item.name] for item in fields(cls)})
        except KeyError as error:
            raise DeclarationError(f"the configuration lacks {error}", "Run role agentbox.fleet.gitops again") from None


def from_options(options: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Settings of the module's options; ``DeclarationError`` names the option that is wrong."""
    verify = bool(options["verify_signatures"])
    if verify and not (options["allowed_signers"] or options["signing_keys"]):
        raise DeclarationError(
            "verify_signatures: nobody's signature would count", "Give allowed_signers or signing_keys"
        )
    return Settings(
        repository=repository(options["repository"], verified=verify),
        branch=_matching("branch", _BRANCH, options["branch"], _no_odd_ref),
        inventory=_matching("inventory", _RELATIVE, options["inventory"], _stays_below),
        playbook=_matching("playbook", _RELATIVE, options["playbook"], _stays_below),
        host=_matching("host", _HOST, options["host"]),
        mode=options["mode"],
        verify_signatures=verify,
        allow_rewritten=bool(options["allow_rewritten"]),
        deploy_key_file=_absolute("deploy_key_file", options),
        credentials_file=_absolute("credentials_file", options),
        vault_password_file=_absolute("vault_password_file", options),
        environment=dict(environment),
    )


def repository(value: str, *, verified: bool) -> str:
    """An address of a repository that holds no secret and can't be spoofed unnoticed.

    ``verified`` says that commits are only accepted with a signature, which makes the way they come by irrelevant.
    """
    if not value or value.startswith("-") or _UNPRINTABLE.search(value):
        raise DeclarationError("repository: the address of a Git repository expected")
    if value.startswith("/") or ("://" not in value and _SCP_LIKE.fullmatch(value)):
        return value
    try:
        parts = urlsplit(value)
        host, user = parts.hostname or "", parts.username or ""
        _ = parts.port  # raises for what is no number
    except ValueError:
        raise DeclarationError("repository: not a valid address") from None
    if parts.scheme not in (*_AUTHENTICATED, *_OPEN):
        raise DeclarationError("repository: https://, ssh://, user@host:path, file://, http:// or git:// expected")
    if parts.scheme != "file" and (user.startswith("-") or not (_HOST.fullmatch(host) or _ip(host))):
        raise DeclarationError("repository: not a valid address")
    if parts.password is not None or (parts.username and parts.scheme != "ssh"):
        raise DeclarationError(
            "repository: an address must not hold a user's password or token",
            "Give it in deploy_key_file or credentials_file",
        )
    if parts.query or parts.fragment:
        raise DeclarationError("repository: an address with a query or fragment is not accepted")
    if parts.scheme in _OPEN and not verified and not _is_loopback(host):
        raise DeclarationError(
            f"repository: anybody on the way can answer for {parts.scheme}://{host}",
            "Use https or ssh, or require signed commits (verify_signatures)",
        )
    return value


def uses_ssh(address: str) -> bool:
    """Whether Git reaches the repository through ssh."""
    return address.startswith("ssh://") or ("://" not in address and not address.startswith("/"))


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that ``host`` spells; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _ip(host)
    return address.is_loopback if address else host in LOOPBACK_NAMES


def _matching(name: str, pattern: re.Pattern[str], value: str, problem: Callable[[str], str] | None = None) -> str:
    if not pattern.fullmatch(value):
        raise DeclarationError(f"{name}: {value!r} has characters that are not accepted, or is empty")
    if problem and (found := problem(value)):
        raise DeclarationError(f"{name}: {value!r} {found}")
    return value


def _no_odd_ref(value: str) -> str:
    """What git-check-ref-format(1) refuses beyond characters."""
    odd = ".." in value or "//" in value or value.endswith(("/", ".", ".lock")) or "/." in value
    return "is no valid name of a branch" if odd else ""


def _stays_below(value: str) -> str:
    return "leads out of the repository" if ".." in value.split("/") else ""


def _absolute(name: str, options: Mapping[str, Any]) -> str | None:
    value = options[name]
    return _matching(name, _ABSOLUTE, value) if value else None
