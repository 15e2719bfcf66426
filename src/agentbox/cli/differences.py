"""What a running box has that is not what was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentbox._shared import _naming, _ports, _state, _values
from agentbox._shared._engine import Engine
from agentbox._shared._errors import AgentboxError

from . import collection, declaration, options
from .options import Option, Settings
from .seen import SeenBox

# Keys of a declaration that an option decides.
DECIDED: Mapping[Option, str] = {
    options.MEMORY: "memory",
    options.CPUS: "cpus",
    options.PORT: "publish",
    options.GPUS: "gpus",
    options.YOLO: "yolo",
    options.AGENT: "lead",
}


def find(engine: Engine, box: SeenBox, settings: Settings) -> list[str]:
    """A sentence for every value that somebody asked for and that ``box`` was not made with."""
    keys = asked(settings)
    return [*(_unlike(keys, box, settings) if keys else ()), *_image(engine, box)]


def asked(settings: Settings) -> list[str]:
    """Keys of a declaration that somebody gave a value for."""
    return [key for option, key in DECIDED.items() if settings.setting(option).asked]


def _unlike(keys: Iterable[str], box: SeenBox, settings: Settings) -> list[str]:
    try:
        record = _state.read_json(_naming.BoxPaths(box.state_dir, box.name).record)
    except AgentboxError as error:
        return [f"cannot compare it with what was asked for: {error.message}"]
    return compare(keys, _canonical(settings, box), (record or {}).get("spec") or {})


def compare(keys: Iterable[str], wanted: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[str]:
    """Sentences about those of ``keys`` whose canonical values differ."""
    return [
        f"{key} is {_shown(key, recorded.get(key))}, not {_shown(key, wanted[key])} as asked for"
        for key in keys
        if wanted[key] != recorded.get(key)
    ]


def _canonical(settings: Settings, box: SeenBox) -> dict[str, Any]:
    from agentbox._shared import _spec  # only for who asks for something

    raw = declaration.box(settings, None, {})
    instance = settings[options.INSTANCE]
    [spec] = _spec.parse_boxes([raw], instance=instance, manifests=collection.manifests())
    return spec.canonical()


def _image(engine: Engine, box: SeenBox) -> list[str]:
    """Whether the instance's image is another one by now."""
    config = box.inspect.get("Config") or {}
    image = engine.inspect_image(str(config.get("Image")))
    now = (((image or {}).get("Config") or {}).get("Labels") or {}).get(_naming.LABEL_CONTEXT)
    then = (config.get("Labels") or {}).get(_naming.LABEL_CONTEXT)
    return [f"it runs an older build of {config.get('Image')}"] if now and now != then else []


def _shown(key: str, value: Any) -> str:
    """A canonical value as people write it."""
    if value is None:
        return "none"
    if key == "memory" and isinstance(value, int):
        return _values.human_size(value)
    if key == "publish" and isinstance(value, Mapping):
        return str(_ports.Publish(str(value.get("address")), int(value.get("port", 0))))
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
