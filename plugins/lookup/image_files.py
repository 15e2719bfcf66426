"""The files of an image's build context that come with the collection."""

from __future__ import annotations

DOCUMENTATION = r"""
name: image_files
short_description: The files of an image's build context that come with the collection
version_added: 0.1.0
description:
  - Reads, on the controller, the pinned requirements and the source of the program that runs inside boxes.
  - Of the code shared with modules exactly those files are taken that this program imports, so that other changes of
    the collection build no image anew.
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Show what goes into an image
  ansible.builtin.debug:
    msg: "{{ lookup('agentbox.fleet.image_files').keys() | list }}"
"""

RETURN = r"""
_raw:
  description: One mapping of paths in the build context to texts.
  type: list
  elements: dict
"""

import ast
from pathlib import Path
from typing import Any

from ansible.plugins.lookup import LookupBase

COLLECTION = Path(__file__).resolve().parents[2]
REQUIREMENTS = ("box.txt", "node.txt")
# Of the package: what runs in a box. The rest runs on hosts and builds no image anew.
RUNTIME = ("__init__.py", "agents.py", "box", "observer", "protocol")
_SHARED = "agentbox._shared"


def image_files(collection: Path = COLLECTION) -> dict[str, str]:
    """Path in the build context to text."""
    requirements = {f"requirements/{name}": collection / "requirements" / name for name in REQUIREMENTS}
    runtime = {f"runtime/agentbox/{name}": path for name, path in runtime_files(collection / "src/agentbox").items()}
    folder = collection / "plugins/module_utils"
    shared = {f"runtime/agentbox/_shared/{name}.py": folder / f"{name}.py" for name in shared_modules(runtime, folder)}
    if shared:
        runtime["runtime/agentbox/_shared/__init__.py"] = collection / "src/agentbox/__init__.py"
    return {name: path.read_text(encoding="utf-8") for name, path in {**requirements, **runtime, **shared}.items()}


def runtime_files(source: Path) -> dict[str, Path]:
    """What runs in a box, without what Python makes of it."""
    found = {}
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if path.is_file() and name.parts[0] in RUNTIME and "__pycache__" not in name.parts:
            found[str(name)] = path
    return found


def shared_modules(runtime: dict[str, Path], folder: Path) -> list[str]:
    """Names of the shared modules that ``runtime`` imports, and that these import."""
    waiting = {name for path in runtime.values() if path.suffix == ".py" for name in _imports(path, _SHARED)}
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= _imports(folder / f"{name}.py", "") - found
    return sorted(found)


def _imports(path: Path, package: str) -> set[str]:
    """The modules of ``package`` that a file imports; the empty ``package`` is the file's own, by relative import."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import) and package:
            names |= {_below(alias.name, package) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= _imported_from(node, package)
    return names - {""}


def _imported_from(node: ast.ImportFrom, package: str) -> set[str]:
    module = node.module or ""
    if package and node.level:  # "from .._shared import x" inside the runtime
        module = f"agentbox.{module}"
    elif not package and node.level != 1:
        return set()
    if module == package:
        return {alias.name for alias in node.names}
    return {_below(module, package)} if package else {module.split(".")[0]}


def _below(module: str, package: str) -> str:
    """``x`` of ``package.x.y``, empty for a module elsewhere."""
    return module.removeprefix(f"{package}.").split(".")[0] if module.startswith(f"{package}.") else ""


class LookupModule(LookupBase):  # type: ignore[misc]
    """See ``DOCUMENTATION``."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[Any]:
        self.set_options(var_options=variables, direct=kwargs)
        return [image_files()]
