from __future__ import annotations

import pytest

from agentbox._shared import _actions
from agentbox.cli import removal

HOME = "its HOME volume with logins and conversations"
COMMAND = "agentbox down --name web --volumes"


@pytest.mark.parametrize(
    ("removed", "called"),
    [
        ([], []),
        (["abx-web-home"], [HOME]),
        (["abx-cache-npm-1000", "abx-cache-pip-1000"], ["the caches"]),
        (["abx-web-home", "abx-cache-npm-1000"], [HOME, "the caches"]),
    ],
)
def test_volumes_are_called_by_what_they_hold(removed: list[str], called: list[str]) -> None:
    actions = [{"box": "web", **_actions.Action(_actions.REMOVE_VOLUME, volume).as_dict()} for volume in removed]
    others = [{"box": "web", **_actions.Action(_actions.REMOVE, "abx-web").as_dict()}]
    assert removal.removed_volumes([*others, *actions], "abx-web-home") == called


@pytest.mark.parametrize(
    ("existed", "volumes", "command", "sentence"),
    [
        (True, [], COMMAND, f"removed: box web; its HOME volume stays, `{COMMAND}` removes it"),
        (True, [HOME, "the caches"], None, f"removed: box web, {HOME}, the caches"),
        (False, [], None, "there is no box web, nothing to do"),
        (False, [], COMMAND, f"there is no box web, nothing to do; its HOME volume stays, `{COMMAND}` removes it"),
        (False, [HOME], None, f"there is no box web; removed: {HOME}"),
    ],
)
def test_down_tells_what_went_and_what_stays(
    existed: bool, volumes: list[str], command: str | None, sentence: str
) -> None:
    assert removal.told("web", existed=existed, volumes=volumes, command=command) == sentence
