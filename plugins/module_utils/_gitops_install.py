"""Installing the service of a host that converges itself: what is there, what has to be done, doing it.

The environment and the collection lie in directories named after the digest of what went into them, beside a link that
names the one in use. So a run that is going on keeps its own; the next one removes what no link names.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from . import _lines, _proxy
from ._errors import AgentboxError, DeclarationError
from ._gitops import COLLECTION_FOLDER, SERVICE, TIMER, UNIT, Places, Settings
from ._programs import call, plain_environment
from ._progress import Report
from ._state import (
    Directory,
    File,
    directory_differs,
    ensure_directory,
    file_differs,
    json_file,
    locked,
    read_file,
    read_json,
    remove_tree,
    replace_link,
    write_file,
)

_REQUIREMENTS = "requirements/agentbox.txt"
_STAMP = ".complete"  # written last; without it a directory is the left-over of a killed run
_DIGEST_CHARS = 16
_LINES_SHOWN = 15
SYSTEMD = Path("/run/systemd/system")


class InstallError(AgentboxError):
    """A program that the installation calls failed; the message holds the end of what it said."""


@dataclass(frozen=True)
class Action:
    """One thing to do: how it is told, and how it is done."""

    action: str
    detail: str
    apply: Callable[[], None]

    def as_result(self) -> dict[str, str]:
        return {"action": self.action, "detail": self.detail}


@dataclass(frozen=True)
class Wanted:
    """Everything that shall be on the host. ``archive`` is the packed collection, ``keys`` maps a file to its text."""

    settings: Settings
    archive: bytes
    keys: Mapping[Path, str]
    units: Mapping[str, str]


def unpacked(text: str) -> bytes:
    """The archive of option ``collection``; ``DeclarationError`` for any other text."""
    try:
        archive = base64.b64decode(text, validate=True)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.getmember(_REQUIREMENTS)
    except (binascii.Error, tarfile.TarError, EOFError, KeyError, OSError):
        raise DeclarationError(
            "collection: not the packed collection", "Take it from lookup agentbox.fleet.collection_archive"
        ) from None
    return archive


def plan(wanted: Wanted, places: Places, report: Report) -> list[Action]:
    """What has to be done, in order; looks at the host and changes nothing. ``report`` is for when it is done."""
    requirements = _member(wanted.archive, _REQUIREMENTS)
    python, collections = _python(wanted, places), _collections(wanted, places)
    environ = {**plain_environment(), **wanted.settings.environment}
    directories = [Directory(str(places.config), 0o755), Directory(str(places.code), 0o755)]
    files = [
        json_file(str(places.settings), wanted.settings.to_json(), 0o600),
        *(File(str(path), text.encode(), 0o644) for path, text in wanted.keys.items() if text),
    ]
    units = [File(str(places.units / name), text.encode(), 0o644) for name, text in wanted.units.items()]
    return [
        *(Action("make_directory", d.path, partial(ensure_directory, d)) for d in directories if directory_differs(d)),
        *_made(python, "make_environment", partial(_make_environment, python, requirements, environ, report)),
        *_made(collections, "unpack_collection", partial(_unpack, collections, wanted.archive)),
        *_linked(places.python, python),
        *_linked(places.collections, collections),
        *_written(files),
        *_removed(path for path, text in wanted.keys.items() if not text),
        *_units(units),
    ]


def plan_absence(places: Places, remove_data: bool) -> list[Action]:
    """What has to be done so that nothing of the service is left; its state only if ``remove_data``."""
    units = [places.units / name for name in (TIMER, SERVICE)]
    stop = [Action("disable", TIMER, _end_timer)] if units[0].exists() else []
    gone = _removed(units)
    paths = [places.config, places.code, *([places.state] if remove_data else [])]
    return [*stop, *gone, *_reloaded(gone), *_removed(paths)]


def shown(wanted: Wanted | None, places: Places) -> tuple[dict[str, Any], dict[str, Any]]:
    """How a diff shows the service: as it is and as it has to be, without what may be secret. None is: not there."""
    settings = read_json(str(places.settings))
    units = {name: text.decode() for name in (SERVICE, TIMER) if (text := read_file(str(places.units / name)))}
    links = {link.name: link.readlink().name for link in (places.python, places.collections) if link.is_symlink()}
    before = {"settings": _told(settings), "units": units, "links": links} if settings or units or links else {}
    if wanted is None:
        return before, {}
    names = (places.python, _python(wanted, places)), (places.collections, _collections(wanted, places))
    after_links = {link.name: target.name for link, target in names}
    return before, {"settings": _told(wanted.settings.to_json()), "units": dict(wanted.units), "links": after_links}


def _told(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings without the values of the environment, in which a proxy's password may stand."""
    return {**settings, "environment": sorted(settings.get("environment") or {})} if settings else {}


def _python(wanted: Wanted, places: Places) -> Path:
    """Directory of the environment for the pinned packages and this Python."""
    return places.code / f"python-{_digest(_member(wanted.archive, _REQUIREMENTS), sys.version.encode())}"


def _collections(wanted: Wanted, places: Places) -> Path:
    return places.code / f"collections-{_digest(wanted.archive)}"


def apply(actions: Sequence[Action], places: Places, report: Report, lock_timeout: float | None) -> None:
    """Do it. With a ``lock_timeout`` it waits so many seconds for a run that is going on."""
    held = lock_timeout is not None and places.state.is_dir()
    with locked(str(places.state), "role gitops", lock_timeout or 0) if held else nullcontext():
        for action in actions:
            report(f"{action.action} {action.detail}")
            action.apply()


def _written(wanted: Iterable[File]) -> list[Action]:
    return [Action("write_file", item.path, partial(write_file, item)) for item in wanted if file_differs(item)]


def _removed(paths: Iterable[Path]) -> list[Action]:
    there = [path for path in paths if path.exists() or path.is_symlink()]
    return [Action("remove_path", str(path), partial(remove_tree, str(path))) for path in there]


def _made(directory: Path, what: str, make: Callable[[], None]) -> list[Action]:
    """An action that makes ``directory`` completely; a part that a killed run left goes first."""

    def fresh() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(mode=0o755)
        make()
        (directory / _STAMP).touch()

    return [] if (directory / _STAMP).exists() else [Action(what, str(directory), fresh)]


def _linked(link: Path, target: Path) -> list[Action]:
    """An action that lets ``link`` name ``target``, which lies beside it."""
    current = link.is_symlink() and str(link.readlink()) == target.name
    return [] if current else [Action("link", str(link), partial(replace_link, link, target.name))]


def _units(wanted: Sequence[File]) -> list[Action]:
    """Units written, systemd told of them, the timer enabled and running. Only the timer starts the service."""
    written = _written(wanted)
    # A running timer computes its next time only when it is started anew.
    timer_written = any(action.detail.endswith(TIMER) for action in written)
    enable = [] if _is("is-enabled") else [Action("enable", TIMER, partial(_systemctl, "enable", TIMER))]
    running = _is("is-active") and not timer_written
    start = [] if running else [Action("start", TIMER, partial(_systemctl, "restart", TIMER))]
    return [*written, *_reloaded(written), *enable, *start]


def _reloaded(changed: Sequence[Action]) -> list[Action]:
    return [Action("reload", "systemd", partial(_systemctl, "daemon-reload"))] if changed else []


def _is(question: str) -> bool:
    return call("systemctl", question, "--quiet", TIMER).returncode == 0


def _systemctl(*arguments: str) -> None:
    done = call("systemctl", *arguments)
    if done.returncode != 0:
        raise InstallError(f"systemctl {' '.join(arguments)} failed: {done.stderr.strip()}")


def _end_timer() -> None:
    _systemctl("disable", "--now", TIMER)
    call("systemctl", "reset-failed", SERVICE)  # else systemd goes on to list a service whose last run failed


def verify_units(units: Mapping[str, str]) -> None:
    """Let systemd judge units that are not installed yet; ``DeclarationError`` with what it says.

    That their program is not there before it is installed is no fault of theirs.
    """
    if set(units) != {SERVICE, TIMER} or not all(isinstance(text, str) for text in units.values()):
        raise DeclarationError(f"units: must be the texts of {SERVICE} and {TIMER}")
    with TemporaryDirectory(prefix="agentbox-units-") as directory:
        for name, text in units.items():
            Path(directory, name).write_text(text, encoding="utf-8")
        done = call("systemd-analyze", "verify", "--man=no", *(f"{directory}/{name}" for name in units))
    lines = [line.replace(f"{directory}/", "") for line in done.stderr.splitlines() if UNIT in line]
    told = [line for line in lines if not line.endswith("No such file or directory")]
    if told:
        raise DeclarationError(f"units: systemd does not accept them: {'; '.join(told)}", "Look at the schedule")


def _make_environment(directory: Path, requirements: bytes, environ: Mapping[str, str], report: Report) -> None:
    """An environment with exactly the pinned packages, through the host's own pip configuration."""
    _run([sys.executable, "-m", "venv", str(directory)], environ, report)
    pinned = directory / "requirements.txt"
    pinned.write_bytes(requirements)
    install = ("install", "--require-hashes", "--no-input", "--disable-pip-version-check", "--no-cache-dir")
    _run([str(directory / "bin/python"), "-m", "pip", *install, "--requirement", str(pinned)], environ, report)


def _run(command: Sequence[str], environ: Mapping[str, str], report: Report) -> None:
    lines: list[str] = []
    start = time.monotonic()

    def observe(line: str) -> None:
        shown = _proxy.without_logins(line)
        lines.append(shown)
        report(shown)

    code = _lines.run(command, observe, lambda: report(f"{time.monotonic() - start:.0f} s so far"), environ=environ)
    if code != 0:
        raise InstallError(f"{' '.join(command[:4])} failed:\n" + "\n".join(lines[-_LINES_SHOWN:]))


def _unpack(directory: Path, archive: bytes) -> None:
    target = directory / COLLECTION_FOLDER
    target.mkdir(parents=True)
    # Older Pythons know no filters; the archive comes from the controller, which is root here anyway.
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(target, **safely)  # noqa: S202 - see above


def _member(archive: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        stream = tar.extractfile(name)
        return stream.read() if stream else b""


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:_DIGEST_CHARS]
