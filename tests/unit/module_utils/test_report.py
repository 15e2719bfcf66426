"""The drift report, from events as the callback writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from agentbox._shared import _report

SHAPE = json.loads((Path(__file__).resolve().parents[3] / "docs/drift.schema.json").read_text(encoding="utf-8"))
STATS = {"ok": 3, "failures": 0, "unreachable": 0, "changed": 1, "skipped": 0, "rescued": 0, "ignored": 0}


def result(host: str = "ada", status: str = "changed", **fields: Any) -> dict[str, Any]:
    known = {"role": None, "name": "Write the motto", "action": "ansible.builtin.copy", "ignored": False}
    return {"event": "result", "host": host, "status": status, **known, **fields}


def reported(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The report, which has the documented shape."""
    found = _report.report(events)
    jsonschema.validate(json.loads(_report.as_json(found)), SHAPE)
    return found


def stats(**hosts: dict[str, int]) -> dict[str, Any]:
    return {"event": "stats", "hosts": {host: {**STATS, **changed} for host, changed in hosts.items()}}


def box(status: str = "ok", **answer: Any) -> dict[str, Any]:
    return result(status=status, action="agentbox.fleet.box", name="Converge the boxes", role="box", result=answer)


def test_every_box_stands_there_with_what_would_be_done_and_what_stays() -> None:
    web = {
        "name": "web",
        "container": "abx-web",
        "state": "started",
        "failed": False,
        "msg": "",
        "actions": [{"action": "start", "detail": "abx-web"}],
        "drift": [{"path": "memory", "declared": "4g", "live": "2g"}],
        "page": None,
    }
    api = {**web, "name": "api", "container": "abx-api", "actions": [], "drift": [], "msg": "no image"}
    found = reported([box("failed", boxes=[web, api]), stats(ada={"failures": 1})])
    assert found["hosts"]["ada"]["boxes"] == [
        {**{key: api[key] for key in ("name", "container", "state", "actions", "drift")}, "error": "no image"},
        {**{key: web[key] for key in ("name", "container", "state", "actions", "drift")}, "error": ""},
    ]
    as_declared = reported([box(boxes=[{**web, "actions": [], "drift": []}]), stats(ada={})])
    assert (as_declared["outcome"], as_declared["hosts"]["ada"]["tasks"]) == ("ok", [])
    assert [it["name"] for it in as_declared["hosts"]["ada"]["boxes"]] == ["web"]


def test_nothing_to_do_is_ok() -> None:
    found = reported([result(status="ok"), result(status="skipped"), stats(ada={})])
    assert found["outcome"] == "ok"
    assert found["counts"] == {"hosts": 1, "changed": 0, "failed": 0, "drift": 0}
    assert found["hosts"]["ada"]["tasks"] == []
    assert _report.table(found) == (
        "### Drift report: ok\n\n0 changes, 0 differences that stay, 0 failures on 1 host.\n"
    )


def test_changes_are_drift_and_stand_with_their_actions() -> None:
    actions = [{"box": "web", "action": "create", "detail": "agentbox-web"}, "start"]
    found = reported([box("changed", actions=actions), result("eve"), stats(ada={}, eve={})])
    assert (found["outcome"], found["counts"]["changed"]) == ("drift", 2)
    assert found["hosts"]["ada"]["tasks"][0]["actions"] == ["create agentbox-web", "start"]
    lines = _report.table(found).splitlines()
    assert "| `ada` | `box` | `Converge the boxes` | `changed` | `create agentbox-web` |" in lines
    assert "| `eve` |  | `Write the motto` | `changed` | `ansible.builtin.copy` |" in lines


def test_what_differs_and_stays_is_drift_without_a_change() -> None:
    drift = [{"box": "web", "path": "memory", "declared": "4g", "live": "2g"}]
    found = reported([box(drift=drift, actions=[]), stats(ada={})])
    assert (found["outcome"], found["counts"]) == ("drift", {"hosts": 1, "changed": 0, "failed": 0, "drift": 1})
    assert "| `differs` | `web.memory: declared 4g, live 2g` |" in _report.table(found)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], "Ansible did not come to its end"),
        ([result()], "it was killed"),
        ([result(status="failed"), stats(ada={"failures": 1})], "a task failed"),
        ([result(status="unreachable"), stats(ada={"unreachable": 1})], "a host was unreachable"),
    ],
)
def test_failed_is_what_did_not_come_to_a_good_end(events: list[dict[str, Any]], why: str) -> None:
    assert reported(events)["outcome"] == "failed", why


def test_rescued_and_ignored_failures_are_none() -> None:
    events = [result(status="failed"), result(status="failed", ignored=True), stats(ada={"rescued": 1, "ignored": 1})]
    found = reported(events)
    assert (found["outcome"], found["counts"]["failed"], len(found["hosts"]["ada"]["tasks"])) == ("ok", 0, 1)


def test_messages_are_those_that_are_known_to_hold_no_secret() -> None:
    foreign = result(status="failed", msg="cannot log in with hunter2", action="ansible.builtin.uri")
    own = result("eve", "failed", msg="boxes[0].memory: too small", action="agentbox.fleet.box", role="box")
    found = reported([foreign, own, stats(ada={"failures": 1}, eve={"failures": 1})])
    assert "hunter2" not in json.dumps(found)
    assert "hunter2" not in _report.table(found)
    assert _report.first_failure(found) == "Write the motto (ansible.builtin.uri) failed on ada"
    del found["hosts"]["ada"]
    assert _report.first_failure(found) == (
        "box: Write the motto (agentbox.fleet.box) failed on eve: boxes[0].memory: too small"
    )


def test_foreign_text_is_no_markup() -> None:
    name = "a|b `c` <img src=x>\n| x |\x1b[31m @everybody"
    table = _report.table(reported([result(name=name), stats(ada={})]))
    row = table.splitlines()[-1]
    assert row == "| `ada` |  | `a\\|b 'c' <img src=x> \\| x \\|[31m @everybody` | `changed` | `ansible.builtin.copy` |"


def test_a_long_report_says_how_much_is_missing() -> None:
    events = [result(name=f"Task {number}") for number in range(_report.MOST_ROWS + 5)]
    table = _report.table(reported([*events, stats(ada={})]))
    assert table.count("`changed`") == _report.MOST_ROWS
    assert "5 more lines are in the JSON report." in table


def test_half_a_line_of_a_killed_run_is_skipped() -> None:
    assert _report.parse(['{"event": "play"}\n', '{"event": "res', "17\n"]) == [{"event": "play"}]
