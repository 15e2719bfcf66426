from __future__ import annotations

import json

from agentbox.cli import listing
from agentbox.cli.seen import SeenBox


def box(state: str, health: str) -> SeenBox:
    return SeenBox("default", "agentbox", state, health, "/srv/code", "/state", "http://127.0.0.1:4317", {})


def row(found: SeenBox, lead: str) -> list[str]:
    return listing.as_table([found], [lead]).splitlines()[1].split()


def test_a_running_box_shows_its_agent_and_page() -> None:
    assert row(box("running", "healthy"), "exited") == [
        *("default", "running", "healthy", "exited", "http://127.0.0.1:4317", "/srv/code")
    ]


def test_a_stopped_box_shows_neither() -> None:
    assert row(box("exited", ""), "none") == ["default", "stopped", "-", "-", "-", "/srv/code"]


def test_programs_get_the_word_of_the_engine_and_where_the_page_will_be() -> None:
    [shown] = json.loads(listing.as_json([box("exited", "")], ["none"]))
    assert (shown["state"], shown["page"]) == ("exited", "http://127.0.0.1:4317")
