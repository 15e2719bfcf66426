"""Which image is in use: giving one the tag, keeping the one before for a way back, removing those before that."""

from __future__ import annotations

import http
from collections.abc import Iterable
from pathlib import Path

from ._engine import Engine
from ._errors import EngineError
from ._image_plan import Live, Record
from ._image_types import Action, Image, Request, Result, action
from ._naming import LABEL_INSTANCE, LABEL_MANAGED
from ._state import json_file, read_json, remove_file, write_file


def live(engine: Engine, name: str) -> Live | None:
    """The image that carries a tag."""
    return Live.from_inspect(engine.inspect_image(name))


def require_own(image: Live | None, name: str) -> None:
    """Refuse to take a tag away from an image that no instance of Agentbox made."""
    if image and not image.instance:
        raise EngineError(f"{name} is an image that Agentbox did not make", "Remove that tag, or choose another name")


def read_record(request: Request, name: str) -> Record:
    return Record.from_json(read_json(request.record_path(name)))


def put_into_use(engine: Engine, request: Request, image_id: str, before: Live | None, record: Record) -> list[Action]:
    """Give the tag to an image; ``before`` had it so far, ``record`` tells what the image was made of.

    The image before is kept under ``request.previous`` with its record, see ``restore``.
    """
    done = []
    last = read_record(request, request.name)
    if before and before.image_id != image_id and before.instance == request.instance and request.keep:
        _tag(engine, before.image_id, request.previous)
        _write_record(request, request.previous, last)
        done.append(action("keep", f"{request.previous}, the image before"))
    _tag(engine, image_id, request.name)
    _write_record(request, request.name, record)
    for stage in set(last.stages) - set(record.stages):
        discard(engine, stage, parents=True)
    return [action("tag", request.name), *done, *_prune(engine, request)]


def restore(engine: Engine | None, request: Request, *, check: bool) -> Result:
    """Give the tag back to the image that was in use before; nothing to do where it has it already.

    Raises ``EngineError`` when there is no image before.
    """
    previous = live(engine, request.previous) if engine else None
    if engine is None or previous is None or previous.instance != request.instance:
        raise EngineError(
            f"there is no image before {request.name}: instance {request.instance} has no {request.previous}",
            "Declare the packages and versions of before and build",
        )
    current = live(engine, request.name)
    require_own(current, request.name)
    if current and current.image_id == previous.image_id:
        return Result(Image.of(current), Image.of(current))
    if not check:
        _tag(engine, previous.image_id, request.name)
        _write_record(request, request.name, read_record(request, request.previous))
        _prune(engine, request)
    tagged = action("tag", f"{request.name}, the image of {request.previous}")
    return Result(Image.of(current), Image.of(previous), [tagged])


def remove(engine: Engine | None, request: Request, *, check: bool) -> Result:
    """Remove the images of this instance with their records; an image of another maker is left alone."""
    if engine is None:
        return Result(None, None)
    before = Image.of(live(engine, request.name))
    names = [name for name in (request.name, request.previous, request.repository) if name]
    found = {name: image for name in names if (image := live(engine, name))}
    own = [name for name, image in found.items() if image.instance == request.instance]
    foreign = [name for name in found if name not in own]
    files = [request.archive_path] if Path(request.archive_path).is_file() else []
    superseded = _unused(engine, _untagged(engine, request.instance))
    if not check:
        for name in own:
            _remove_tag(engine, request, name)
        for image_id in superseded:
            discard(engine, image_id, parents=True)
        for path in [*files, *([request.archive_note] if files else [])]:
            remove_file(path)
    after = before if request.name in foreign else None
    warnings = [f"image {name} was not made by instance {request.instance} and is left alone" for name in foreign]
    return Result(before, after, [action("remove", thing) for thing in (*own, *superseded, *files)], warnings)


def _prune(engine: Engine, request: Request) -> list[Action]:
    """Remove the instance's images that lost their tag, but for the newest ones that are to be kept.

    One of those to be kept is tagged, see ``put_into_use``. What a container uses stays.
    """
    if not request.keep:
        _untag_previous(engine, request)
    superseded = _untagged(engine, request.instance)[max(request.keep - 1, 0) :]
    removed = [image_id for image_id in superseded if discard(engine, image_id)]
    return [action("prune", f"{len(removed)} superseded images")] if removed else []


def _untag_previous(engine: Engine, request: Request) -> None:
    """Forget the way back that a run with another ``keep`` has left."""
    previous = live(engine, request.previous)
    if previous and previous.instance == request.instance:
        _remove_tag(engine, request, request.previous)


def discard(engine: Engine, image_id: str, *, parents: bool = False) -> bool:
    """Remove an image, unless it has a tag or is in use; whether it is gone.

    Its untagged ``parents`` are what later builds find in the cache.
    """
    import docker.errors

    found = engine.inspect_image(image_id)
    if found is None or found.get("RepoTags"):
        return False
    with engine.doing(f"remove image {image_id}"):
        try:
            engine.client.remove_image(image_id, noprune=not parents)
        except docker.errors.APIError as error:
            if error.status_code not in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT):
                raise
            return False
    return True


def _untagged(engine: Engine, instance: str) -> list[str]:
    """IDs of the instance's images without a tag, newest first."""
    labels = [f"{LABEL_MANAGED}=true", f"{LABEL_INSTANCE}={instance}"]
    images = engine.untagged_images(labels)
    return [image["Id"] for image in sorted(images, key=lambda image: int(image["Created"]), reverse=True)]


def _unused(engine: Engine, images: Iterable[str]) -> list[str]:
    """Those of ``images`` that no container was made from."""
    used = {container["ImageID"] for container in engine.containers(stopped=True)}
    return [image for image in images if image not in used]


def _tag(engine: Engine, image_id: str, name: str) -> None:
    repository, _, tag = name.rpartition(":")
    with engine.doing(f"tag {name}"):
        engine.client.tag(image_id, repository, tag, force=True)


def _remove_tag(engine: Engine, request: Request, name: str) -> None:
    with engine.doing(f"remove image {name}"):
        engine.client.remove_image(name)
    if Path(request.state_dir).is_dir():
        remove_file(request.record_path(name))


def _write_record(request: Request, name: str, record: Record) -> None:
    write_file(json_file(request.record_path(name), record.as_json(), 0o600))
