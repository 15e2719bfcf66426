"""What goes into an image's build context, and what the Dockerfile makes of it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible_collections.agentbox.fleet.plugins.lookup.image_files import image_files
from ansible_collections.agentbox.fleet.plugins.lookup.manifests import manifests

ROOT = Path(__file__).resolve().parents[3]
STANDIN = yaml.safe_load((ROOT / "tests/doubles/manifests/standin.yml").read_text(encoding="utf-8"))


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """A copy of the parts of the collection that an image is made from."""
    for name in ("requirements", "src", "plugins/module_utils"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    return tmp_path


def test_the_runtime_and_what_it_shares_and_nothing_else() -> None:
    found = image_files()
    assert {"requirements/box.txt", "requirements/node.txt"} <= set(found)
    assert {"runtime/agentbox/box/__main__.py", "runtime/agentbox/observer/__main__.py"} <= set(found)
    assert "runtime/agentbox/_shared/_naming.py" in found
    assert not [name for name in found if "/cli/" in name or "__pycache__" in name]
    assert "runtime/agentbox/_shared/_engine.py" not in found


def test_only_contents_that_boxes_use_change_the_context(collection: Path) -> None:
    before = image_files(collection)
    for path in collection.rglob("*"):
        os.utime(path, (0, 0), follow_symlinks=False)
    for host in ("cli", "another"):
        (collection / "src/agentbox" / host).mkdir(exist_ok=True)
        (collection / "src/agentbox" / host / "more.py").write_text("# not for boxes\n", encoding="utf-8")
    (collection / "plugins/module_utils/_more.py").write_text("# not for boxes\n", encoding="utf-8")
    assert image_files(collection) == before

    shared = collection / "plugins/module_utils/_naming.py"
    shared.write_text(shared.read_text(encoding="utf-8") + "from ._more import x\n", encoding="utf-8")
    after = image_files(collection)
    assert set(after) - set(before) == {"runtime/agentbox/_shared/_more.py"}


@pytest.mark.parametrize(
    "line",
    [
        "from agentbox._shared import _more",
        "from agentbox._shared._more import x",
        "import agentbox._shared._more",
        "from .._shared import _more",
        "from .._shared._more import x",
    ],
)
def test_every_way_to_import_is_followed(collection: Path, line: str) -> None:
    (collection / "plugins/module_utils/_more.py").write_text("x = 1\n", encoding="utf-8")
    (collection / "src/agentbox/box/more.py").write_text(f"{line}\n", encoding="utf-8")
    assert "runtime/agentbox/_shared/_more.py" in image_files(collection)


def rendered(agents: list[dict[str, Any]], snippet: str = "") -> str:
    loader = jinja2.FileSystemLoader(ROOT / "templates/image")
    # As Ansible renders it; nothing escapes a Dockerfile.
    environment = jinja2.Environment(
        loader=loader, trim_blocks=True, undefined=jinja2.StrictUndefined, autoescape=jinja2.select_autoescape()
    )
    environment.filters["quote"] = shlex.quote
    variables = {"__image_agents": agents, "__image_packages": ["git", "x y"], "__image_locales": ["de_DE.UTF-8"]}
    variables["__image_snippet"] = snippet
    return environment.get_template("Dockerfile.j2").render(variables)


def stages(dockerfile: str) -> list[str]:
    return re.findall(r"^FROM (?:\S+)(?: AS (\S+))?$", dockerfile, re.MULTILINE)


def test_each_agent_has_a_stage_of_its_own() -> None:
    claude = manifests()["claude"]
    assert stages(rendered([])) == ["system", "node", "runtime", ""]
    assert stages(rendered([claude, STANDIN])) == ["system", "node", "runtime", "agent-claude", "agent-standin", ""]
    latest = {**claude, "package": {**claude["package"], "version": "latest"}}
    assert stages(rendered([latest])) == ["system", "node", "runtime", "latest-claude", "agent-claude", ""]


def test_the_dockerfile_suits_the_classic_builder() -> None:
    text = rendered([manifests()["claude"], STANDIN])
    assert not re.search(r"--mount|--link|<<|^# syntax", text, re.MULTILINE)


def test_versions_come_in_from_outside_and_words_are_quoted() -> None:
    text = rendered([STANDIN])
    assert STANDIN["package"]["version"] not in text
    assert 'esbuild@"${VERSION_STANDIN}"' in text
    assert "git 'x y'" in text
    assert "localedef --inputfile=de_DE --charmap=UTF-8 de_DE.UTF-8;" in text


def test_the_own_lines_come_before_the_runtime_and_leave_root() -> None:
    text = rendered([STANDIN], "RUN own-line")
    assert text.index("COPY --from=agent-standin") < text.index("RUN own-line") < text.index("COPY runtime/")
    assert re.search(r"RUN own-line\nUSER root\nCOPY runtime/", text)
