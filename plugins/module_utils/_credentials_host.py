"""Logins that a host has for its boxes: where they lie, who has them already, which ones are due. Reads only.

What was seeded stands in the state directory, beside the marks of the volumes, without the login itself: a keyed digest
and what the login says of its end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import _naming, _state
from ._box import Box, Login
from ._credentials import EXPLICIT, MOST_BYTES, LoginFacts, login_facts
from ._errors import DeclarationError, StateError
from ._payload import config_directory, keeping_volume
from ._spec import BoxSpec
from ._state import Directory
from ._volumes import Volume


@dataclass(frozen=True)
class Note:
    """What was seeded into a volume for an agent, without the login. ``mark`` tells which volume of that name."""

    mark: str
    source: str
    digest: str  # keyed
    oauth: bool
    expires: float | None
    modified: int

    @property
    def facts(self) -> LoginFacts:
        return LoginFacts(self.oauth, self.expires, self.modified)


@dataclass(frozen=True)
class Seed:
    """A login to be written into a volume; ``mount`` is that volume's in the box."""

    login: Login
    mount: Mapping[str, Any]
    digest: str  # keyed


# --- on the host ----------------------------------------------------------------------------------------------------


def wanted(box: Box) -> dict[str, Mapping[str, Any]]:
    """The agents of a box that are to have the host's login, with their manifests. A declared secret is enough."""
    if box.spec.credentials not in EXPLICIT:
        return {}
    return {agent: manifest for agent, manifest in box.agents.items() if _wants(box.spec, manifest)}


def _wants(spec: BoxSpec, manifest: Mapping[str, Any]) -> bool:
    declared = manifest.get("credentials") or {}
    secret = any(name in spec.secrets for name in declared.get("variables") or ())
    return bool(declared.get("file") and manifest.get("config")) and not secret


def find(box: Box) -> dict[str, Login | None]:
    """The host's login for each agent that is to have one; None where the person has none.

    Raises ``DeclarationError`` for a login that the box could not use, and for a box without any agent that has one.
    """
    agents = wanted(box)
    if box.spec.credentials in EXPLICIT and not (agents or box.spec.secrets):
        raise DeclarationError(
            f"{box.spec.path}.credentials: none of its agents ({', '.join(box.spec.agents) or 'none'}) keeps a login "
            "in a file",
            "Use auto",
        )
    return {agent: _find_one(box, agent, manifest) for agent, manifest in agents.items()}


def _find_one(box: Box, agent: str, manifest: Mapping[str, Any]) -> Login | None:
    _check_place(box, agent, manifest)
    key, declared, home = f"{box.spec.path}.credentials", manifest["credentials"], box.setting.person.home.rstrip("/")
    place = f"{home}/{manifest['config']['directory']}/{declared['file']}"
    found = _read(key, place, box.setting.person.home)
    facts = login_facts(declared, found[0], found[1].st_mtime) if found else None
    if found is None or facts is None:
        return None
    content, status = found
    if box.spec.credentials == "mount" and status.st_uid != box.uid:
        raise DeclarationError(
            f"{key}: {place} belongs to uid {status.st_uid}, the box runs as uid {box.uid} and could not use it",
            "Use seed, or set uid",
        )
    return Login(agent, os.path.realpath(place), target(box, manifest), content, facts)


def _check_place(box: Box, agent: str, manifest: Mapping[str, Any]) -> None:
    """Refuse what the agent could not keep or renew in the box."""
    key, place = f"{box.spec.path}.credentials", target(box, manifest)
    if keeping_volume(box, place) is None:
        raise DeclarationError(
            f"{key}: {place}, where {agent} keeps its login, lies in no volume of the box",
            f"Declare a volume that holds it, or leave env.{manifest['config'].get('variable')} out",
        )
    if box.spec.credentials == "mount" and not manifest["credentials"].get("in_place"):
        raise DeclarationError(
            f"{key}: {agent} renews a login by another file in the place of {place}, which a mount refuses",
            "Use seed, or declare a secret",
        )


def target(box: Box, manifest: Mapping[str, Any]) -> str:
    """Where the agent of a manifest keeps its login in the box."""
    return f"{config_directory(box, manifest['config'])}/{manifest['credentials']['file']}"


def _read(key: str, path: str, home: str) -> tuple[bytes, os.stat_result] | None:
    """Content and status of a regular file of the home's owner; None where there is none.

    Whoever owns the home could else have any file of the host read by who runs this.
    """
    try:
        owner = Path(home).stat().st_uid
        descriptor = os.open(os.path.realpath(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DeclarationError(
            f"{key}: {path} can't be read: {error.strerror}", "Run as its owner or as root"
        ) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
            raise DeclarationError(f"{key}: {path} is no file of the home's owner, uid {owner}")
        content = os.read(descriptor, MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MOST_BYTES:
        raise DeclarationError(f"{key}: {path} is larger than any login")
    return content, status


def missing_problem(box: Box, agents: Iterable[str]) -> DeclarationError:
    """The error for agents that are to have the host's login where there is none."""
    found = [(agent, box.agents[agent]) for agent in agents]
    places = ", ".join(
        f"{agent} (~/{manifest['config']['directory']}/{manifest['credentials']['file']})" for agent, manifest in found
    )
    commands = " and ".join(f"`{manifest['credentials'].get('login') or agent}`" for agent, manifest in found)
    return DeclarationError(
        f"{box.spec.path}.credentials: {box.spec.credentials} needs a login on the host, and {box.setting.person.home} "
        f"holds none of {places}",
        f"Log in there with {commands}, declare a secret, or use auto",
    )


# --- one box per login ----------------------------------------------------------------------------------------------


def rival(spec: BoxSpec, login: Login, others: Iterable[BoxSpec], manifests: Mapping[str, Any]) -> str | None:
    """Path of another declared box that is to have the same login, which only one of them can."""
    for other in others:
        takes = other.credentials in EXPLICIT and login.agent in other.agents and _wants(other, manifests[login.agent])
        if other.path == spec.path or other.state == "absent" or not takes:
            continue
        both_mount = spec.credentials == other.credentials == "mount"
        if spec.state == other.state == "started" if both_mount else login.facts.oauth:
            return other.path
    return None


def holder(
    login: Login, digest: str, containers: Iterable[Mapping[str, Any]], volumes: Mapping[str, Volume], *, mounting: bool
) -> str | None:
    """A box among ``containers``, as the engine lists them, that has the same login already.

    A login that is no OAuth login may be in several; a file may be mounted into one running box.
    """
    for item in containers:
        mounted = any(mount.get("Type") == "bind" and mount.get("Source") == login.source for mount in _mounts(item))
        if mounted and (login.facts.oauth or mounting) and item.get("State") == "running":
            return _described(item)
        if login.facts.oauth and any(_is_same(note, login, digest) for note in _notes(item, login.agent, volumes)):
            return _described(item)
    return None


def _described(item: Mapping[str, Any]) -> str:
    labels = item["Labels"]
    return f"box {labels.get(_naming.LABEL_BOX)} of instance {labels.get(_naming.LABEL_INSTANCE)}"


def _mounts(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return item.get("Mounts") or []


def _is_same(note: Note, login: Login, digest: str) -> bool:
    """The same file of the host, however it was renewed since, or a copy of it."""
    return note.oauth and (note.source == login.source or bool(digest and note.digest == digest))


def _notes(item: Mapping[str, Any], agent: str, volumes: Mapping[str, Volume]) -> Iterator[Note]:
    """What was seeded for an agent into the volumes of a listed container, by whoever's run."""
    state_dir = str(item["Labels"].get(_naming.LABEL_STATE_DIR, ""))
    for mount in _mounts(item) if state_dir.startswith("/") else ():
        volume = volumes.get(str(mount.get("Name")))
        try:
            note = noted(state_dir, volume, agent) if volume else None
        except StateError:  # another user's
            continue
        if note:
            yield note


# --- what is due ----------------------------------------------------------------------------------------------------


def is_due(login: Login, note: Note | None, held: LoginFacts | None) -> bool:
    """Whether a box gets a login of the host that it never got: it has none that is as new or lives as long.

    ``held`` is what the box has now, as far as that can be seen; else what it got last counts.
    """
    known = held or (note.facts if note else None)
    return known is None or login.facts.replaces(known)


def noted(state_dir: str, volume: Volume | None, agent: str) -> Note | None:
    """What was seeded into a volume for an agent; None too if the volume was made anew since."""
    found = _state.read_json(_path(state_dir, volume.name, agent)) if volume else None
    try:
        note = Note(**found) if found else None
    except TypeError:
        return None
    return note if note and volume and note.mark == volume.mark else None


def remember(state_dir: str, volume: Volume, seed: Seed) -> None:
    """Note that a login was seeded into a volume."""
    facts = seed.login.facts
    note = Note(volume.mark, seed.login.source, seed.digest, facts.oauth, facts.expires, facts.modified)
    for path in (directory(state_dir), f"{directory(state_dir)}/{volume.name}"):
        _state.ensure_directory(Directory(path, 0o700))
    _state.write_file(_state.json_file(_path(state_dir, volume.name, seed.login.agent), asdict(note), 0o600))


def directory(state_dir: str) -> str:
    """Where it is remembered what was seeded."""
    return f"{state_dir}/seeded"


def forget(state_dir: str, volume: str) -> None:
    """Drop what is noted of a removed volume."""
    _state.remove_tree(f"{directory(state_dir)}/{volume}")


def _path(state_dir: str, volume: str, agent: str) -> str:
    return f"{directory(state_dir)}/{volume}/{agent}.json"
