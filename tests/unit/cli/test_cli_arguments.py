from __future__ import annotations

import pytest

from agentbox.cli import arguments, options
from agentbox.cli.commands import HANDLERS


@pytest.mark.parametrize("command", arguments.COMMANDS, ids=lambda command: command.name)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_of_every_command_succeeds_and_shows_its_options(
    command: arguments.Command, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse([command.name, flag])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for option in command.options:
        for word in (*option.flags, *option.variables):
            assert word in shown


def test_help_of_the_program_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(["-h"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for command in arguments.COMMANDS:
        assert f"\n    {command.name} " in shown
    for code in (0, 1, 2, 3, 130):
        assert f"\n  {code} " in shown


@pytest.mark.parametrize("argv", [[], ["--memory", "2g"], ["--yolo", "--name", "x"]])
def test_up_is_the_default_command(argv: list[str]) -> None:
    assert arguments.parse(argv).command == "up"


@pytest.mark.parametrize(
    "argv", [["upp"], ["up", "extra"], ["--mem", "2g"], ["ls", "--memory", "2g"], ["up", "--memory"]]
)
def test_wrong_use_exits_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(argv)
    assert ended.value.code == 2


def test_a_switch_can_be_turned_off_against_environment_and_file() -> None:
    assert arguments.parse(["up", "--no-yolo"]).yolo == "false"
    assert arguments.parse(["up", "--no-cache"]).no_cache == "true"
    assert arguments.parse(["up", "--no-cache", "--cache"]).no_cache == "false"


def test_every_command_has_a_handler_and_every_option_a_command() -> None:
    assert set(HANDLERS) == set(arguments.BY_NAME)
    assert {option for command in arguments.COMMANDS for option in command.options} == set(options.TABLE)
