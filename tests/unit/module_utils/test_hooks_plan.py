"""Our hook entries in settings that hold others' too."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from agentbox._shared._errors import DeclarationError, SettingsError
from agentbox._shared._hooks import group, is_owned, subscriptions
from agentbox._shared._hooks_plan import Merge, merge, sink_address

MANIFEST: dict[str, Any] = {
    "name": "claude",
    "hooks": {
        "mechanism": "claude-managed-settings",
        "timeout": 3,
        "http": ["PreToolUse", "Stop"],
        "command": ["Setup"],
    },
}
SINK = "http://127.0.0.1:4318"
WANTED = subscriptions(MANIFEST, SINK, "agentbox")
OTHERS = subscriptions(MANIFEST, "http://127.0.0.1:9", "agentbox-2")
GUARD = {"matcher": "Bash", "hooks": [{"type": "command", "command": "guard 'a' # X-Agentbox-Owner"}]}
# As people write it: keys in no order, a secret, and one entry on one line.
FOREIGN = """{
    "model": "opus",
    "env": {"API_KEY": "sesame \\u00fc"},
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "guard"}]}],
        "Notification": [
            {"hooks": [{"type": "command", "command": "bell"}]}
        ]
    },
    "permissions": {"allow": ["Bash(ls:*)"]}
}
"""


def merged(text: str, wanted: dict[str, Any] = WANTED) -> Merge:
    return merge(text, wanted, "agentbox")


def hooks(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)["hooks"]
    return found


def settings(**entries: Any) -> str:
    return json.dumps({"hooks": entries}, indent=2)


def test_new_settings_hold_our_entries_and_nothing_else() -> None:
    result = merged("{}\n")
    assert json.loads(result.text) == {"hooks": {event: [group(handler)] for event, handler in WANTED.items()}}
    assert (result.added, result.healed, result.removed) == (["PreToolUse", "Setup", "Stop"], [], [])
    assert result.text.endswith("}\n")


def test_every_handler_is_known_as_ours_and_as_no_other_instances() -> None:
    assert len(WANTED) == 3
    for event in WANTED:
        assert is_owned(WANTED[event], "agentbox")
        assert is_owned(OTHERS[event], "agentbox-2")
        assert not is_owned(WANTED[event], "agentbox-2")
        assert not is_owned(OTHERS[event], "agentbox")
    for unmarked in ({"type": "http", "url": f"{SINK}/hook/claude"}, *GUARD["hooks"], {"headers": []}, None, "text"):
        assert not is_owned(unmarked, "agentbox")


def test_others_keep_every_byte_and_ours_come_last() -> None:
    result = merged(FOREIGN)
    [guard, own] = hooks(result.text)["PreToolUse"]
    assert (guard["matcher"], own) == ("Bash", group(WANTED["PreToolUse"]))
    for line in FOREIGN.splitlines():
        if "guard" not in line:
            assert f"{line}\n" in result.text or f"{line},\n" in result.text
    assert '"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "guard"}]}, {' in result.text
    assert list(hooks(result.text)) == ["PreToolUse", "Notification", "Setup", "Stop"]


def test_a_second_time_there_is_nothing_to_do() -> None:
    once = merged(FOREIGN)
    assert once.differs
    twice = merged(once.text)
    assert (twice.text, twice.differs) == (once.text, False)


def test_absence_gives_back_what_was_there_to_the_byte() -> None:
    for text in ("{}\n", '{"a":1}', FOREIGN, FOREIGN.replace("\n", "\r\n"), merge(FOREIGN, OTHERS, "agentbox-2").text):
        result = merged(merged(text).text, {})
        assert result.text == text
        assert (result.added, result.healed, len(result.removed)) == ([], [], 3)


@pytest.mark.parametrize(
    "edit",
    [
        lambda entry: entry["hooks"][0].update(timeout=600),
        lambda entry: entry["hooks"][0].update(url="http://127.0.0.1:1/elsewhere"),
        lambda entry: entry["hooks"][0].update(async_=True),
        lambda entry: entry["hooks"][0]["headers"].pop("X-Agentbox-Pane"),
        lambda entry: entry.update(matcher="Bash"),
        lambda entry: entry["hooks"].append(entry["hooks"][0]),
    ],
)
def test_an_edited_entry_of_ours_is_put_right_where_it_stands(edit: Any) -> None:
    good = settings(PreToolUse=[GUARD, group(WANTED["PreToolUse"]), GUARD])
    wanted = {"PreToolUse": WANTED["PreToolUse"]}
    document = json.loads(good)
    edit(document["hooks"]["PreToolUse"][1])
    result = merged(json.dumps(document, indent=2), wanted)
    assert result.text == good
    assert (result.added, result.healed, result.removed) == ([], ["PreToolUse"], [])


def test_an_edited_command_is_put_right() -> None:
    edited = copy.deepcopy(WANTED["Setup"])
    edited["command"] = edited["command"].replace("--max-time 3", "--max-time 300")
    result = merged(settings(Setup=[group(edited)]), {"Setup": WANTED["Setup"]})
    assert hooks(result.text) == {"Setup": [group(WANTED["Setup"])]}


def test_of_several_of_ours_one_remains() -> None:
    old = subscriptions(MANIFEST, "http://127.0.0.1:1", "agentbox")["Stop"]
    text = settings(Stop=[group(old), GUARD, group(WANTED["Stop"]), group(old)])
    result = merged(text, {"Stop": WANTED["Stop"]})
    assert hooks(result.text)["Stop"] == [GUARD, group(WANTED["Stop"])]
    assert result.healed == ["Stop"]


def test_entries_of_event_types_that_are_not_wanted_any_more_go() -> None:
    text = settings(Stop=[group(WANTED["Stop"])], Retired=[GUARD, group(WANTED["Stop"])], Gone=[group(WANTED["Stop"])])
    result = merged(text, {"Stop": WANTED["Stop"]})
    assert hooks(result.text) == {"Stop": [group(WANTED["Stop"])], "Retired": [GUARD]}
    assert (result.added, result.healed, result.removed) == ([], [], ["Retired", "Gone"])


def test_a_handler_that_somebody_added_to_our_entry_stays() -> None:
    theirs = {"type": "command", "command": "theirs"}
    mixed = {"matcher": "Edit", "hooks": [theirs, WANTED["Stop"], theirs]}
    kept = {"matcher": "Edit", "hooks": [theirs, theirs]}
    result = merged(settings(Stop=[mixed]), {"Stop": WANTED["Stop"]})
    assert hooks(result.text)["Stop"] == [kept, group(WANTED["Stop"])]
    assert not merged(result.text, {"Stop": WANTED["Stop"]}).differs
    assert hooks(merged(settings(Stop=[mixed]), {}).text)["Stop"] == [kept]


def test_what_agents_ignore_is_left_alone() -> None:
    odd = [None, 1, "text", {"hooks": None}, {"hooks": [None, 1]}, {"nothing": []}]
    result = merged(settings(Stop=odd, Other="no list"))
    assert hooks(result.text)["Stop"] == [*odd, group(WANTED["Stop"])]
    assert hooks(result.text)["Other"] == "no list"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not valid JSON"),
        ("\ufeff{}", "is not valid JSON"),
        ('{"token": "sesame",}', "is not valid JSON"),
        ("[]", "holds no JSON object"),
        ('{"hooks": []}', "holds hooks that are no object"),
        ('{"hooks": null}', "holds hooks that are no object"),
        ('{"hooks": {"Stop": {}}}', "holds hooks.Stop that is no list"),
    ],
)
def test_settings_of_another_shape_are_refused(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as refusal:
        merged(text)
    assert "sesame" not in str(refusal.value)


@pytest.mark.parametrize("address", [SINK, f"{SINK}/", "https://hub.example/agents/x", "http://[::1]:4318", "http://h"])
def test_an_address_without_more_is_taken(address: str) -> None:
    assert sink_address(address) == address.rstrip("/")


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:4318",
        "ftp://127.0.0.1",
        "http://user:sesame@hub.example",
        "http://hub.example/?token=sesame",
        "http://hub.example/#x",
        "http://hub.example/$(id)",
        "http://hub.example/ x",
        "http://hub.example/x\n",
        "http://hub.example/'",
    ],
)
def test_any_other_address_is_refused_without_quoting_it(address: str) -> None:
    with pytest.raises(DeclarationError, match="url: must be a plain") as refusal:
        sink_address(address)
    assert "sesame" not in str(refusal.value)
