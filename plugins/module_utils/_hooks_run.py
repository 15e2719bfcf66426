"""Converging the hook entries of a host's users: plan every settings file, note what is made new, apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import _hook_files, _hooks, _json_text, _naming, _state
from ._accounts import Account, account
from ._errors import AgentboxError, DeclarationError, SettingsError
from ._hook_files import Found, Place
from ._hooks_plan import Merge, merge, sink_address
from ._users import User, parse_names, parse_users

MAKE_DIRECTORY = "make_directory"
WRITE_FILE = "write_file"
REMOVE_FILE = "remove_file"
REMOVE_DIRECTORY = "remove_directory"


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    users: object  # as declared
    agents: object  # as declared; those of users who name none
    manifests: Mapping[str, Any]
    url: str
    instance: str
    state_dir: str
    present: bool = True
    check: bool = False
    lock_timeout: float = 120.0


@dataclass(frozen=True)
class Action:
    kind: str
    path: str

    def as_dict(self) -> dict[str, Any]:
        return {"action": self.kind, "detail": self.path}


@dataclass
class Item:
    """The settings of one agent of one user, and what becomes of them."""

    user: str
    agent: str
    parts: tuple[str, ...]  # of the file's path below HOME
    sink: str
    owner: str  # the instance that the entries belong to
    handlers: Mapping[str, _hooks.Handler]  # as they shall be; none where entries shall go
    account: Account | None = None
    merge: Merge | None = None
    found: Found | None = None
    actions: list[Action] = field(default_factory=list)
    error: str = ""

    @property
    def path(self) -> str:
        home = self.account.home if self.account else "~"
        return "/".join([home.rstrip("/"), *self.parts])

    def as_dict(self) -> dict[str, Any]:
        merge = self.merge or Merge("")
        return {
            "user": self.user,
            "agent": self.agent,
            "path": self.path,
            "changed": bool(self.actions) and not self.error,
            "failed": bool(self.error),
            "msg": self.error,
            "actions": [action.as_dict() for action in self.actions],
            "added": merge.added,
            "healed": merge.healed,
            "removed": merge.removed,
        }

    def diff(self) -> tuple[dict[str, str], dict[str, str]]:
        """Our entries by event type, as they were and as they are to be; never what others wrote into them."""
        if not self.merge:
            return {}, {}
        before = dict.fromkeys(self.merge.healed, "another entry of ours")
        before |= dict.fromkeys(self.merge.removed, "an entry of ours")
        changed = [*self.merge.added, *self.merge.healed]
        return before, {event: f"{self.handlers[event]['type']} to {self.sink}" for event in changed}


@dataclass
class Outcome:
    """What the whole run did, or in check mode would do."""

    items: list[Item] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        return [f"user {item.user}, agent {item.agent}: {item.error}" for item in self.items if item.error]

    def as_dict(self) -> dict[str, Any]:
        actions = [
            {"user": item.user, "agent": item.agent, **action.as_dict()}
            for item in self.items
            if not item.error
            for action in item.actions
        ]
        shown = {item.path: item.diff() for item in self.items if item.actions and not item.error}
        return {
            "changed": bool(actions),
            "hooks": [item.as_dict() for item in self.items],
            "actions": actions,
            "unsupported": self.unsupported,
            "diff": {
                "before": {path: before for path, (before, _) in shown.items()},
                "after": {path: after for path, (_, after) in shown.items()},
            },
        }


def converge(request: Request) -> Outcome:
    """Bring the settings of all users to what is asked for.

    A wrong declaration raises ``DeclarationError`` before anything changes. What goes wrong with one file stands in
    its item and does not stop the others.
    """
    outcome = _declared(request)
    record = _Record(request.state_dir)
    outcome.items += _forgotten(request, outcome.items, record)
    _plan_all(outcome.items, record)
    if request.check or not (any(item.actions for item in outcome.items) or record.misses(outcome.items)):
        return outcome
    _state.ensure_directory(_state.instance_directory(request.state_dir))
    with _state.locked(request.state_dir, "module hooks", request.lock_timeout):
        record = _Record(request.state_dir)
        _plan_all(outcome.items, record)  # anew: somebody else may have worked until now
        record.note(outcome.items)
        for item in outcome.items:
            _apply(item)
        record.forget(outcome.items)
    return outcome


def _declared(request: Request) -> Outcome:
    if not _naming.is_name(request.instance):
        raise DeclarationError(f"instance: '{request.instance}' is no valid name")
    sink = sink_address(request.url)
    everybody = parse_names(request.agents, "agents")
    outcome = Outcome()
    for index, user in enumerate(parse_users(request.users)):
        agents = everybody if user.agents is None else user.agents
        path = "agents" if user.agents is None else f"users[{index}].agents"
        for agent in agents:
            item = _item(request, user, agent, sink, path)
            if item:
                outcome.items.append(item)
            elif agent not in outcome.unsupported:
                outcome.unsupported.append(agent)
    return outcome


def _item(request: Request, user: User, agent: str, sink: str, path: str) -> Item | None:
    """The settings of ``agent``; None for one whose manifest names no file of the user for hooks."""
    manifest = request.manifests.get(agent)
    if not isinstance(manifest, Mapping):
        known = ", ".join(sorted(request.manifests)) or "none"
        raise DeclarationError(f"{path}: there is no manifest named '{agent}' (known: {known})")
    hooks = manifest.get("hooks") or {}
    if "user_file" not in hooks:
        return None
    parts = f"{manifest['config']['directory']}/{hooks['user_file']}".split("/")
    try:
        handlers = _hooks.subscriptions(manifest, sink, request.instance)
    except ValueError as error:
        raise DeclarationError(f"manifests: {error}") from None
    return Item(user.name, agent, tuple(parts), sink, request.instance, handlers if request.present else {})


def _forgotten(request: Request, items: Iterable[Item], record: _Record) -> Iterator[Item]:
    """Settings that hold entries of this instance and are not declared any more; a list of users is the whole list."""
    declared = {(item.user, item.agent) for item in items}
    for name, agent in sorted(record.holders - declared):
        if agent in request.manifests:
            gone = _item(replace(request, present=False), User(name), agent, "", "agents")
            if gone:
                yield gone


def _plan_all(items: Iterable[Item], record: _Record) -> None:
    for item in items:
        item.actions, item.error = [], ""
        with _told(item):
            _plan(item, record.created)


def _plan(item: Item, created: frozenset[str]) -> None:
    item.account = account(item.user)
    if item.account is None:
        if item.handlers:
            raise AgentboxError("there is no such user on this host")
        return
    if not item.handlers and not Path(item.account.home).is_dir():
        return
    with _hook_files.place(item.account, item.parts) as place:
        item.found = place.read()
        try:
            item.merge = merge(_text(item.found), item.handlers, item.owner)
        except SettingsError:
            if item.handlers or not item.found or _hooks.OWNER_HEADER.encode() in item.found.content:
                raise
            return  # nothing of ours can be in it, whatever is wrong with it
        item.actions = list(_actions(item, item.merge, place, created))


def _text(found: Found | None) -> str:
    try:
        return found.content.decode() if found else _json_text.EMPTY
    except UnicodeDecodeError:
        raise SettingsError("is not valid JSON (no UTF-8)", "Repair it, or move it away") from None


def _actions(item: Item, merge: Merge, place: Place, created: frozenset[str]) -> Iterator[Action]:
    """What has to be done, in order. What ``created`` names is taken away again when nothing of others is in it."""
    if item.handlers:
        if merge.differs:
            yield from (Action(MAKE_DIRECTORY, path) for path in place.missing_directories)
            yield Action(WRITE_FILE, place.path)
        return
    emptied = item.found is not None and place.path in created and _json_text.parsed(merge.text) == {}
    if emptied:
        yield Action(REMOVE_FILE, place.path)
    elif merge.differs:
        yield Action(WRITE_FILE, place.path)
    if emptied or item.found is None:
        yield from (Action(REMOVE_DIRECTORY, path) for path in place.empty_without(created))


def _apply(item: Item) -> None:
    kinds = [action.kind for action in item.actions]
    if not kinds or item.account is None or item.merge is None:
        return
    with _told(item), _hook_files.place(item.account, item.parts) as place:
        if WRITE_FILE in kinds:
            place.write(item.merge.text.encode(), item.found)
        if REMOVE_FILE in kinds and item.found:
            place.remove(item.found)
        place.remove_directories([action.path for action in item.actions if action.kind == REMOVE_DIRECTORY])


@contextmanager
def _told(item: Item) -> Iterator[None]:
    """Keep what goes wrong with one file in its item."""
    try:
        yield
    except SettingsError as error:
        item.error = f"{item.path} {error}"
    except (AgentboxError, OSError) as error:
        item.error = str(error)


def _made(items: Iterable[Item]) -> set[str]:
    """What is about to be made: files that are not there yet, and directories for them."""
    new = [item for item in items if item.handlers and item.found is None]
    return {action.path for item in new for action in item.actions}


def _left(items: Iterable[Item]) -> set[str]:
    """What is not ours any more, be it gone or in use by others: the files without our entries, and what is above."""
    return {str(path) for item in _without(items) for path in (Path(item.path), *Path(item.path).parents)}


def _without(items: Iterable[Item]) -> list[Item]:
    """Those whose settings hold nothing of ours any more."""
    return [item for item in items if not item.handlers and not item.error]


class _Record:
    """What the state directory remembers: a file alone can't tell who made it, nor a host where there are entries.

    ``created`` are paths that were made for entries, ``holders`` users and agents in whose settings entries are.
    """

    def __init__(self, state_dir: str) -> None:
        self._path = f"{state_dir}/hooks.json"
        found = _state.read_json(self._path) or {}
        self.created = frozenset(str(path) for path in _listed(found.get("created")))
        self.holders = frozenset(
            (str(pair[0]), str(pair[1]))
            for pair in _listed(found.get("holders"))
            if isinstance(pair, list) and len(pair) == 2  # noqa: PLR2004 - user and agent
        )

    def misses(self, items: Iterable[Item]) -> bool:
        """Whether it does not know of all ``items`` that have entries, or knows of some that have none."""
        return _holding(items) - self.holders != set() or not self.holders.isdisjoint(_named(_without(items)))

    def note(self, items: Iterable[Item]) -> None:
        """Before entries are written: that they are, and what is made for them."""
        self._keep(self.created | _made(items), self.holders | _holding(items))

    def forget(self, items: Iterable[Item]) -> None:
        """After entries were removed."""
        self._keep(self.created - _left(items), self.holders - _named(_without(items)))

    def _keep(self, created: frozenset[str], holders: frozenset[tuple[str, str]]) -> None:
        if (created, holders) == (self.created, self.holders):
            return
        self.created, self.holders = created, holders
        if created or holders:
            content = {"created": sorted(created), "holders": sorted(holders)}
            _state.write_file(_state.json_file(self._path, content, 0o600))
        else:
            _state.remove_file(self._path)


def _holding(items: Iterable[Item]) -> set[tuple[str, str]]:
    return _named(item for item in items if item.handlers and not item.error)


def _named(items: Iterable[Item]) -> set[tuple[str, str]]:
    return {(item.user, item.agent) for item in items}


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
