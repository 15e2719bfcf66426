"""Reading small files of an image without running anything in it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable

from ._engine import Engine
from ._naming import LABEL_MANAGED


def read_files(engine: Engine, image_id: str, paths: Iterable[str]) -> dict[str, str]:
    """Contents of those of ``paths`` that are regular files, by path."""
    with engine.doing(f"look into image {image_id}"):
        container = engine.client.create_container(image_id, command=["true"], labels={LABEL_MANAGED: "true"})["Id"]
        try:
            found = {path: _read(engine, container, path) for path in paths}
        finally:
            engine.client.remove_container(container, force=True, v=True)
    return {path: text for path, text in found.items() if text is not None}


def _read(engine: Engine, container: str, path: str) -> str | None:
    import docker.errors

    try:
        chunks, _ = engine.client.get_archive(container, path)
    except docker.errors.NotFound:
        return None
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        entry = tar.next()
        stream = tar.extractfile(entry) if entry and entry.isreg() else None
        return stream.read().decode("utf-8", "replace") if stream else None
