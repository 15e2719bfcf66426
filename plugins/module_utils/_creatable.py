"""Whether a container can be made for a box from what the engine has. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ._box import Box, ImageFacts
from ._errors import DeclarationError
from ._payload import volumes
from ._volumes import Volume


def check_creatable(box: Box, image: ImageFacts | None, existing: Mapping[str, Volume], *, predict: bool) -> None:
    """Raise ``DeclarationError`` for an image or a volume that is not what the box needs.

    ``existing`` are the volumes by name. With ``predict`` an image that is not there may yet come.
    """
    if image is None:
        if predict:
            return
        raise DeclarationError(
            f"{box.spec.path}.image: the engine holds no image {box.spec.image}",
            "Build it with role image or agentbox up",
        )
    for index, agent in enumerate(box.spec.agents):
        if agent not in image.agents:
            raise DeclarationError(
                f"{box.spec.path}.agents[{index}]: image {image.reference} does not hold {agent} "
                f"(it holds {', '.join(sorted(image.agents)) or 'none'})",
                "Add it to agentbox_agents and build the image again",
            )
    for mount in box.spec.volumes:
        volume = existing.get(mount.source)
        if volume and volume.instance not in ("", box.setting.instance):
            raise DeclarationError(f"{box.spec.path}.volumes: {mount.source} belongs to instance {volume.instance}")
    for name in volumes(box):
        volume = existing.get(name)
        if volume and volume.instance not in ("", box.setting.instance):
            raise DeclarationError(
                f"{box.spec.path}.name: volume {name} belongs to instance {volume.instance}",
                "Choose another name or instance",
            )
        if volume and volume.uid != str(box.uid):
            owner = f"uid {volume.uid}" if volume.uid else "somebody else"
            raise DeclarationError(
                f"{box.spec.path}.uid: volume {name} belongs to {owner}, the box would run as uid {box.uid}",
                f"Set uid: {volume.uid or 'auto'}, or remove the box with its volumes first",
            )
