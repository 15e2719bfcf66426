"""The daemon's configuration: which keys are declared, how they go in and out, and what a running engine then needs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentbox._shared import _engine_config
from agentbox._shared._engine_config import Course, Live, Merge, Record
from agentbox._shared._errors import AgentboxError, DeclarationError

IDLE = Live(running=True)
BUSY = Live(running=True, containers=2)
SAFE = Live(running=True, containers=2, live_restore=True)


@pytest.mark.parametrize("nothing", [None, ""])
def test_nothing_in_whatever_spelling_declares_no_key(nothing: Any) -> None:
    assert _engine_config.declared(nothing, nothing, nothing, nothing) == {}
    assert _engine_config.declared({}, [], "", {}) == {}


def test_options_become_keys_in_the_engines_types() -> None:
    assert _engine_config.declared(
        {"debug": True, "log-driver": "local"}, [{"base": "198.51.100.0/24", "size": "28"}], "", {"max-file": 3}
    ) == {
        "debug": True,
        "log-driver": "local",
        "default-address-pools": [{"base": "198.51.100.0/24", "size": 28}],
        "log-opts": {"max-file": "3"},
    }


def test_log_options_of_the_configuration_become_texts_too() -> None:
    given = {"log-opts": {"max-file": 3, "compress": True, "mode": "non-blocking", "tag": False}}
    assert _engine_config.declared(given)["log-opts"] == {
        "max-file": "3",
        "compress": "true",
        "mode": "non-blocking",
        "tag": "false",
    }


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["x"], "config: must be a mapping"),
        ([{"hosts": []}], "config.hosts: "),
        ([{"proxies": {}}], "config.proxies: give it as proxy"),
        ([{"log-driver": "x"}, [], "local"], "config.log-driver: it is given by an option of its own too"),
        ([{}, {"base": "192.0.2.0/24", "size": 28}], "address_pools: must be a list"),
        ([{}, [{"base": "192.0.2.0/24"}]], r"address_pools\[0\]: must have base"),
        ([{}, [{"base": "192.0.2.1/24", "size": 28}]], r"address_pools\[0\]: 192.0.2.1/24 has host bits set"),
        ([{}, [{"base": "192.0.2.0/24", "size": 16}]], r"address_pools\[0\].size: must lie between 24 and 32"),
        *(
            ([{}, [{"base": "192.0.2.0/24", "size": size}]], r"address_pools\[0\].size: must be a whole number")
            for size in (None, [], float("inf"), 28.7, True, "28x", -1)
        ),
        ([{}, [], 5], "log_driver: must be text"),
        ([{}, [], "", {"labels": ["a"]}], "log_opts.labels: must be text, a number, true or false"),
    ],
)
def test_what_cannot_be_is_refused_by_the_options_name(arguments: list[Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        _engine_config.declared(*arguments)


@pytest.mark.parametrize("content", [b'{"a": 1', b"[]", b"\xff", b'{"a": 1, "a": 2}'])
def test_what_is_no_json_object_is_an_error_that_names_the_file(content: bytes) -> None:
    with pytest.raises(AgentboxError, match="/the/file holds no JSON"):
        _engine_config.parsed("/the/file", content)


@pytest.mark.parametrize("content", [None, b"", b"\n"])
def test_no_configuration_is_an_empty_one(content: bytes | None) -> None:
    assert _engine_config.parsed("/the/file", content) == {}


def merge(text: str | None, wanted: dict[str, Any], owned: Any = None) -> Merge:
    return _engine_config.merge(text, json.loads(text or "{}"), owned or {}, wanted)


def test_only_what_is_declared_changes_and_the_rest_keeps_its_bytes() -> None:
    merged = merge('{"log-level":   "warn",\n "debug": false}\n', {"debug": True})
    assert merged.text == '{"log-level":   "warn",\n "debug": true}\n'
    assert (merged.before, merged.after) == ({"debug": False}, {"debug": True})
    assert merged.keys == {"debug": {"set": True, "before": False}}


def test_what_is_there_already_is_nobodys_change() -> None:
    text = '{"debug":true}'
    merged = merge(text, {"debug": True})
    assert (merged.text, merged.keys, merged.changed) == (text, {}, [])


def test_one_is_not_true() -> None:
    assert merge('{"debug": 1}', {"debug": True}).changed == ["debug"]


def test_a_key_that_is_no_longer_declared_gets_back_what_stood_there() -> None:
    text = '{"debug": false, "mtu": 1400}\n'
    first = merge(text, {"debug": True, "bip": "192.0.2.1/24"})
    second = merge(first.text, {"debug": True}, first.keys)
    assert json.loads(second.text or "") == {"debug": True, "mtu": 1400}
    assert merge(second.text, {}, second.keys).text == text


def test_what_stood_there_first_is_remembered_over_several_values() -> None:
    first = merge('{"mtu": 1400}', {"mtu": 1300})
    second = merge(first.text, {"mtu": 1200}, first.keys)
    assert second.keys == {"mtu": {"set": 1200, "before": 1400}}


def test_what_somebody_changed_since_is_theirs() -> None:
    merged = merge('{"debug": false}', {}, {"debug": {"set": True}})
    assert (merged.text, merged.keys) == ('{"debug": false}', {})


def test_a_file_of_our_keys_alone_goes_with_them() -> None:
    first = merge(None, {"debug": True})
    assert merge(first.text, {}, first.keys).text is None


def test_the_record_survives_the_disk_and_damage() -> None:
    record = Record({"debug": {"set": True}}, "1:2", ("mtu",))
    assert _engine_config.recorded(json.loads(json.dumps(record.as_json()))) == record
    assert _engine_config.recorded(None) == _engine_config.recorded({"schema": 99}) == Record()


@pytest.mark.parametrize(
    ("text", "wanted", "live", "course"),
    [
        ("{}", {"mtu": 1400}, Live(running=False), Course()),
        ("{}", {}, BUSY, Course()),
        ("{}", {"debug": True}, BUSY, Course(("reload",))),
        ("{}", {"mtu": 1400}, IDLE, Course(("restart",))),
        ("{}", {"mtu": 1400}, BUSY, Course((), ("mtu",))),
        ("{}", {"mtu": 1400, "debug": True}, BUSY, Course(("reload",), ("mtu",))),
        ("{}", {"log-driver": "local"}, SAFE, Course(("restart",))),
        # Live restore covers neither the bridge nor its own end.
        ("{}", {"bip": "192.0.2.1/24"}, SAFE, Course((), ("bip",))),
        (
            '{"live-restore": true}',
            {"live-restore": False, "log-driver": "x"},
            SAFE,
            Course(("reload",), ("log-driver",)),
        ),
        ("{}", {"live-restore": True, "log-driver": "local"}, BUSY, Course(("reload", "restart"))),
        ("{}", {"live-restore": True, "mtu": 1400}, BUSY, Course(("reload",), ("mtu",))),
    ],
)
def test_a_running_engine_is_disturbed_as_little_as_possible(
    text: str, wanted: dict[str, Any], live: Live, course: Course
) -> None:
    assert _engine_config.course(merge(text, wanted), [], live) == course


def test_a_key_that_is_taken_out_counts_after_a_restart_only() -> None:
    merged = merge('{"debug": true}', {}, {"debug": {"set": True}})
    assert _engine_config.course(merged, [], BUSY) == Course((), ("debug",))


def test_what_waited_counts_when_nothing_runs_any_more() -> None:
    merged = merge('{"mtu": 1400}', {"mtu": 1400}, {"mtu": {"set": 1400}})
    assert _engine_config.course(merged, ["mtu"], BUSY) == Course((), ("mtu",))
    assert _engine_config.course(merged, ["mtu"], IDLE) == Course(("restart",))
