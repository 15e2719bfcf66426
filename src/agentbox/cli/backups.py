"""What `export` and `import` say and declare. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentbox._shared import _backup
from agentbox._shared._backup import Contents

_SHOWN = 5


def exported(name: str, file: Path, box: Mapping[str, Any], import_with: str) -> str:
    """The lines that end ``export``; ``box`` is the module's result, ``import_with`` a command line."""
    rows = [f"box {name} is in {file} ({_size(int(box['size']))}); its workspace is not: take it along yourself"]
    rows += _left_out(box["left_out"])
    return "\n".join([*rows, f"on another host: {import_with}"])


def _left_out(left_out: Mapping[str, list[str]]) -> list[str]:
    rows = []
    if left_out["logins"]:
        rows.append(f"left out, logins: {_listed(left_out['logins'])} (--with-logins takes them along)")
    if left_out["secrets"]:
        rows.append(f"left out, values of secrets: {_listed(left_out['secrets'])} (--with-secrets takes them along)")
    if left_out["others"]:
        rows.append(f"left out, because it leads out of HOME or is no file: {_listed(left_out['others'])}")
    return rows


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(ascii(name)[1:-1] for name in names[:_SHOWN]) + more


def _size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def declaration(contents: Contents, name: str, workspace: Path | None, publish: str | None) -> dict[str, Any]:
    """The declaration of an imported box: what travels of the one in the backup, and what the caller says."""
    declared = {
        **_backup.travelling(contents.manifest.declaration),
        "name": name,
        "workspace": str(workspace) if workspace else None,
        "publish": publish,
        "secrets": dict(contents.secrets) or None,
    }
    return {key: value for key, value in declared.items() if value is not None}


def warnings(contents: Contents) -> list[str]:
    """What an import leaves to the caller."""
    manifest = contents.manifest
    said = []
    if keys := _backup.staying(manifest.declaration):
        said.append(f"not taken over, because it is about the host: {', '.join(keys)}; declare it if you want it")
    if missing := [name for name in manifest.left_out["secrets"] if name not in contents.secrets]:
        said.append(f"the backup has no values of its secrets {_listed(missing)}")
    return said
