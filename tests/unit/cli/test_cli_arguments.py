from __future__ import annotations

import pytest

from agentbox.cli import arguments, options
from agentbox.cli.commands import HANDLERS
from agentbox.cli.exits import UsageError


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


def test_a_flag_without_its_value_exits_2() -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(["up", "--memory"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["upp"], "unknown command upp; did you mean up?"),
        (["docter", "--json"], "unknown command docter; did you mean doctor?"),
        (["xyz"], "unknown command xyz"),
        (["up", "extra"], "up: unknown argument extra"),
        (["--mem", "2g"], "up: unknown argument --mem; did you mean --memory?"),
        (["up", "--memroy=2g"], "up: unknown argument --memroy; did you mean --memory?"),
        (["down", "--volume"], "down: unknown argument --volume; did you mean --volumes?"),
        (["up", "--no-yollo"], "up: unknown argument --no-yollo; did you mean --no-yolo?"),
        (["ls", "--memory", "2g"], "ls: unknown argument --memory"),
    ],
)
def test_a_word_that_nothing_is_called_is_refused_with_the_nearest_one(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        arguments.parse(argv)
    assert refused.value.message == message


def test_a_switch_can_be_turned_off_against_environment_and_file() -> None:
    assert arguments.parse(["up", "--no-yolo"]).yolo == "false"
    assert arguments.parse(["up", "--no-cache"]).no_cache == "true"
    assert arguments.parse(["up", "--no-cache", "--cache"]).no_cache == "false"


def test_every_command_has_a_handler_and_every_option_a_command() -> None:
    assert set(HANDLERS) == set(arguments.BY_NAME)
    assert {option for command in arguments.COMMANDS for option in command.options} == set(options.TABLE)
