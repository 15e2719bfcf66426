"""What a box should be: from its declaration, or from what it was made with."""

from __future__ import annotations

from typing import Any

import pytest

from agentbox._shared._health_expected import (
    Capacity,
    Origin,
    agents_by_image,
    expected_from_engine,
    expected_from_spec,
)
from agentbox._shared._health_facts import Expected, Limits
from agentbox._shared._ports import published
from agentbox._shared._spec import parse_boxes
from tests.unit.module_utils import health_samples as samples

MANIFESTS: dict[str, Any] = {
    "claude": {**samples.MANIFEST, "launch": {"permission_modes": ["default"]}},
    "codex": {"package": {"version": "0.171.0"}},
}
GIB = 1024**3
ROOMY = Capacity(cpus=64, memory=512 * GIB)


def declared(capacity: Capacity = ROOMY, **box: Any) -> Expected:
    spec = parse_boxes([{"name": "web", **box}], instance="agentbox", manifests=MANIFESTS)[0]
    return expected_from_spec(spec, "agentbox", MANIFESTS, capacity)


def test_a_declaration() -> None:
    assert declared(workspace="/srv/code/web", publish="127.0.0.1:4400", memory="1g", cpus=2, pids=99) == Expected(
        name="web",
        container="agentbox-web",
        state="started",
        image="agentbox:latest",
        workspace="/srv/code/web",
        lead="claude",
        agents=("claude",),
        publish=("127.0.0.1", 4400),
        limits=Limits(memory=GIB, memory_swap=GIB, pids=99, cpus=2),
        manifests={"claude": MANIFESTS["claude"]},
    )


def test_the_instance_comes_from_who_asks_or_from_the_label() -> None:
    spec = parse_boxes([{"name": "web"}], instance="team", manifests=MANIFESTS)[0]
    assert expected_from_spec(spec, "team", MANIFESTS, ROOMY).instance == "team"
    labels = {**samples.inspect()["Config"]["Labels"], "agentbox.instance": "team"}
    assert undeclared(config={"Labels": labels}).instance == "team"


def test_declared_limits_are_capped_at_what_the_host_has() -> None:
    small = declared(Capacity(cpus=2, memory=3 * GIB), memory="64g", cpus=16)
    assert small.limits == Limits(memory=5 * GIB // 2, memory_swap=5 * GIB // 2, pids=512, cpus=2)


def test_an_unknown_capacity_caps_nothing() -> None:
    assert declared(Capacity(), memory="64g", cpus=16).limits == Limits(64 * GIB, 64 * GIB, 512, 16)


@pytest.mark.parametrize("state", ["started", "stopped", "absent"])
def test_the_declared_state(state: str) -> None:
    assert declared(state=state).state == state


def undeclared(record: Any = None, box_json: Any = None, **changed: Any) -> Expected:
    inspect = samples.inspect(**changed)
    return expected_from_engine(inspect, Origin(record or {}, box_json or {}), {}, ROOMY)


def test_a_box_nobody_declares_is_what_it_was_made_with() -> None:
    found = undeclared(
        record={"spec": {"memory": GIB, "cpus": 2.0, "pids": 64}},
        box_json={"lead": "codex", "agents": ["codex"], "credentials": "none", "manifests": MANIFESTS},
        host={"PortBindings": {"4317/tcp": [{"HostIp": "127.0.0.1", "HostPort": "4317"}]}},
    )
    assert found == Expected(
        name="web",
        container="agentbox-web",
        state="started",
        image="agentbox:latest",
        workspace="/srv/code/web",
        lead="codex",
        agents=("codex",),
        publish=("127.0.0.1", 4317),
        limits=Limits(GIB, GIB, 64, 2.0),
        credentials="none",
        manifests={"codex": MANIFESTS["codex"]},
    )


@pytest.mark.parametrize("record", [{}, {"spec": None}, {"spec": {"memory": "much", "cpus": 1, "pids": 1}}])
def test_a_record_that_says_nothing_leaves_the_limits_open(record: dict[str, Any]) -> None:
    assert undeclared(record=record).limits is None


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ({"Status": "running"}, "started"),
        ({"Status": "exited", "ExitCode": 0}, "stopped"),
        ({"Status": "exited", "ExitCode": 143}, "stopped"),
        ({"Status": "exited", "ExitCode": 137}, "stopped"),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": True}, "started"),
        ({"Status": "exited", "ExitCode": 1}, "started"),
        ({"Status": "created", "ExitCode": 0, "Error": ""}, "stopped"),
        ({"Status": "created", "ExitCode": 128, "Error": "port is already allocated"}, "started"),
        ({"Status": "exited", "ExitCode": 137, "Error": "bind source path does not exist"}, "started"),
        ({"Status": "restarting", "ExitCode": 0}, "started"),
    ],
)
def test_only_what_ended_as_a_stopped_box_ends_was_stopped_on_purpose(state: dict[str, Any], wanted: str) -> None:
    assert undeclared(**state).state == wanted


@pytest.mark.parametrize(
    ("bindings", "address"),
    [
        ({}, None),
        ({"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "80"}]}, None),
        ({"4317/tcp": None}, None),
        ({"4317/tcp": [{"HostIp": "", "HostPort": "4400"}]}, ("0.0.0.0", 4400)),  # noqa: S104
        ({"4317/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}, None),
    ],
)
def test_where_a_page_is_published(bindings: dict[str, Any], address: tuple[str, int] | None) -> None:
    assert published(samples.inspect(host={"PortBindings": bindings})) == address


def test_images_are_those_of_the_boxes_with_what_each_needs() -> None:
    boxes = [
        samples.expected(image="one"),
        samples.expected(image="one", agents=("codex",), manifests={}),
        samples.expected(image="two", agents=()),
        samples.expected(image="of-an-absent-box", state="absent"),
    ]
    assert agents_by_image(boxes) == {"one": {"claude": samples.MANIFEST, "codex": {}}, "two": {}}
