"""What `export` and `import` do, but for making the box, which every command does alike."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentbox._shared import _backup, _backup_note, _naming, _volumes
from agentbox._shared._backup import Contents
from agentbox._shared._backup_tar import BackupError
from agentbox._shared._engine import Engine

from . import exits, options, workspace
from .call import Call
from .exits import UsageError
from .seen import SeenBox
from .streams import answer, say

MODULE = "agentbox.fleet.box_backup"
_SHOWN = 5


def export(call: Call, box: SeenBox) -> int:
    """Write ``box`` into a file that is not there yet."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    file = call.user.expand(call.arguments.output or f"{box.name}-{stamp}.agentbox.tar.gz")
    if file.exists():
        raise UsageError(f"{file} exists already", "Choose another file with --output")
    wanted = {
        "name": box.name,
        "file": str(file),
        "logins": call.arguments.with_logins,
        "secrets": call.arguments.with_secrets,
    }
    activity = call.run("export", {"agentbox_exports": [wanted]})
    [result] = activity.results[MODULE]["boxes"]
    answer(exported(box.name, file, result))
    return exits.OK


def exported(name: str, file: Path, box: Mapping[str, Any]) -> str:
    """The lines that end ``export``; ``box`` is the module's result. Pure."""
    rows = [
        f"box {name} is in {file} ({box['size'] / (1 << 20):.1f} MiB); its workspace is not, take it along yourself"
    ]
    left_out = box["left_out"]
    if left_out["logins"]:
        rows.append(f"left out, logins: {_listed(left_out['logins'])} (--with-logins takes them along)")
    if left_out["secrets"]:
        rows.append(f"left out, values of secrets: {_listed(left_out['secrets'])} (--with-secrets takes them along)")
    if left_out["others"]:
        rows.append(f"left out, because it leads out of HOME or is no file: {_listed(left_out['others'])}")
    return "\n".join([*rows, f"on another host: {shlex.join(['agentbox', 'import', file.name])}"])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(ascii(name)[1:-1] for name in names[:_SHOWN]) + more


@dataclass(frozen=True)
class Coming:
    """A box to be made from a backup: the call about its name, its declaration, and what else the playbook reads."""

    call: Call
    declaration: Mapping[str, Any]
    variables: Mapping[str, Any]


def read(call: Call, engine: Engine | None) -> Coming:
    """Read the file of ``call`` to its end and say what it leaves to the caller.

    Raises ``UsageError`` for one that is not sound, and for a box that would take another's place.
    """
    file = call.user.expand(call.arguments.operand)
    try:
        contents = _backup.inspect(str(file))
    except BackupError as error:
        raise UsageError(error.message, error.hint) from error
    if not call.settings.setting(options.NAME).asked:
        call = replace(call, settings=call.settings.having(options.NAME, contents.manifest.box, "the backup"))
    directory = workspace.choose(call.settings, call.user, Path.cwd())
    if engine:
        _refuse_existing(call, engine, contents, directory or call.user.own_workspace)
    for warning in warnings(contents):
        say(warning)
    wanted = declaration(contents, call.name, directory, call.settings[options.PORT])
    arriving = {"file": str(file), "name": call.name, "workspace": wanted.get("workspace")}
    return Coming(call, wanted, {"agentbox_imports": [arriving]})


def _refuse_existing(call: Call, engine: Engine, contents: Contents, directory: Path) -> None:
    """Raise ``UsageError`` when there is a box of that name, or a HOME that did not come from this very file."""
    there = f"box {call.name}" if call.find(engine) else ""
    home = _naming.home_volume(call.instance, call.name)
    volume = _volumes.by_name(engine).get(home)
    if volume and not there:
        note = _backup_note.read(call.state_dir, volume)
        if note is None or (note.complete and note.digest != contents.digest):
            there = f"HOME of box {call.name} (volume {home})"
    if there:
        free = workspace.proposed_name(directory, taken=call.name)
        raise UsageError(f"there is a {there} already, and nothing is written over it", f"Add: --name {free}")


def declaration(contents: Contents, name: str, directory: Path | None, publish: str | None) -> dict[str, Any]:
    """The declaration of an imported box: what travels of the one in the backup, and what the caller says. Pure."""
    declared = {
        **_backup.travelling(contents.manifest.declaration),
        "name": name,
        "workspace": str(directory) if directory else None,
        "publish": publish,
        "secrets": dict(contents.secrets) or None,
    }
    return {key: value for key, value in declared.items() if value is not None}


def warnings(contents: Contents) -> list[str]:
    """What an import leaves to the caller. Pure."""
    manifest = contents.manifest
    said = []
    if keys := _backup.staying(manifest.declaration):
        said.append(f"not taken over, because it is about the host: {', '.join(keys)}; declare it if you want it")
    if missing := [name for name in manifest.left_out["secrets"] if name not in contents.secrets]:
        said.append(f"the backup has no values of its secrets {_listed(missing)}")
    return said
