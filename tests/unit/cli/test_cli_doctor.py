from __future__ import annotations

import json
from typing import Any

import pytest

from agentbox.cli import doctor


def result(*verdicts: str) -> dict[str, Any]:
    checks = [
        {"id": f"check-{index}", "subject": "host", "verdict": verdict, "seen": f"saw\x1b[31m {index}", "todo": todo}
        for index, verdict in enumerate(verdicts)
        for todo in ["" if verdict == "ok" else "do this"]
    ]
    counts = {verdict: verdicts.count(verdict) for verdict in ("ok", "warn", "unknown", "fail")}
    worst = next(verdict for verdict in ("fail", "unknown", "warn", "ok") if counts[verdict])
    return {"changed": False, "checks": checks, "verdict": worst, "counts": counts}


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(["ok"], 0), (["ok", "warn"], 0), (["warn", "unknown"], 3), (["ok", "unknown", "fail"], 1), (["fail"], 1)],
)
def test_the_exit_code_says_healthy_failed_or_undecidable(verdicts: list[str], code: int) -> None:
    assert doctor.exit_code(result(*verdicts)) == code


def test_the_table_shows_every_check_what_to_do_and_the_sum() -> None:
    lines = doctor.as_table(result("ok", "warn", "fail")).splitlines()
    assert lines == [
        "ok    host  check-0  saw [31m 0",
        "warn  host  check-1  saw [31m 1",
        "        -> do this",
        "fail  host  check-2  saw [31m 2",
        "        -> do this",
        "1 fine, 1 warning, 1 failed, 0 undecided",
    ]


def test_json_holds_the_checks_and_nothing_of_ansible() -> None:
    found = json.loads(doctor.as_json(result("ok")))
    assert set(found) == {"verdict", "counts", "checks"}


@pytest.mark.parametrize(
    ("verdicts", "said"), [(["ok"], "0 warnings"), (["warn"], "1 warning,"), (["warn"] * 2, "2 warnings")]
)
def test_the_sum_counts_in_words(verdicts: list[str], said: str) -> None:
    assert said in doctor.as_table(result(*verdicts))


@pytest.mark.parametrize("verdicts", [["ok"], ["ok", "unknown"], ["fail"]])
def test_a_box_that_was_asked_for_and_is_missing_is_a_failure(verdicts: list[str]) -> None:
    before = result(*verdicts)
    found = doctor.with_missing_box(before, "nope", "Run: agentbox up --name nope")
    assert doctor.exit_code(found) == 1
    assert found["counts"]["fail"] == before["counts"]["fail"] + 1
    *_, row, todo, total = doctor.as_table(found).splitlines()
    assert row.split() == ["fail", "nope", "state", "there", "is", "no", "box", "nope"]
    assert todo == "        -> Run: agentbox up --name nope"
    assert f"{found['counts']['fail']} failed" in total
    assert before["verdict"] == result(*verdicts)["verdict"]
