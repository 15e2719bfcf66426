from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentbox.cli import options
from agentbox.cli.exits import UsageError
from agentbox.cli.options import Option, Settings, Sources

FILE = Path("/home/ada/.config/agentbox/config.yml")
# For every option: three different texts, what they mean, and one that is refused.
EXAMPLES: dict[str, tuple[tuple[str, str, str], tuple[Any, Any, Any], str]] = {
    "workspace": (("/a", "b", "~/c"), ("/a", "b", "~/c"), "a\nb"),
    "memory": (("1g", "2G", "600m"), ("1g", "2G", "600m"), "511m"),
    "cpus": (("1", "2.5", "3"), (1.0, 2.5, 3.0), "none"),
    "port": (("4000", "4001", "65535"), (4000, 4001, 65535), "65536"),
    "build_network": (("host", "none", "corp-net"), ("host", "none", "corp-net"), "--host"),
    "gpus": (("all", "1", "2"), ("all", "1", "2"), "many"),
    "yolo": (("true", "no", "1"), (True, False, True), "perhaps"),
    "no_cache": (("on", "off", "yes"), (True, False, True), "2"),
    "agent": (("claude", "none", "codex"), ("claude", "none", "codex"), "-x"),
    "name": (("a", "b-1", "c"), ("a", "b-1", "c"), "My Repo"),
    "instance": (("x", "y", "z"), ("x", "y", "z"), "-x"),
}
each_option = pytest.mark.parametrize("option", options.TABLE, ids=lambda option: option.key)


def resolve(
    option: Option,
    flag: str | None = None,
    environ: Mapping[str, str] | None = None,
    file: Mapping[str, Any] | None = None,
) -> Settings:
    return options.resolve([option], Sources({option.key: flag}, environ or {}, file or {}, FILE))


def written(option: Option, text: str) -> Any:
    """A text of EXAMPLES as it stands in YAML."""
    return option.parse(text) if option.is_switch else text


@each_option
def test_flag_wins_over_environment_over_file_over_default(option: Option) -> None:
    (first, second, third), (one, two, three), _ = EXAMPLES[option.key]
    variable = option.variables[0]
    file = {option.key: written(option, third)}
    everything = resolve(option, first, {variable: second}, file)
    assert everything[option] == one
    assert everything.setting(option).source == f"flag {option.flags[0]}"
    without_flag = resolve(option, None, {variable: second}, file)
    assert without_flag[option] == two
    assert without_flag.setting(option).source == f"environment {variable}"
    only_file = resolve(option, None, {}, file)
    assert only_file[option] == three
    assert only_file.setting(option).source == f"{option.key} of {FILE}"
    nothing = resolve(option)
    assert nothing[option] == option.default
    assert not nothing.setting(option).asked


@each_option
def test_own_variable_wins_over_the_bare_one(option: Option) -> None:
    (first, second, _), (one, two, _), _ = EXAMPLES[option.key]
    own, *bare = option.variables
    assert own == "AGENTBOX_" + option.key.upper()
    for variable in bare:
        assert resolve(option, None, {own: first, variable: second})[option] == one
        assert resolve(option, None, {own: "", variable: second})[option] == two


@each_option
def test_an_empty_variable_counts_as_unset(option: Option) -> None:
    settings = resolve(option, None, dict.fromkeys(option.variables, ""))
    assert not settings.setting(option).asked


@each_option
def test_a_wrong_value_is_refused_with_the_name_of_its_source(option: Option) -> None:
    wrong = EXAMPLES[option.key][2]
    with pytest.raises(UsageError, match=f"^flag {option.flags[0]} is "):
        resolve(option, wrong)
    for variable in option.variables:
        with pytest.raises(UsageError, match=f"^environment {variable} is "):
            resolve(option, None, {variable: wrong})
    with pytest.raises(UsageError, match=option.key):
        resolve(option, None, {}, {option.key: wrong})


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, True])
def test_a_value_of_another_type_in_the_file_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="memory: text or a number expected"):
        resolve(options.MEMORY, None, {}, {"memory": value})


@pytest.mark.parametrize("value", ["true", 1])
def test_a_switch_in_the_file_has_to_be_true_or_false(value: object) -> None:
    with pytest.raises(UsageError, match="yolo: true or false expected"):
        resolve(options.YOLO, None, {}, {"yolo": value})


def test_the_reference_s_bare_variables_are_read() -> None:
    bare = {variable for option in options.TABLE for variable in option.variables[1:]}
    assert bare == {"WORKSPACE", "MEM", "CPUS", "DOCKER_NETWORK"}


def test_a_mistyped_variable_is_reported_with_the_nearest_name() -> None:
    environ = {"AGENTBOX_MEMROY": "1g", "AGENTBOX_CPUS": "2", "MEM": "1g", "AGENTBOX_ACTIVITY": "/x"}
    [sentence] = options.unknown_variables(environ, ["AGENTBOX_ACTIVITY"])
    assert sentence == "environment AGENTBOX_MEMROY has no meaning for agentbox; did you mean AGENTBOX_MEMORY?"


def test_no_two_options_share_a_flag_a_variable_or_a_key() -> None:
    names = [
        name
        for option in options.TABLE
        for name in (option.key, *option.flags, *option.variables, *([option.off] if option.off else []))
    ]
    assert len(names) == len(set(names))


def test_every_wrong_value_is_told_at_once() -> None:
    sources = options.Sources({"memory": "much"}, {"CPUS": "few"}, {"yolo": "true"}, Path("config.yml"))
    with pytest.raises(UsageError) as caught:
        options.resolve(options.TABLE, sources)
    told = caught.value.message.splitlines()
    assert [line.split(" is ")[0] for line in told[:2]] == ["flag --memory", "environment CPUS"]
    assert told[2] == "file config.yml: yolo: true or false expected"
