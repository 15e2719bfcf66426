"""Making an image that was built here available to other hosts: in a registry, or as an archive that is carried."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from . import _archive, _registry
from ._archive import Archive
from ._engine import Engine
from ._image_types import Action, Image, Request, Result, action
from ._image_use import live
from ._progress import Report
from ._state import json_file, read_json, write_file


def publish(engine: Engine, request: Request, result: Result, *, check: bool, report: Report) -> Result:
    """``result`` of a build, with the image pushed and saved as far as the request says so and it is not already."""
    image = result.after
    if image is None or not image.image_id:
        return predicted(request, result)
    actions: list[Action] = []
    if request.repository:
        digest = _pushed(engine, request)
        if not digest:
            actions.append(action("push", request.repository))
            digest = "" if check else _push(engine, request, image, report)
        image = replace(image, digest=digest)
    if request.save:
        archive = _saved(request, image)
        if archive is None:
            actions.append(action("save", request.archive_path))
            archive = None if check else _save(engine, request, image, report)
        image = replace(image, archive=archive)
    return replace(result, after=image, actions=[*result.actions, *actions])


def predicted(request: Request, result: Result) -> Result:
    """As ``publish``, for an image that is yet to be built."""
    actions = [action("push", request.repository)] if request.repository else []
    actions += [action("save", request.archive_path)] if request.save else []
    return replace(result, actions=[*result.actions, *actions])


def _pushed(engine: Engine, request: Request) -> str:
    """The digest of the image in the registry, if the tag there means this image; else empty."""
    image = live(engine, request.name)
    digest = _registry.resolve(engine, request.repository, request.login) if image and image.digests else None
    known = digest and image and _registry.pinned(request.repository, digest) in image.digests
    return digest if digest and known else ""


def _push(engine: Engine, request: Request, image: Image, report: Report) -> str:
    report(f"push: {request.repository}")
    return _registry.push(engine, image.image_id, request.repository, request.login, report)


def _saved(request: Request, image: Image) -> Archive | None:
    """The archive of this image, if it is there."""
    path = request.archive_path
    noted = read_json(request.archive_note) or {}
    size = Path(path).stat().st_size if Path(path).is_file() else None
    current = noted.get("image_id") == image.image_id and noted.get("size") == size
    return Archive(path, str(noted.get("checksum")), int(noted["size"])) if current else None


def _save(engine: Engine, request: Request, image: Image, report: Report) -> Archive:
    archive = _archive.save(engine, image.image_id, request.archive_path, _reader(request), report)
    note = {"image_id": image.image_id, "checksum": archive.checksum, "size": archive.size}
    write_file(json_file(request.archive_note, note, 0o600))
    return archive


def _reader(request: Request) -> int:
    """Who fetches the archive: the user that became root."""
    sudo_uid = request.environ.get("SUDO_UID", "")
    return int(sudo_uid) if os.geteuid() == 0 and sudo_uid.isdecimal() else os.geteuid()
