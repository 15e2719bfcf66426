from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbox._shared import _spec
from agentbox.cli import call, collection, declaration, options
from agentbox.cli.exits import UsageError
from agentbox.cli.options import Settings, Sources
from agentbox.cli.user import User

MANIFESTS = {"claude": yaml.safe_load((collection.root() / "agents/claude.yml").read_text())}
ADA = User(Path("/home/ada"), Path("/home/ada/.config"), Path("/home/ada/.local/state/agentbox"), is_root=False)


def settings(**flags: str) -> Settings:
    return options.resolve(options.TABLE, Sources(flags, {}, {}, Path("/none")))


def parsed(raw: dict[str, Any], secrets: tuple[str, ...] = ()) -> _spec.BoxSpec:
    """The declaration as the module sees it: with the names of secrets apart."""
    raw = {key: value for key, value in raw.items() if key != "secrets"}
    return _spec.parse_boxes([raw], instance="agentbox", manifests=MANIFESTS, secrets={raw["name"]: secrets})[0]


def test_defaults_declare_what_a_bare_box_declares() -> None:
    ours = parsed(declaration.box(settings(), None, {}))
    bare = parsed({"name": "default"})
    assert ours == bare


def test_every_option_reaches_the_box_or_the_image() -> None:
    asked = settings(
        name="web",
        memory="1g",
        cpus="2",
        port="4999",
        gpus="all",
        yolo="true",
        agent="claude",
        build_network="host",
        no_cache="true",
        instance="other",
    )
    raw = declaration.box(asked, Path("/srv/web"), {"KEY": "s3cret"})
    spec = parsed(raw, ("KEY",))
    assert (spec.name, spec.workspace, spec.memory, spec.cpus) == ("web", "/srv/web", 1 << 30, 2)
    assert (str(spec.publish), spec.gpus, spec.yolo, spec.lead) == ("127.0.0.1:4999", "all", True, "claude")
    assert raw["secrets"] == {"KEY": "s3cret"}
    assert declaration.image(asked, raw) == {
        "agentbox_agents": ["claude"],
        "agentbox_image_no_cache": True,
        "agentbox_image_build_network": "host",
    }
    common = declaration.common(asked, ADA, None)
    assert common["agentbox_instance"] == "other"
    assert common["agentbox_state_root"] == "/home/ada/.local/state/agentbox"


def test_a_box_without_a_lead_needs_no_agent() -> None:
    spec = parsed(declaration.box(settings(agent="none"), None, {}))
    assert (spec.lead, spec.agents) == (None, ())


def test_an_address_of_an_engine_is_handed_on_only_when_there_is_one() -> None:
    assert "agentbox_docker_host" not in declaration.common(settings(), ADA, None)
    assert declaration.common(settings(), ADA, "unix:///x")["agentbox_docker_host"] == "unix:///x"


@pytest.mark.parametrize("agent", ["claude", "none"])
def test_a_known_agent_and_none_are_accepted(agent: str) -> None:
    declaration.check_agent(settings(agent=agent).setting(options.AGENT), MANIFESTS)


def test_an_unknown_agent_is_refused_with_the_name_of_its_source_and_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"^flag --agent: unknown agent foo, known: claude"):
        declaration.check_agent(settings(agent="foo").setting(options.AGENT), MANIFESTS)


@pytest.mark.parametrize("command", ["up", "shell", "rebuild"])
def test_a_call_with_an_unknown_agent_goes_nowhere(command: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^environment AGENTBOX_AGENT: unknown agent foo"):
        call.prepare([command], {"HOME": str(tmp_path), "AGENTBOX_AGENT": "foo"})
