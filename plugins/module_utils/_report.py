"""The drift report: what a run of Ansible did, or in check mode would do, as data and as a table for people.

Pure. Its input are the events of callback ``agentbox.fleet.activity``. What it shows comes from repositories and hosts
and is data, never markup: in the table it stands in code spans.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._health import plain

SCHEMA = 1
MOST_ROWS = 200  # forges cut comments off at 65536 characters
_LONGEST_CELL = 120
BOX_MODULE = "agentbox.fleet.box"
_OF_ACTION = ("action", "detail")
_OF_DRIFT = ("path", "declared", "live")
_BAD = ("failed", "unreachable")
# Of the callback's statuses, those worth a line of the report.
_TOLD = ("changed", *_BAD)
# Modules whose messages are free of secrets: the collection's own, and those that say what an author wrote down.
_QUOTED = ("ansible.builtin.assert", "ansible.builtin.fail", "agentbox.fleet.")


def parse(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Events of the callback's file; a line that a killed run left half written is skipped."""
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def report(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The report as a dictionary of JSON's types.

    ``outcome`` is ``failed`` (a task failed, a host was unreachable, or Ansible did not come to its end), ``drift``
    (something was or would be changed, or differs and stays so) or ``ok``. ``counts`` are numbers of hosts, of
    ``changed`` and ``failed`` tasks and of ``drift``, the differences that this run may not repair; ``hosts`` maps a
    name to the same, to its ``tasks``, in order, and to its ``boxes``, by name. docs/drift.schema.json has it all.
    """
    tasks: dict[str, list[dict[str, Any]]] = {}
    boxes: dict[str, dict[str, dict[str, Any]]] = {}
    stats: dict[str, Mapping[str, Any]] | None = None
    for event in events:
        if event.get("event") == "result":
            host = str(event["host"])
            tasks.setdefault(host, []).extend(_task(event))
            boxes.setdefault(host, {}).update({box["name"]: box for box in _boxes(event)})
        elif event.get("event") == "stats":
            stats = dict(event["hosts"])
    names = sorted({*tasks, *(stats or {})})
    hosts = {
        name: {**_host(tasks.get(name, []), (stats or {}).get(name)), "boxes": _by_name(boxes.get(name, {}))}
        for name in names
    }
    outcomes = {host["outcome"] for host in hosts.values()} | ({"failed"} if stats is None else set())
    return {
        "schema": SCHEMA,
        "outcome": next((outcome for outcome in ("failed", "drift") if outcome in outcomes), "ok"),
        "counts": {
            "hosts": len(hosts),
            **{key: sum(host[key] for host in hosts.values()) for key in ("changed", "failed", "drift")},
        },
        "hosts": hosts,
    }


def _answer(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a module of the collection answered; empty for others, of which only the status is recorded."""
    result = event.get("result")
    return result if isinstance(result, Mapping) else {}


def _mappings(items: object) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, Sequence) else []


def _task(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One line of the report, nothing for a result that is none."""
    answer = _answer(event)
    drift = _mappings(answer.get("drift"))
    status, module = str(event.get("status")), str(event.get("action"))
    if event.get("ignored") or (status not in _TOLD and not drift):
        return
    yield {
        "role": event.get("role"),
        "task": str(event.get("name")),
        "module": module,
        "status": status,
        "actions": [_action(action) for action in answer.get("actions") or []],
        "drift": [dict(item) for item in drift],
        "message": str(event.get("msg") or "") if status in _BAD and module.startswith(_QUOTED) else "",
    }


def _boxes(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every box that module ``box`` told of, also one that is as declared."""
    if event.get("action") != BOX_MODULE:
        return
    for box in _mappings(_answer(event).get("boxes")):
        yield {
            **{key: str(box.get(key)) for key in ("name", "container", "state")},
            "actions": [{key: str(item.get(key)) for key in _OF_ACTION} for item in _mappings(box.get("actions"))],
            "drift": [{key: item.get(key) for key in _OF_DRIFT} for item in _mappings(box.get("drift"))],
            "error": str(box.get("msg") or ""),
        }


def _by_name(boxes: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [boxes[name] for name in sorted(boxes)]


def _action(action: object) -> str:
    """An action of a module as text: ``create agentbox-web``, ``start``."""
    if isinstance(action, Mapping):
        return " ".join(str(action[key]) for key in ("action", "detail") if action.get(key))
    return str(action)


def _host(tasks: list[dict[str, Any]], stats: Mapping[str, Any] | None) -> dict[str, Any]:
    """What one host comes to. ``stats`` are Ansible's own; they alone know which failures were rescued."""
    drift = sum(len(task["drift"]) for task in tasks)
    changed = sum(task["status"] == "changed" for task in tasks)
    bad = sum(task["status"] in _BAD for task in tasks)
    failed = int(stats["failures"]) + int(stats["unreachable"]) if stats else bad
    return {
        "outcome": "failed" if failed else "drift" if changed or drift else "ok",
        "changed": changed,
        "failed": failed,
        "drift": drift,
        "tasks": tasks,
    }


def first_failure(found: Mapping[str, Any]) -> str:
    """Where a failed report failed first, and why if the module is known to say that without secrets; else empty."""
    for host, entry in found["hosts"].items():
        for task in entry["tasks"]:
            if task["status"] in _BAD:
                role = f"{task['role']}: " if task["role"] else ""
                what = "cannot be reached" if task["status"] == "unreachable" else "failed"
                why = f": {task['message']}" if task["message"] else ""
                return plain(f"{role}{task['task']} ({task['module']}) {what} on {host}{why}")
    return ""


def summary(found: Mapping[str, Any]) -> str:
    """One line: ``3 changes, 1 difference that stays, 0 failures on 2 hosts``."""
    counts = found["counts"]
    return ", ".join(
        (
            _count(counts["changed"], "change", "changes"),
            _count(counts["drift"], "difference that stays", "differences that stay"),
            f"{_count(counts['failed'], 'failure', 'failures')} on {_count(counts['hosts'], 'host', 'hosts')}",
        )
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def as_json(found: Mapping[str, Any]) -> str:
    """The report as JSON text in one stable spelling."""
    return json.dumps(found, indent=1, sort_keys=True, default=str) + "\n"


def table(found: Mapping[str, Any]) -> str:
    """The report in Markdown, fit for a comment on a change."""
    rows = [row for host, entry in found["hosts"].items() for task in entry["tasks"] for row in _rows(host, task)]
    lines = [f"### Drift report: {found['outcome']}", "", f"{summary(found)}."]
    if rows:
        lines += ["", "| host | role | task | result | what |", "|---|---|---|---|---|"]
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines += ["", f"{len(rows) - MOST_ROWS} more lines are in the JSON report."]
    return "\n".join(lines) + "\n"


def _rows(host: str, task: Mapping[str, Any]) -> list[Sequence[str]]:
    head = (host, str(task["role"] or ""), task["task"])
    drift = [
        (*head, "differs", f"{_where(item)}: declared {item.get('declared')}, live {item.get('live')}")
        for item in task["drift"]
    ]
    if task["status"] not in _TOLD:
        return [*drift]
    what = task["actions"] or [task["message"] or task["module"]]
    return [*((*head, task["status"], text) for text in what), *drift]


def _where(item: Mapping[str, Any]) -> str:
    return ".".join(str(item[key]) for key in ("box", "path") if item.get(key))


def _cell(text: str) -> str:
    """Foreign text as a code span, in which nothing is markup; a bar would still end the cell."""
    flat = plain(text, _LONGEST_CELL).replace("`", "'").replace("|", "\\|")
    return f"`{flat}`" if flat else ""
