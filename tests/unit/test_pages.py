from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e import pages

DOCS = Path(__file__).resolve().parents[2] / "docs"
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#([^)]*))?\)")


def test_files_are_written_and_commands_run_in_their_order(tmp_path: Path) -> None:
    file = "In `a/b.yml`:\n\n```yaml\nkey: 'it''s'\n```\n"
    text = f"{file}\n```yaml\nshown: only\n```\n\n```console\n# cat a/b.yml\nkey\n```\n"
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(pages.steps(text))], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "# cat a/b.yml\nkey: 'it''s'\n"


@pytest.mark.parametrize("page", ["tutorial.md", "how-to.md"])
def test_pages_hold_commands_that_a_shell_can_read(page: str) -> None:
    script = pages.script(page)
    assert script.count("\n") > 10
    subprocess.run(["sh", "-n", "-c", script], check=True)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_links_of_pages_lead_somewhere(page: Path) -> None:
    for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
