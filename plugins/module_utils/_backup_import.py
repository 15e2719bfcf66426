"""Making the HOME volumes of boxes from backups: planned for each, then done one after the other.

The box itself comes from its declaration, as every box does. A HOME that is there is never written into.
"""

from __future__ import annotations

import secrets
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from . import _backup, _backup_note, _box, _helper, _host, _naming
from ._backup import HOME, Contents
from ._backup_note import Note
from ._backup_run import Request, Result
from ._backup_tar import BackupError, Member, packed
from ._engine import Engine
from ._errors import AgentboxError
from ._helper import Place
from ._swap import ASIDE
from ._volumes import Volume, by_name, mark_prepared

IMPORT = "import"
_STEP = 64 << 20  # bytes between two lines of progress
_PART = 64 << 10  # bytes; most files are small


@dataclass(frozen=True)
class Wanted:
    """A box to import. ``name`` empty: as in the backup; ``uid`` None and ``workspace`` as in its declaration."""

    file: str
    name: str = ""
    workspace: str | None = None
    uid: int | None = None
    image: str = ""


@dataclass(frozen=True)
class _Job:
    """One box with everything decided. ``half`` is the volume that an interrupted import has left."""

    wanted: Wanted
    contents: Contents
    place: Place
    volume: str
    half: Volume | None


def bring(request: Request, wanted: Sequence[Wanted]) -> list[Result]:
    """Make the HOME of each of ``wanted``; what goes wrong with one stands in its result, the others go on.

    Every backup is read to its end before the first volume is made.
    """
    with request.locked("import"):
        volumes = by_name(request.engine)
        planned = [_plan_one(request, item, volumes) for item in wanted]
        _refuse_twice(planned)
        if request.engine and not request.check:
            for result, job in planned:
                if job and not result.error:
                    _apply_one(request, request.engine, result, job)
    return [result for result, _ in planned]


def _plan_one(request: Request, wanted: Wanted, volumes: Mapping[str, Volume]) -> tuple[Result, _Job | None]:
    result = Result(wanted.name, wanted.file)
    try:
        contents = _backup.inspect(wanted.file)
        result.name = wanted.name or contents.manifest.box
        result.size = contents.size
        result.left_out = dict(contents.manifest.left_out)
        job = _decide(request, wanted, result.name, contents, volumes)
    except (AgentboxError, OSError) as error:
        result.error = str(error)
        return result, None
    if job:
        result.actions.append({"action": IMPORT, "detail": job.volume})
        made = f"HOME of box {contents.manifest.box}: {contents.files} files, {contents.size} bytes"
        result.before, result.after = {job.volume: None}, {job.volume: made}
    return result, job


def _decide(
    request: Request, wanted: Wanted, name: str, contents: Contents, volumes: Mapping[str, Volume]
) -> _Job | None:
    """What is to be done; None where the HOME is there already, from this very file."""
    if not _naming.is_name(name):
        raise BackupError(f"'{name}' is no valid name of a box")
    volume = _naming.home_volume(request.instance, name)
    note = _backup_note.read(request.state_dir, volumes.get(volume))
    if note and note.complete and note.digest == contents.digest:
        return None
    _refuse_existing(request, name, None if note and not note.complete else volumes.get(volume))
    place = Place(
        _naming.container_name(request.instance, name),
        wanted.image or _naming.image_tag(request.instance),
        _uid(request, wanted),
        request.instance,
        request.state_dir,
    )
    if request.engine and not request.check and not request.engine.inspect_image(place.image):
        raise BackupError(f"there is no image {place.image}", "Build it first: agentbox import does, and role image")
    return _Job(wanted, contents, place, volume, volumes.get(volume))


def _refuse_existing(request: Request, name: str, volume: Volume | None) -> None:
    container = _naming.container_name(request.instance, name)
    hint = "Import under another name: --name"
    for existing in (container, f"{container}{ASIDE}"):
        if request.engine and request.engine.inspect_container(existing):
            raise BackupError(f"there is a container {existing} already", hint)
    if volume:
        raise BackupError(f"there is a HOME of box {name} already, volume {volume.name}", hint)


def _uid(request: Request, wanted: Wanted) -> int:
    """The box uid, as role box will choose it."""
    facts = _host.workspace_facts(_box.workspace_path(wanted.workspace, request.person))
    if facts.owner is None and wanted.workspace:
        raise BackupError(f"the workspace {wanted.workspace} does not exist", "Make the directory first")
    return _box.chosen_uid(wanted.uid, facts, request.person)


def _refuse_twice(planned: Sequence[tuple[Result, _Job | None]]) -> None:
    names = [result.name for result, _ in planned]
    for result, _ in planned:
        if names.count(result.name) > 1 and not result.error:
            result.error, result.actions = f"box {result.name} is imported twice", []


def _apply_one(request: Request, engine: Engine, result: Result, job: _Job) -> None:
    try:
        _restore(request, engine, job)
    except (AgentboxError, OSError) as error:
        result.error = str(error)


def _restore(request: Request, engine: Engine, job: _Job) -> None:
    """Make the volume and fill it. One that is not filled to its end goes again, now or by the next run."""
    _helper.remove_left(engine, job.place)
    if job.half:
        _remove(request, engine, job)
    note = Note(secrets.token_hex(8), job.contents.digest, complete=False)
    _backup_note.write(request.state_dir, job.volume, note)
    labels = {
        _naming.LABEL_MANAGED: "true",
        _naming.LABEL_INSTANCE: request.instance,
        _naming.LABEL_UID: str(job.place.uid),
        _naming.LABEL_MARK: note.mark,
    }
    with engine.doing(f"create volume {job.volume}"):
        made = Volume.from_api(engine.client.create_volume(job.volume, labels=labels))
    if made.mark != note.mark:  # the engine answers with the one that is there
        raise BackupError(f"somebody else made volume {job.volume} just now", "Import under another name: --name")
    try:
        _fill(request, engine, job)
    except BaseException:
        with suppress(AgentboxError):
            _remove(request, engine, job)
        raise
    mark_prepared(request.state_dir, [made])
    _backup_note.write(request.state_dir, job.volume, Note(note.mark, note.digest, complete=True))


def _remove(request: Request, engine: Engine, job: _Job) -> None:
    engine.remove_volume(job.volume)
    _backup_note.forget(request.state_dir, job.volume)


def _fill(request: Request, engine: Engine, job: _Job) -> None:
    mount = {
        "Type": "volume",
        "Source": job.volume,
        "Target": _naming.BOX_HOME,
        "VolumeOptions": {"NoCopy": True},
    }
    with _helper.beside(engine, job.place, [mount]) as helper, _backup.opened(job.wanted.file) as backup:
        parts = packed(map(partial(_placed, uid=job.place.uid), _below_home(backup.members())))
        with engine.doing(f"write HOME of {job.place.container}"):
            engine.client.put_archive(helper, "/", _told(request, job, parts))
        if backup.digest() != job.contents.digest:
            raise BackupError("it changed while it was read")


def _below_home(members: Iterator[Member]) -> Iterator[Member]:
    return (member for member in members if member[0].name.partition("/")[0] == HOME)


def _placed(member: Member, uid: int) -> Member:
    """A member where the helper has HOME, owned by the box."""
    info, content = member
    placed = tarfile.TarInfo(_path(info.name))
    placed.type, placed.size, placed.mode, placed.mtime = info.type, info.size, info.mode, info.mtime
    placed.linkname = _path(info.linkname) if info.islnk() else info.linkname
    placed.uid, placed.gid = uid, _naming.BOX_GID
    return placed, content


def _path(name: str) -> str:
    return f"{_naming.BOX_HOME}{name.removeprefix(HOME)}".lstrip("/")


def _told(request: Request, job: _Job, parts: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in parts that are worth sending, with a line of progress now and then."""
    waiting, sent, told = bytearray(), 0, 0
    for part in parts:
        waiting += part
        if len(waiting) < _PART:
            continue
        yield bytes(waiting)
        sent += len(waiting)
        waiting.clear()
        if sent - told >= _STEP:
            told = sent
            request.report(f"import {job.place.container}: {sent >> 20} of {job.contents.size >> 20} MiB")
    if waiting:  # a part without content would end the request
        yield bytes(waiting)
