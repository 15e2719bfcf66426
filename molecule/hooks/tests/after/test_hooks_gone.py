"""State absent: what was there before is there again."""

from __future__ import annotations

from conftest import ROOT
from testinfra.host import Host


def test_settings_of_others_are_as_they_were_to_the_byte(host: Host) -> None:
    own = (ROOT / "molecule" / "hooks" / "files" / "own.json").read_text(encoding="utf-8")
    assert host.file("/home/eve/.claude/settings.json").content_string == own


def test_what_was_made_is_gone(host: Host) -> None:
    assert not host.file("/home/dora/.claude").exists
