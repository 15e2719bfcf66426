"""Pure functions over a manifest, with the manifest of the agent that is shipped."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbox import agents

from .boxes import ROOT

CLAUDE: dict[str, Any] = yaml.safe_load((ROOT / "agents" / "claude.yml").read_text())
CODEX: dict[str, Any] = yaml.safe_load((ROOT / "agents" / "codex.yml").read_text())
HOME = Path("/home/agent")


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        ("/workspace", "-workspace"),
        ("/srv/My Repo_1.0", "-srv-My-Repo-1-0"),
        ("/wörk/😀/x", "-w-rk----x"),  # characters outside the basic plane count twice, as in JavaScript
        ("/srv/" + "ab c/" * 50, ("-srv-" + "ab-c-" * 39)[:200] + "-z97nrt"),
    ],
)
def test_transcripts_are_filed_where_the_cli_files_them(path: str, slug: str) -> None:
    assert agents.cwd_slug(path) == slug


def test_transcript_of_a_linked_workspace_is_that_of_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    real = agents.transcript(CLAUDE, HOME, str(tmp_path / "real"), "id")
    assert real is not None
    assert agents.transcript(CLAUDE, HOME, str(tmp_path / "link"), "id") == real


def test_config_directory_follows_the_agents_own_variable() -> None:
    assert agents.config_directory(CLAUDE, HOME, {}) == HOME / ".claude"
    moved = agents.config_directory(CLAUDE, HOME, {"CLAUDE_CONFIG_DIR": "/data/claude"})
    assert moved == Path("/data/claude")


def test_lead_shows_teammates_in_tmux_and_names_its_permission_mode() -> None:
    new = agents.conversation_argv(CLAUDE, "new", "1234")
    argv = agents.launch_argv(CLAUDE, new, "/workspace", "plan", yolo=False)
    assert argv == ["claude", "--teammate-mode", "tmux", "--permission-mode", "plan", "--session-id", "1234"]


def test_yolo_replaces_the_permission_mode() -> None:
    resume = agents.conversation_argv(CLAUDE, "resume", "1234")
    argv = agents.launch_argv(CLAUDE, resume, "/workspace", "default", yolo=True)
    assert argv == ["claude", "--teammate-mode", "tmux", "--dangerously-skip-permissions", "--resume", "1234"]


def test_an_agent_that_keeps_answers_among_its_settings_gets_them_as_words(tmp_path: Path) -> None:
    workspace = tmp_path / 'a "quoted" name'
    argv = agents.launch_argv(CODEX, [], str(workspace), "default", yolo=False)
    assert argv[:2] == ["codex", "-c"]
    answers = tomllib.loads(argv[2])
    assert "{{" not in yaml.safe_dump(CODEX), "inventories and tests hand manifests through Ansible's templates"
    assert answers == {"projects": {str(workspace.resolve()): {"trust_level": "trusted"}}}


def test_onboarding_answers_what_is_not_answered() -> None:
    present = {"theme": "light", "projects": {"/other": {"x": 1}, "/workspace": {"hasTrustDialogAccepted": False}}}
    result = agents.onboarded(CLAUDE, present, "/workspace", yolo=True, key=None)
    assert result["theme"] == "light"
    assert result["hasCompletedOnboarding"] is True
    assert result["bypassPermissionsModeAccepted"] is True
    assert result["projects"] == present["projects"]
    assert "customApiKeyResponses" not in result


def test_onboarding_without_yolo_does_not_accept_its_warning() -> None:
    result = agents.onboarded(CLAUDE, {}, "/workspace", yolo=False, key=None)
    assert "bypassPermissionsModeAccepted" not in result
    assert result["projects"] == {"/workspace": {"hasTrustDialogAccepted": True}}


def test_api_key_is_approved_by_its_tail_only_and_once() -> None:
    key = "sk-ant-secret-part-" + "T" * 20
    first = agents.onboarded(CLAUDE, {"customApiKeyResponses": {"approved": ["old"]}}, "/w", yolo=False, key=key)
    assert first["customApiKeyResponses"] == {"approved": ["old", "T" * 20], "rejected": []}
    assert agents.onboarded(CLAUDE, first, "/w", yolo=False, key=key) == first


def test_rejected_api_key_stays_rejected() -> None:
    present = {"customApiKeyResponses": {"approved": [], "rejected": ["T" * 20]}}
    result = agents.onboarded(CLAUDE, present, "/w", yolo=False, key="x" + "T" * 20)
    assert result["customApiKeyResponses"] == present["customApiKeyResponses"]


@pytest.mark.parametrize("strange", [{"projects": []}, {"projects": {"/w": 1}}, {"customApiKeyResponses": "no"}])
def test_onboarding_leaves_values_of_unknown_shape(strange: dict[str, Any]) -> None:
    result = agents.onboarded(CLAUDE, strange, "/w", yolo=False, key="k" * 30)
    key = next(iter(strange))
    assert result[key] == strange[key]


def test_credentials_are_named_by_where_they_are_and_never_called_valid(tmp_path: Path) -> None:
    key = {"ANTHROPIC_API_KEY": "sk-1"}
    assert agents.credentials(CLAUDE, tmp_path, {}, []) == {"state": "none"}
    assert agents.credentials(CLAUDE, tmp_path, key, []) == {"state": "present", "kind": "environment"}
    declared = agents.credentials(CLAUDE, tmp_path, key, ["OTHER", "ANTHROPIC_API_KEY"])
    assert declared == {"state": "present", "kind": "secret"}
    (tmp_path / ".credentials.json").touch()
    assert agents.credentials(CLAUDE, tmp_path, {}, []) == {"state": "none"}
    for empty in ("{}", '{"claudeAiOauth": {}}', '{"mcpOAuth": {"x": "y"}}', "no JSON"):
        (tmp_path / ".credentials.json").write_text(empty)
        assert agents.credentials(CLAUDE, tmp_path, {}, []) == {"state": "none"}, empty
    (tmp_path / ".credentials.json").write_text(json.dumps({"claudeAiOauth": {"accessToken": "x"}}))
    assert agents.credentials(CLAUDE, tmp_path, {}, []) == {"state": "present", "kind": "file"}
