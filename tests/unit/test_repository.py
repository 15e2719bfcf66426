"""What the repository says about itself is true: documentation equals specification equals defaults."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py"))

sys.path.insert(0, str(ROOT / "collections"))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def constant(module: str, name: str) -> Any:
    """A YAML text constant (DOCUMENTATION, RETURN) of a module, parsed."""
    tree = ast.parse((ROOT / "plugins" / "modules" / f"{module}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return yaml.safe_load(ast.literal_eval(node.value))
    raise AssertionError(f"module {module} has no {name}")


def documented_options(module: str) -> dict[str, Any]:
    """Options of the module and of the documentation fragments it extends."""
    documentation = constant(module, "DOCUMENTATION")
    options = dict(documentation.get("options") or {})
    for fragment in documentation.get("extends_documentation_fragment") or []:
        _, _, name = fragment.partition("agentbox.fleet.")
        name, _, part = name.partition(".")
        source = importlib.import_module(f"ansible_collections.agentbox.fleet.plugins.doc_fragments.{name}")
        text = getattr(source.ModuleDocFragment, (part or "documentation").upper())
        options |= yaml.safe_load(text).get("options") or {}
    return options


def specification(module: str) -> dict[str, Any]:
    loaded = importlib.import_module(f"ansible_collections.agentbox.fleet.plugins.modules.{module}")
    spec: dict[str, Any] = loaded.ARGUMENT_SPEC
    return spec


@pytest.mark.parametrize("module", MODULES)
def test_module_documentation_equals_specification(module: str) -> None:
    documented, specified = documented_options(module), specification(module)
    assert sorted(documented) == sorted(specified)
    for name, option in specified.items():
        assert documented[name]["type"] == option.get("type", "str"), name
        assert documented[name].get("default") == option.get("default"), name
        assert documented[name].get("required", False) == option.get("required", False), name
        assert documented[name].get("elements") == option.get("elements"), name
        assert documented[name].get("choices") == option.get("choices"), name


@pytest.mark.parametrize("module", MODULES)
def test_module_says_what_it_returns_and_supports(module: str) -> None:
    documentation = constant(module, "DOCUMENTATION")
    for key, value in constant(module, "RETURN").items():
        assert {"description", "returned", "type"} <= set(value), key
    assert documentation["module"] == module
    fragments = documentation["extends_documentation_fragment"]
    assert any("attributes" in fragment for fragment in fragments) or "attributes" in documentation


def test_every_module_that_reaches_the_engine_is_in_the_action_group() -> None:
    """The group exists to set the engine's address once, so exactly those that take it are members and say so."""
    reaching = [module for module in MODULES if "docker_host" in specification(module)]
    assert load(ROOT / "meta" / "runtime.yml")["action_groups"]["agentbox"] == reaching
    documented = runpy.run_path(str(ROOT / "tools" / "reference.py"))["documented"]("modules")
    saying = {
        name: page["attributes"].get("action_group", {}).get("membership") for name, (page, _) in documented.items()
    }
    assert {name for name, membership in saying.items() if membership == ["agentbox.fleet.agentbox"]} == set(reaching)


@pytest.mark.parametrize("role", ROLES)
def test_role_specification_equals_defaults(role: str) -> None:
    folder = ROOT / "roles" / role
    defaults = load(folder / "defaults" / "main.yml")
    options = load(folder / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
    assert sorted(options) == sorted(defaults)
    for name, option in options.items():
        assert name.startswith(f"{role}_"), name
        assert option["description"], name
        default = defaults[name]
        if not (isinstance(default, str) and "{{" in default):
            assert option.get("default") == default, name


@pytest.mark.parametrize("role", ROLES)
def test_role_readme_names_every_variable(role: str) -> None:
    folder = ROOT / "roles" / role
    text = (folder / "README.md").read_text(encoding="utf-8")
    for name in load(folder / "defaults" / "main.yml"):
        assert f"`{name}`" in text, name


@pytest.mark.parametrize("role", ROLES)
def test_role_variables_are_used(role: str) -> None:
    folder = ROOT / "roles" / role
    used = "".join(
        path.read_text(encoding="utf-8")
        for part in ("tasks", "handlers", "templates", "vars")
        for path in sorted((folder / part).rglob("*"))
        if path.is_file()
    )
    for name in load(folder / "defaults" / "main.yml"):
        assert re.search(rf"\b{name}\b", used), name


def test_every_dependency_earns_its_place() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    for source in sorted((ROOT / "requirements").glob("*.in")):
        for line in source.read_text(encoding="utf-8").splitlines():
            name = re.match(r"[A-Za-z0-9._-]+", line)
            if name and not line.startswith("-r"):
                assert f"| {name[0].lower()} |" in text, f"{name[0]} of {source.name}"


def test_reference_pages_are_what_the_tables_say() -> None:
    reference = runpy.run_path(str(ROOT / "tools" / "reference.py"))
    for path, text in reference["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run make reference"


def test_versions_agree() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.+)"$', project, re.MULTILINE)
    assert version
    assert load(ROOT / "galaxy.yml")["version"] == version[1]
    assert f'__version__ = "{version[1]}"' in (ROOT / "src" / "agentbox" / "__init__.py").read_text(encoding="utf-8")
    tarballs = re.findall(r"agentbox-fleet-\S+", (ROOT / "execution-environment.yml").read_text(encoding="utf-8"))
    assert set(tarballs) == {f"agentbox-fleet-{version[1]}.tar.gz"}
