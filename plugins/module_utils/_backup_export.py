"""Writing boxes into backups: planned for each, then done one after the other."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import _helper, _naming, _ownership, _state
from ._archive import compressed, new_file
from ._backup import CHECKSUMS, HOME, MANIFEST, MODE, SECRETS, Manifest, Tree, checksum
from ._backup_run import Request, Result
from ._backup_tar import BackupError, packed
from ._engine import Engine
from ._errors import AgentboxError, EngineError
from ._helper import Place
from ._naming import BoxPaths
from ._progress import Report

EXPORT = "export"
_PAUSED = "agentbox.paused"  # label of a helper: its box stands still for it
_PAUSE_TRIES = 5  # the kernel may fail to freeze processes that are being started
# Logins of programs that no manifest names.
_OTHER_LOGINS = (".config/gh/hosts.yml", ".config/git/credentials", ".git-credentials", ".netrc")
_STEP = 64 << 20  # bytes between two lines of progress


@dataclass(frozen=True)
class Wanted:
    """A box to export into ``file``, an absolute path."""

    name: str
    file: str
    logins: bool = False
    secrets: bool = False


@dataclass
class _Job:
    """One box with everything decided."""

    wanted: Wanted
    place: Place
    live: Mapping[str, Any]
    manifest: Manifest
    secrets: Mapping[str, bytes] = field(repr=False)


def export(request: Request, wanted: Sequence[Wanted]) -> list[Result]:
    """Write each of ``wanted``; what goes wrong with one stands in its result and does not stop the others."""
    engine = request.engine
    if engine is None:
        raise EngineError("no engine is installed, so that there is no box to export")
    with request.locked("export"):
        return [_one(request, engine, item, wanted) for item in wanted]


def _one(request: Request, engine: Engine, wanted: Wanted, all_wanted: Sequence[Wanted]) -> Result:
    result = Result(wanted.name, wanted.file)
    try:
        _check_file(wanted, all_wanted)
        job = _plan_one(request, engine, wanted)
        result.actions.append({"action": EXPORT, "detail": wanted.file})
        result.before, result.after = {wanted.file: None}, {wanted.file: f"backup of box {wanted.name}"}
        result.left_out = {key: list(value) for key, value in job.manifest.left_out.items()}
        if not request.check:
            result.left_out = _write(engine, job, _caller(os.environ), request.report)
            result.size = Path(wanted.file).stat().st_size
    except (AgentboxError, OSError) as error:
        result.error = str(error)
    return result


def _caller(environ: Mapping[str, str]) -> int:
    """The uid of the person who gets the file, seen through sudo."""
    through_sudo = environ.get("SUDO_UID", "")
    return int(through_sudo) if os.geteuid() == 0 and through_sudo.isdecimal() else os.geteuid()


def _check_file(wanted: Wanted, all_wanted: Iterable[Wanted]) -> None:
    path = Path(wanted.file)
    if sum(other.file == wanted.file for other in all_wanted) > 1:
        raise BackupError(f"{path} is named for two boxes")
    if os.path.lexists(path):
        raise BackupError(f"{path} exists already", "Choose another file, or remove it")
    if not path.is_absolute() or not path.parent.is_dir():
        raise BackupError(f"{path.parent} is no directory for a backup", "Make the directory first")


def _plan_one(request: Request, engine: Engine, wanted: Wanted) -> _Job:
    instance, state_dir = request.instance, request.state_dir
    container = _naming.container_name(instance, wanted.name)
    live = engine.inspect_container(container)
    if live is None:
        raise BackupError(f"there is no box {wanted.name}", "`agentbox ls` lists the boxes")
    _ownership.check_owner(f"box {wanted.name}", live, instance, wanted.name, state_dir)
    paths = BoxPaths(state_dir, wanted.name)
    record = _state.read_json(paths.record)
    if record is None:
        raise BackupError(f"the record of box {wanted.name} is missing or damaged", "Converge the box first")
    spec = dict(record.get("spec") or {})
    secrets = _secrets(paths, spec) if wanted.secrets else {}
    left_out = {
        "logins": [] if wanted.logins else login_files(request.manifests, spec.get("env") or {}),
        "secrets": sorted(set(spec.get("secrets") or ()) - set(secrets)),
    }
    labels = live["Config"].get("Labels") or {}
    return _Job(
        wanted,
        Place(container, str(live["Image"]), int(record.get("uid") or 0), instance, state_dir),
        live,
        Manifest(
            box=wanted.name,
            instance=instance,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            declaration=spec,
            image=str(live["Config"].get("Image") or ""),
            context=str(labels.get(_naming.LABEL_CONTEXT) or ""),
            left_out=left_out,
        ),
        secrets,
    )


def login_files(manifests: Mapping[str, Any], env: Mapping[str, str]) -> list[str]:
    """Where agents and the tools of their trade keep logins, as paths below HOME; ``env`` is that of the box."""
    found = set(_OTHER_LOGINS)
    for manifest in manifests.values():
        config, file = manifest.get("config") or {}, (manifest.get("credentials") or {}).get("file")
        if config and file:
            moved = str(env.get(str(config.get("variable")), "")).rstrip("/")
            found.add(f"{config['directory']}/{file}")
            if moved.startswith(f"{_naming.BOX_HOME}/"):
                found.add(f"{moved.removeprefix(f'{_naming.BOX_HOME}/')}/{file}")
    return sorted(found)


def _secrets(paths: BoxPaths, spec: Mapping[str, Any]) -> dict[str, bytes]:
    found = {name: _state.read_file(f"{paths.secrets}/{name}") for name in spec.get("secrets") or ()}
    missing = sorted(name for name, value in found.items() if value is None)
    if missing:
        raise BackupError(f"the values of the secrets {', '.join(missing)} are missing", "Converge the box first")
    return {name: value for name, value in found.items() if value is not None}


def _write(engine: Engine, job: _Job, uid: int, report: Report) -> dict[str, list[str]]:
    """Write the file of one box; what was left out, in the end."""
    _heal(engine, job)
    sieve = Sieve(job.manifest.left_out["logins"])
    with (
        new_file(job.wanted.file, uid) as stream,
        _standing_still(engine, job) as helper,
        compressed(stream) as output,
    ):
        written, told = 0, 0
        for part in packed(_members(engine, job, helper, sieve)):
            written += output.write(part)
            if written - told >= _STEP:
                told = written
                report(f"export {job.wanted.name}: {written >> 20} MiB")
    return {"logins": sieve.logins, "secrets": job.manifest.left_out["secrets"], "others": sieve.others}


def _heal(engine: Engine, job: _Job) -> None:
    """Let a box go on that a killed run left standing still."""
    left = _helper.left(engine, job.place)
    if left and (left["Config"].get("Labels") or {}).get(_PAUSED) and job.live["State"].get("Paused"):
        with engine.doing(f"unpause container {job.place.container}"):
            engine.client.unpause(job.live["Id"])
        job.live = engine.inspect_container(job.live["Id"]) or job.live


@contextmanager
def _standing_still(engine: Engine, job: _Job) -> Iterator[str]:
    """The id of a helper with the HOME volume, while nothing in the box runs: what is half written is in no backup.

    The helper is the journal: one that is left behind says that its box has to go on.
    """
    state = job.live["State"]
    pause = bool(state.get("Running")) and not state.get("Paused")
    place = replace(job.place, labels={_PAUSED: "true"}) if pause else job.place
    volume = _naming.home_volume(job.place.instance, job.wanted.name)
    mount = {"Type": "volume", "Source": volume, "Target": _naming.BOX_HOME, "VolumeOptions": {"NoCopy": True}}
    with _helper.beside(engine, place, [mount]) as helper:
        if pause:
            with engine.doing(f"pause container {place.container}"):
                _try(lambda: engine.client.pause(job.live["Id"]))
        try:
            yield helper
        finally:
            if pause:
                with engine.doing(f"unpause container {place.container}"):
                    engine.client.unpause(job.live["Id"])


def _try(pause: Callable[[], object]) -> None:
    import docker.errors

    for _ in range(_PAUSE_TRIES):
        try:
            pause()
        except docker.errors.APIError:
            time.sleep(1)
        else:
            return
    pause()


def _members(engine: Engine, job: _Job, helper: str, sieve: Sieve) -> Iterator[tuple[tarfile.TarInfo, Iterable[bytes]]]:
    sums: dict[str, Any] = {}
    contents = {f"{SECRETS}/{name}": value for name, value in sorted(job.secrets.items())}
    for name, value in {MANIFEST: job.manifest.content(), **contents}.items():
        sums[name] = checksum(len(value), hashlib.sha256(value).hexdigest())
        yield _file(name, value), [value]
    with engine.doing(f"read HOME of {job.place.container}"):
        stream, _ = engine.client.get_archive(helper, _naming.BOX_HOME)
        with tarfile.open(fileobj=_Parts(stream), mode="r|") as archive:
            for info in archive:
                taken = sieve.take(info)
                if taken:
                    yield taken, _summed(taken, archive, info, sums)
    index = json.dumps(sums, sort_keys=True).encode()
    yield _file(CHECKSUMS, index), [index]


def _summed(
    taken: tarfile.TarInfo, archive: tarfile.TarFile, info: tarfile.TarInfo, sums: dict[str, Any]
) -> Iterator[bytes]:
    content = archive.extractfile(info) if info.isreg() else None
    if content is None:
        return
    digest = hashlib.sha256()
    while chunk := content.read(1 << 20):
        digest.update(chunk)
        yield chunk
    sums[taken.name] = checksum(info.size, digest.hexdigest())


def _file(name: str, content: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(content), 0o600, int(time.time())
    return info


class Sieve:
    """Takes what travels of a HOME, as members of a backup, and notes the rest by its paths below HOME."""

    def __init__(self, logins: Iterable[str]) -> None:
        self._login_files = frozenset(logins)
        self._tree = Tree()
        self.logins: list[str] = []
        self.others: list[str] = []

    def take(self, found: tarfile.TarInfo) -> tarfile.TarInfo | None:
        """A member as a backup holds it, None for one that stays."""
        below = found.name.partition("/")[2]
        if below in self._login_files:
            self.logins.append(below)
            return None
        info = tarfile.TarInfo(f"{HOME}/{below}".rstrip("/"))
        info.type, info.mode, info.mtime = found.type, found.mode & MODE, int(found.mtime)
        info.size = found.size if found.isreg() else 0
        info.linkname = f"{HOME}/{found.linkname.partition('/')[2]}" if found.islnk() else found.linkname
        if not (found.isreg() or found.isdir() or found.issym() or found.islnk()) or self._tree.add(info):
            self.others.append(below)
            return None
        return info


class _Parts(io.RawIOBase):
    """What arrives in parts, as a file that tarfile reads: it takes more than it has asked for."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        super().__init__()
        self._parts = iter(parts)

    def read(self, _size: int = -1) -> bytes:
        return next((part for part in self._parts if part), b"")
