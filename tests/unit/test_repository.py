"""What the repository says about itself is true: documentation equals specification equals defaults."""

from __future__ import annotations

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
REFERENCE = runpy.run_path(str(ROOT / "tools" / "reference.py"))
# Name to documentation, with the fragments that it extends, and to what is returned.
MODULES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = REFERENCE["documented"]("modules")

sys.path.insert(0, str(ROOT / "collections"))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def specification(module: str) -> dict[str, Any]:
    loaded = importlib.import_module(f"ansible_collections.agentbox.fleet.plugins.modules.{module}")
    spec: dict[str, Any] = loaded.ARGUMENT_SPEC
    return spec


@pytest.mark.parametrize("module", MODULES)
def test_module_documentation_equals_specification(module: str) -> None:
    documentation, _ = MODULES[module]
    assert_equal_options(documentation["options"], specification(module))


def assert_equal_options(documented: dict[str, Any], specified: dict[str, Any], path: str = "") -> None:
    assert sorted(documented) == sorted(specified), path
    for name, option in specified.items():
        said, where = documented[name], f"{path}{name}"
        assert said["type"] == option.get("type", "str"), where
        assert said.get("default") == option.get("default"), where
        assert said.get("required", False) == option.get("required", False), where
        assert said.get("elements") == option.get("elements"), where
        assert said.get("choices") == option.get("choices"), where
        if "options" in option:
            assert_equal_options(said["suboptions"], option["options"], f"{where}.")


@pytest.mark.parametrize("module", MODULES)
def test_module_says_what_it_returns_and_supports(module: str) -> None:
    documentation, returned = MODULES[module]
    for key, value in returned.items():
        assert {"description", "returned", "type"} <= set(value), key
    assert documentation["module"] == module
    for promise in ("check_mode", "diff_mode", "idempotent"):
        attribute = documentation["attributes"][promise]
        assert attribute["support"] == "full" or attribute["details"], promise


def test_nothing_was_added_in_a_version_to_come() -> None:
    """The changelog of a release lists what was added in exactly that version."""
    version = load(ROOT / "galaxy.yml")["version"]
    for folder in ("modules", *REFERENCE["PLUGIN_KINDS"]):
        for name, (documentation, _) in REFERENCE["documented"](folder).items():
            assert parsed(str(documentation["version_added"])) <= parsed(version), name


def parsed(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_every_module_that_reaches_the_engine_is_in_the_action_group() -> None:
    """The group exists to set the engine's address once, so exactly those that take it are members and say so."""
    reaching = [module for module in MODULES if "docker_host" in specification(module)]
    assert load(ROOT / "meta" / "runtime.yml")["action_groups"]["agentbox"] == reaching
    groups = {
        name: documentation["attributes"].get("action_group", {}).get("membership")
        for name, (documentation, _) in MODULES.items()
    }
    assert [name for name, group in groups.items() if group == ["agentbox.fleet.agentbox"]] == reaching


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
    for path, text in REFERENCE["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run make reference"


def test_versions_agree() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.+)"$', project, re.MULTILINE)
    assert version
    assert load(ROOT / "galaxy.yml")["version"] == version[1]
    assert f'__version__ = "{version[1]}"' in (ROOT / "src" / "agentbox" / "__init__.py").read_text(encoding="utf-8")
    tarballs = re.findall(r"agentbox-fleet-\S+", (ROOT / "execution-environment.yml").read_text(encoding="utf-8"))
    assert set(tarballs) == {f"agentbox-fleet-{version[1]}.tar.gz"}


def test_every_variable_of_the_playbooks_is_documented() -> None:
    text = (ROOT / "docs" / "playbooks.md").read_text(encoding="utf-8")
    files = [*(ROOT / "playbooks").glob("*.yml"), *(ROOT / "playbooks" / "tasks").glob("*.yml")]
    read = {
        name
        for path in files
        for name in re.findall(r"(?<![_.\w])agentbox_[a-z_]*[a-z]\b", path.read_text(encoding="utf-8"))
    }
    assert read
    assert {name for name in read if f"| `{name}` |" not in text} == set()


def test_every_package_that_roles_install_on_hosts_earns_its_place() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    programs = text[text.index("## Programs on a host") :]
    for role in set(ROLES) - {"image"}:  # what an image holds is the image's own matter
        path = ROOT / "roles" / role / "vars" / "main.yml"
        variables = load(path) if path.exists() else {}
        for name, value in variables.items():
            if name.endswith(("_packages", "_platforms")):
                for package in packages(value):
                    assert re.search(rf"(^\| |, ){re.escape(package)}(,| \|)", programs, re.MULTILINE), (
                        f"{package} of {role}"
                    )


def packages(value: Any) -> list[str]:
    """The texts of a table of packages, whatever its shape."""
    if isinstance(value, str):
        return [] if "{{" in value else [value]
    parts = value.values() if isinstance(value, dict) else value
    return [package for part in parts for package in packages(part)]
