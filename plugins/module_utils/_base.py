"""The base image: chosen once, then kept; pulled where there is a registry, made from Debian packages where not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import _lines, _registry
from ._engine import Engine
from ._errors import AgentboxError, DeclarationError
from ._image_read import read_files
from ._naming import LABEL_MANAGED
from ._progress import Report
from ._registry import NOBODY, Login
from ._sources import AptSource, without_login

SOURCES = ("auto", "registry", "debootstrap")
FAILURE_LINES = 30
_DEBIAN = re.compile(r"^(?:[a-z0-9.:-]+/)*debian:(?P<suite>[a-z]+)(?:-slim)?(?:@sha256:[0-9a-f]{64})?$")
_APT = "/usr/bin/apt-get"
_OS_RELEASES = ("/usr/lib/os-release", "/etc/os-release")
# What no box reads: package archives and lists, documentation, translations.
_LEFT_OUT = (
    "./var/cache/apt/archives/*.deb",
    "./var/cache/apt/*.bin",
    "./var/lib/apt/lists/*",
    "./var/log/*.log",
    "./usr/share/doc/*",
    "./usr/share/man/*",
    "./usr/share/info/*",
    "./usr/share/locale/*",
)


class BaseError(AgentboxError):
    """No base image could be had."""


@dataclass(frozen=True)
class Base:
    """A base image. ``wanted`` is what was asked for, ``reference`` the tag that stands for it in the engine."""

    wanted: str
    source: str  # "registry" or "debootstrap"
    reference: str


def suite_of(reference: str) -> str | None:
    """Debian's code name in a reference like ``debian:bookworm-slim``, None for any other image."""
    found = _DEBIAN.match(reference)
    return found["suite"] if found else None


def debootstrapped(suite: str) -> str:
    """The tag of a base made here; all instances of an engine share it."""
    return f"agentbox-base:{suite}"


def ways(wanted: str, source: str, recorded: Base | None, present: Collection[str]) -> list[Base]:
    """The bases to try, best first; the first one that is present or can be had is taken.

    A recorded base of the same wish stays as long as the engine has it and its source is still allowed. ``present``
    are the references that the engine has.
    """
    suite = suite_of(wanted)
    if source == "debootstrap" and not suite:
        raise DeclarationError(f"base: {wanted} is no Debian image, debootstrap can't make it")
    pulled = Base(wanted, "registry", wanted)
    made = Base(wanted, "debootstrap", debootstrapped(suite)) if suite else None
    allowed = [way for way in (pulled, made) if way and source in ("auto", way.source)]
    sticky = [way for way in allowed if way == recorded and way.reference in present]
    return [*sticky, *(way for way in allowed if way not in sticky)]


def obtain(
    engine: Engine,
    candidates: Iterable[Base],
    sources: Iterable[AptSource],
    environ: Mapping[str, str],
    report: Report,
    *,
    login: Login = NOBODY,
) -> tuple[Base, str]:
    """Have one of ``candidates`` in the engine; it and its image ID.

    ``login`` is for their registry, ``sources`` are the host's archives for the base, ``environ`` is for programs that
    fetch from them (proxies).
    Raises ``BaseError`` with what went wrong on every way.
    """
    failures = []
    mirror = _mirror(sources)
    for way in candidates:
        try:
            if engine.inspect_image(way.reference) is None:
                if way.source == "registry":
                    report(f"base: pulling {way.reference}")
                    _registry.pull(engine, way.reference, login, lambda line: report(f"base: {line}"))
                else:
                    _debootstrap(engine, way, mirror, environ, report)
        except AgentboxError as error:
            report(f"base: {error}")
            failures.append(str(error))
            continue
        return way, _image_id(engine, way.reference)
    raise BaseError("no base image: " + "; ".join(failures), "Load one into the engine, or set base to one it has")


def _image_id(engine: Engine, reference: str) -> str:
    image = engine.inspect_image(reference)
    if image is None:
        raise BaseError(f"image {reference} vanished from the engine")
    return str(image["Id"])


def require_apt(engine: Engine, image_id: str, reference: str) -> None:
    """Refuse a base that images can't be built from: every step of theirs begins with Debian's packages."""
    found = read_files(engine, image_id, (_APT, *_OS_RELEASES))
    if _APT in found:
        return
    named = re.search(r'^PRETTY_NAME="?([^"\n]+)', "\n".join(found.values()), re.MULTILINE)
    what = named[1] if named else "an unknown system"
    raise BaseError(
        f"base: {reference} is {what} without apt-get, which every image is built with",
        "Choose a base that derives from Debian, e.g. debian:bookworm-slim",
    )


def _mirror(sources: Iterable[AptSource]) -> str | None:
    """The first archive of the suite itself that needs no login, which would stand in debootstrap's arguments."""
    for source in sources:
        if source.suite.isalpha() and without_login(source.uri)[1] is None:
            return source.uri
    return None


def _debootstrap(engine: Engine, way: Base, mirror: str | None, environ: Mapping[str, str], report: Report) -> None:
    suite = suite_of(way.wanted)
    program = shutil.which("debootstrap", path=f"{environ.get('PATH', '')}:/usr/sbin:/sbin")
    if not program:
        raise BaseError("debootstrap is not installed", "Install it, the image role does")
    if os.geteuid() != 0:
        raise BaseError("debootstrap needs root", "Run as root or through sudo")
    if not mirror or not suite:
        raise BaseError(f"no http(s) APT source of this host has {suite} without a login", "Add one to its APT sources")
    # Not in /tmp, which is often mounted nodev; mounts made in it vanish with the namespace of debootstrap.
    with tempfile.TemporaryDirectory(prefix="agentbox-base-", dir="/var/tmp") as directory:
        root = str(Path(directory, "root"))
        report(f"base: making Debian {suite} from the host's APT sources")
        _run_debootstrap(
            [program, "--variant=minbase", "--include=ca-certificates", suite, root, mirror], environ, report
        )
        report("base: importing into the engine")
        _import(engine, root, way.reference)


def _run_debootstrap(command: list[str], environ: Mapping[str, str], report: Report) -> None:
    last: deque[str] = deque(maxlen=FAILURE_LINES)

    def observe(line: str) -> None:
        last.append(line)
        report(f"base: {line.removeprefix('I: ')}")

    try:
        status = _lines.run(
            ["unshare", "--mount", *command],
            observe,
            lambda: report("base: debootstrap is working"),
            # A base that is torn by a power cut is never imported, so dpkg need not sync every file.
            environ={**environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "DPKG_FORCE": "unsafe-io"},
        )
    except OSError as error:
        raise BaseError(f"cannot run debootstrap: {error}") from error
    if status != 0:
        lines = "\n".join(last)
        raise BaseError(f"debootstrap failed with status {status}; last lines:\n{lines}", "Check the APT sources")


def _import(engine: Engine, root: str, reference: str) -> None:
    command = ["tar", "-C", root, "--numeric-owner", *(f"--exclude={path}" for path in _LEFT_OUT), "-c", "."]
    repository, _, tag = reference.rpartition(":")
    changes = ['CMD ["bash"]', f"LABEL {LABEL_MANAGED}=true"]
    with (
        engine.doing(f"import {reference}"),
        subprocess.Popen(command, stdout=subprocess.PIPE) as tar,
    ):
        engine.client.import_image_from_stream(tar.stdout, repository=repository, tag=tag, changes=changes)
    if tar.returncode != 0:
        engine.client.remove_image(reference)
        raise BaseError(f"packing the base failed, tar ended with status {tar.returncode}")
