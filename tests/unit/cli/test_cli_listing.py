from __future__ import annotations

import json

from agentbox._shared._health import Check
from agentbox._shared._health_facts import LeadFacts
from agentbox.cli import listing
from agentbox.cli.reports import Report
from agentbox.cli.seen import SeenBox

NONE = Report(LeadFacts(None, "none", None))


def box(state: str, health: str, code: int = 0) -> SeenBox:
    inspect = {"State": {"Status": state, "ExitCode": code}}
    return SeenBox("default", "agentbox", state, health, "/srv/code", "/state", "http://127.0.0.1:4317", inspect)


def row(found: SeenBox, report: Report) -> list[str]:
    return listing.as_table([found], [report]).splitlines()[1].split()


def test_a_running_box_shows_its_agent_and_page() -> None:
    report = Report(LeadFacts("claude", "exited", 137))
    assert row(box("running", "healthy"), report) == [
        *("default", "running", "healthy", "exited", "(137)", "http://127.0.0.1:4317", "/srv/code")
    ]


def test_a_stopped_box_shows_neither() -> None:
    assert row(box("exited", ""), NONE) == ["default", "stopped", "-", "-", "-", "/srv/code"]


def test_a_box_that_failed_is_not_called_stopped() -> None:
    assert row(box("exited", "", 3), NONE) == ["default", "exited", "-", "-", "-", "/srv/code"]


def test_what_is_wrong_stands_below_the_boxes() -> None:
    trouble = Check("lead", "default", "fail", "Claude Code exited with code 1", "Attach")
    report = Report(LeadFacts("claude", "exited", 1), (trouble,))
    shown = listing.as_table([box("running", "healthy")], [report]).splitlines()
    assert shown[2:] == ["default: Claude Code exited with code 1. Attach."]
    [told] = json.loads(listing.as_json([box("running", "healthy")], [report]))
    assert (told["lead"], told["lead_code"]) == ("exited", 1)
    assert told["troubles"] == [trouble.as_result()]


def test_programs_get_the_word_of_the_engine_and_where_the_page_will_be() -> None:
    [shown] = json.loads(listing.as_json([box("exited", "")], [NONE]))
    assert (shown["state"], shown["page"], shown["lead"]) == ("exited", "http://127.0.0.1:4317", "none")


def test_a_box_that_does_not_say_what_its_lead_does() -> None:
    [shown] = json.loads(listing.as_json([box("running", "healthy")], [Report(None)]))
    assert (shown["lead"], shown["lead_code"]) == ("unknown", None)
