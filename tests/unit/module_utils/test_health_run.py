"""Waiting: as long as time can cure something, never longer than allowed, without asking healthy boxes again."""

from __future__ import annotations

from collections.abc import Mapping

from agentbox._shared._health import Check
from agentbox._shared._health_run import Findings, wait_until_settled

READY = Check("state", "", "ok", "running")
STARTING = Check("supervisor", "", "unknown", "still starting", settling=True)
EXITED = Check("lead", "", "fail", "exited with code 1")


class World:
    """Boxes that change as time passes; ``looks`` holds the boxes that were asked, look by look."""

    def __init__(self, **histories: list[Check]) -> None:
        self._histories = histories
        self.now = 0.0
        self.looks: list[list[str]] = []
        self.lines: list[str] = []

    def look(self, known: Mapping[str, list[Check]]) -> Findings:
        asked = [name for name in self._histories if name not in known]
        self.looks.append(asked)
        fresh = {name: [READY, self._histories[name].pop(0)] for name in asked}
        return Findings([], {name: fresh.get(name) or known[name] for name in self._histories})

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, seconds: float) -> Findings:
        return wait_until_settled(self.look, seconds, self.lines.append, lambda: self.now, self.sleep)


def test_what_is_healthy_is_not_waited_for() -> None:
    world = World(web=[READY])
    world.wait(60)
    assert (world.now, world.looks, world.lines) == (0.0, [["web"]], [])


def test_without_leave_to_wait_there_is_one_look() -> None:
    world = World(web=[STARTING])
    assert world.wait(0).unsettled == ["web"]
    assert world.now == 0.0


def test_only_boxes_that_are_still_starting_are_asked_again() -> None:
    world = World(web=[STARTING, STARTING, READY], api=[READY], db=[STARTING, READY])
    found = world.wait(60)
    assert world.looks == [["web", "api", "db"], ["web", "db"], ["web"]]
    assert found.unsettled == []
    assert list(found.boxes) == ["web", "api", "db"]


def test_a_failure_that_time_cannot_cure_ends_the_waiting() -> None:
    world = World(web=[STARTING, EXITED])
    assert world.wait(60).boxes["web"][1] == EXITED
    assert world.now == 1.0


def test_pauses_grow_to_a_bound_and_the_time_is_kept() -> None:
    world = World(web=[STARTING] * 100)
    found = world.wait(22)
    assert world.now == 22.0
    assert found.unsettled == ["web"]
    assert len(world.looks) == 7  # at 0, 1, 3, 7, 12, 17, 22


def test_every_look_leaves_a_line_that_says_what_is_waited_for() -> None:
    world = World(web=[STARTING, READY], api=[STARTING, READY])
    world.wait(30)
    assert world.lines == [
        "waiting for web (supervisor: still starting); api (supervisor: still starting), 0 s of at most 30 s"
    ]
