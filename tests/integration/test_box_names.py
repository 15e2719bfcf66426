"""Workspaces of any name, and box names derived from them: valid, stable, without collision, and never code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest

from agentbox._shared import _naming
from tests.integration import runs
from tests.integration.sites import Site

ODD = {
    "spaces": "My Repo",
    "unicode": "My Repo_Ünï",
    "long": "x" * 140,
    "long too": "x" * 139 + "y",
    "folded alike": "my-repo",
    "punctuation": "a:b,c;d'e\"f$(g)`h`\\i",
    "dash": "-rf",
    "braces": "{{ lookup('pipe', 'touch executed') }}",
}


@pytest.fixture(scope="module")
def made(new_instance: Callable[[], str], module_place: Path) -> tuple[Site, dict[str, str], list[runs.Result]]:
    """A box for each odd workspace; the results are shown by another task, as an inventory or report would."""
    site = Site(new_instance(), module_place)
    names = {case: _naming.slug(directory) for case, directory in ODD.items()}
    boxes: list[dict[str, Any]] = []
    for case, directory in ODD.items():
        workspace = str(site.workspace(directory))
        quoted = "{% raw %}" + workspace + "{% endraw %}"
        mirror = "mirror" if case == "spaces" else "/workspace"
        boxes.append(site.box(names[case], workspace=quoted, workspace_target=mirror))
    task = site.task(*boxes, keywords={"register": "answer"})
    show = runs.module_task("ansible.builtin.debug", {"msg": "{{ answer.boxes | map(attribute='workspace') }}"})
    return site, names, runs.play([task, show, site.task(*boxes)]).results


def test_they_work_and_rest(made: tuple[Site, dict[str, str], list[runs.Result]]) -> None:
    site, names, (created, _, again) = made
    assert not created.get("failed"), created
    assert created["changed"] is True
    assert again["changed"] is False
    for case, directory in ODD.items():
        target = site.workspace(directory) if case == "spaces" else "/workspace"
        assert site.run(names[case], "pwd; touch made").strip() == str(target)
        assert (site.workspace(directory) / "made").exists(), case


def test_names_are_valid_and_apart(
    made: tuple[Site, dict[str, str], list[runs.Result]], engine: docker.APIClient
) -> None:
    site, names, _ = made
    assert len(set(names.values())) == len(ODD)
    assert names["folded alike"] == "my-repo"
    assert all(_naming.is_name(name) and len(name) <= 41 for name in names.values())
    listed = engine.containers(filters={"label": f"{_naming.LABEL_INSTANCE}={site.instance}"})
    assert {found["Labels"][_naming.LABEL_BOX] for found in listed} == set(names.values())


def test_braces_stay_text(made: tuple[Site, dict[str, str], list[runs.Result]], engine: docker.APIClient) -> None:
    """What comes back from the engine, here a label, is printed literally and never evaluated."""
    site, names, (_, shown, _) = made
    workspace = str(site.workspace(ODD["braces"]))
    assert workspace in shown["msg"]
    labels = engine.inspect_container(site.container(names["braces"]))["Config"]["Labels"]
    assert labels[_naming.LABEL_WORKSPACE] == workspace
    assert not (runs.REPOSITORY / "executed").exists()
