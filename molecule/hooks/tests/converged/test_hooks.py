"""The entries that the role promises, beside those of others."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from conftest import ROOT
from testinfra.host import Host

MANIFEST = yaml.safe_load((ROOT / "agents" / "claude.yml").read_text(encoding="utf-8"))
OWN = json.loads((ROOT / "molecule" / "hooks" / "files" / "own.json").read_text(encoding="utf-8"))


def settings(host: Host, user: str) -> Any:
    return json.loads(host.file(f"/home/{user}/.claude/settings.json").content_string)


@pytest.mark.parametrize("user", ["dora", "eve"])
def test_every_event_is_reported_to_the_sink_once(host: Host, user: str) -> None:
    hooks = settings(host, user)["hooks"]
    assert sorted(hooks) == sorted(MANIFEST["hooks"]["http"] + MANIFEST["hooks"]["command"])
    for event, entries in hooks.items():
        ours = [entry for entry in entries if "X-Agentbox-Owner" in json.dumps(entry)]
        assert len(ours) == 1, event
        assert "http://127.0.0.1:4318/hook/claude" in json.dumps(ours), event


def test_others_stay_where_they_were(host: Host) -> None:
    found = settings(host, "eve")
    assert found["env"] == OWN["env"]
    assert found["hooks"]["Stop"][0] == OWN["hooks"]["Stop"][0]
    assert len(found["hooks"]["Stop"]) == 2


@pytest.mark.parametrize(("path", "mode"), [("", 0o700), ("/settings.json", 0o600)])
def test_what_was_made_is_the_users_alone(host: Host, path: str, mode: int) -> None:
    made = host.file(f"/home/dora/.claude{path}")
    assert (made.user, made.group, made.mode) == ("dora", "dora", mode)
