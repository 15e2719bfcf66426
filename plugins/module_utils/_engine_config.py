"""The daemon's configuration file: what is declared goes in, what others wrote stays. Pure.

Only the keys that are declared are touched. A record beside the file remembers which of them were changed and what
stood there before, so that a key that is no longer declared gets its old value back, unless somebody changed it since.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import _json_text
from ._errors import AgentboxError, DeclarationError

SCHEMA = 1
# What a running daemon takes anew on SIGHUP, in every version from 20.10 to 28 (moby, daemon/reload*.go). `features`
# is not among them, because the choice of the image store in it counts at the start only.
RELOADABLE = frozenset(
    {
        "authorization-plugins",
        "debug",
        "default-runtime",
        "insecure-registries",
        "labels",
        "live-restore",
        "max-concurrent-downloads",
        "max-concurrent-uploads",
        "max-download-attempts",
        "registry-mirrors",
        "runtimes",
        "shutdown-timeout",
    }
)
PROXY = "proxy"  # stands for the daemon's environment among the keys that want a restart
# What may change while containers live on without their daemon. Docker's documentation of live restore warns of the
# bridge and the storage; this list names what is known to be harmless instead.
LIVES_ON = RELOADABLE | {
    "default-address-pools",
    "default-shm-size",
    "default-ulimits",
    "log-driver",
    "log-level",
    "log-opts",
    PROXY,
}
_REFUSED = {
    "hosts": "the addresses of the engine stand in its unit, and one on the network gives root to whoever reaches it",
    "proxies": "give it as proxy, which keeps the password out of a file that everyone can read",
}


@dataclass(frozen=True)
class Record:
    """What earlier runs did. ``keys``: key to ``set`` (the value written) and ``before`` (what stood there, if any).

    ``pending`` are keys that wait for a restart of the daemon whose life was ``life``.
    """

    keys: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    life: str | None = None
    pending: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "keys": self.keys, "life": self.life, "pending": list(self.pending)}


@dataclass(frozen=True)
class Merge:
    """What ``merge()`` decided. ``before`` and ``after`` hold the keys that change, as they are and will be."""

    text: str | None  # the file's new text; None: no file
    keys: Mapping[str, Mapping[str, Any]]  # of the record
    content: Mapping[str, Any]
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def changed(self) -> list[str]:
        """Names of the keys that change."""
        return sorted({*self.before, *self.after})


@dataclass(frozen=True)
class Live:
    """The engine as it runs; ``containers`` are the running ones."""

    running: bool
    containers: int = 0
    live_restore: bool = False


@dataclass(frozen=True)
class Course:
    """What to do to a running engine (``reload``, ``restart``), and which keys wait for a restart all the same."""

    steps: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def declared(
    config: object, address_pools: object = None, log_driver: object = None, log_opts: object = None
) -> dict[str, Any]:
    """The keys of ``daemon.json`` that are declared, in the engine's spelling. Nothing, as None or "", is no key.

    Raises ``DeclarationError`` naming the option.
    """
    given = _mapping("config", config)
    for key, reason in _REFUSED.items():
        if key in given:
            raise DeclarationError(f"config.{key}: {reason}")
    own = {
        "default-address-pools": _address_pools(address_pools),
        "log-driver": _text("log_driver", log_driver),
        "log-opts": _log_options("log_opts", log_opts),
    }
    own = {key: value for key, value in own.items() if value}
    for key in own:
        if key in given:
            raise DeclarationError(f"config.{key}: it is given by an option of its own too, give it once")
    if "log-opts" in given:
        given["log-opts"] = _log_options("config.log-opts", given["log-opts"])
    return {**given, **own}


def _mapping(option: str, value: object) -> dict[str, Any]:
    if value is None or value == "":
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise DeclarationError(f"{option}: must be a mapping")
    return dict(value)


def _text(option: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DeclarationError(f"{option}: must be text")
    return value


def _log_options(option: str, value: object) -> dict[str, str]:
    """The engine takes texts only and refuses to start for ``max-file: 3``."""
    found = {}
    for key, item in _mapping(option, value).items():
        if isinstance(item, bool):
            found[key] = "true" if item else "false"
        elif isinstance(item, str | int):
            found[key] = str(item)
        else:
            raise DeclarationError(f"{option}.{key}: must be text, a number, true or false")
    return found


def _address_pools(value: object) -> list[dict[str, Any]]:
    if value is None or value == "":
        return []
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise DeclarationError("address_pools: must be a list of mappings with base and size")
    return [_address_pool(f"address_pools[{index}]", item) for index, item in enumerate(value)]


def _address_pool(option: str, value: object) -> dict[str, Any]:
    pool = _mapping(option, value)
    if set(pool) != {"base", "size"}:
        raise DeclarationError(f"{option}: must have base (as 192.0.2.0/24) and size (prefix of each network)")
    try:
        base = ipaddress.ip_network(str(pool["base"]))
    except ValueError as error:
        raise DeclarationError(f"{option}: {error}") from None
    if isinstance(pool["size"], bool) or not str(pool["size"]).isdecimal():  # text from a template is fine
        raise DeclarationError(f"{option}.size: must be a whole number")
    size = int(pool["size"])
    if not base.prefixlen <= size <= base.max_prefixlen:
        raise DeclarationError(f"{option}.size: must lie between {base.prefixlen} and {base.max_prefixlen}")
    return {"base": str(base), "size": size}


def parsed(path: str, content: bytes | None) -> dict[str, Any]:
    """The object in a configuration file; no file, and an empty one, is an empty object.

    Raises ``AgentboxError`` naming the file when it holds something else, which stays as it is.
    """
    hint = "Mend it or move it away; it was left as it is"
    if not content or not content.strip():
        return {}
    try:
        found = _json_text.parsed(content.decode())
    except ValueError as error:
        raise AgentboxError(f"{path} holds no JSON ({error})", hint) from None
    if not isinstance(found, dict):
        raise AgentboxError(f"{path} holds no JSON object", hint)
    return found


def recorded(found: Mapping[str, Any] | None) -> Record:
    """The record of earlier runs; none, and one of another schema, is an empty one."""
    if not found or found.get("schema") != SCHEMA:
        return Record()
    return Record(dict(found["keys"]), found["life"], tuple(found["pending"]))


def merge(text: str | None, found: Mapping[str, Any], owned: Mapping[str, Mapping[str, Any]], wanted: Any) -> Merge:
    """Put ``wanted`` into the configuration ``found``, whose ``text`` keeps every byte that is not concerned.

    ``owned`` are the record's keys. Those that are not wanted any more go back to what stood there before.
    """
    content, keys = dict(found), {}
    for key, value in wanted.items():
        if key in owned:
            keys[key] = {**owned[key], "set": value}
        elif key not in found or not _same(found[key], value):
            keys[key] = {"set": value} | ({"before": found[key]} if key in found else {})
        content[key] = value
    for key, mark in owned.items():
        if key in wanted or key not in found or not _same(found[key], mark["set"]):
            continue
        del content[key]
        if "before" in mark:
            content[key] = mark["before"]
    before = {key: value for key, value in found.items() if key not in content or not _same(value, content[key])}
    after = {key: value for key, value in content.items() if key not in found or not _same(value, found[key])}
    return Merge(_rewritten(text, before, after, content), keys, content, before, after)


def _rewritten(text: str | None, before: Mapping[str, Any], after: Mapping[str, Any], content: Any) -> str | None:
    if not before and not after:
        return text
    if not content:
        return None
    new = text if text and text.strip() else _json_text.EMPTY
    for key in before:
        if key not in after:
            new = _json_text.removed(new, [], [key])
    for key, value in after.items():
        new = _json_text.put(new, [key], value)
    return new


def _same(one: object, other: object) -> bool:
    """Whether two values are the same JSON; Python alone takes 1 for true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def course(merged: Merge, more: Iterable[str], live: Live) -> Course:
    """How a running engine gets to work by the new configuration; ``more`` are other keys that want a restart.

    A key that is taken out wants one too: a reload leaves what the file does not name as it is. Running containers
    never end for it: without live restore, and for keys that it does not cover, the restart waits for somebody.
    """
    if not live.running:
        return Course()
    reloading = {key for key in merged.after if key in RELOADABLE}
    restarting = {*merged.changed, *more} - reloading
    reload = ("reload",) if reloading else ()
    if not restarting:
        return Course(reload)
    if live.containers == 0:
        return Course(("restart",))
    lives_on = merged.content.get("live-restore", live.live_restore) and (
        live.live_restore or "live-restore" in reloading
    )
    if lives_on and restarting <= LIVES_ON:
        # The daemon has to know before it stops that its containers live on.
        return Course(("restart",) if live.live_restore else ("reload", "restart"))
    return Course(reload, tuple(sorted(restarting)))
