from __future__ import annotations

from pathlib import Path

import pytest

from agentbox.cli import config_file
from agentbox.cli.exits import UsageError
from agentbox.cli.user import User


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path, tmp_path / ".config", tmp_path / "state", is_root=False)


def write(user: User, text: str) -> None:
    user.config_file.parent.mkdir(parents=True)
    user.config_file.write_text(text)


def test_no_file_is_no_settings(user: User) -> None:
    found = config_file.load(user)
    assert (found.path, dict(found.values), found.secrets) == (user.config_file, {}, ())


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_is_no_settings(user: User, text: str) -> None:
    write(user, text)
    assert dict(config_file.load(user).values) == {}


def test_options_and_secrets_are_read(user: User) -> None:
    write(user, "memory: 8g\nyolo: true\nsecrets:\n  KEY: {env: THE_KEY}\n")
    found = config_file.load(user)
    assert dict(found.values) == {"memory": "8g", "yolo": True}
    assert config_file.read_secrets(found, user, {"THE_KEY": "s3cret"}) == {"KEY": "s3cret"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memroy: 8g", "unknown key 'memroy'; did you mean memory?"),
        ("build-network: host", "unknown key 'build-network'; did you mean build_network?"),
        ("- memory", "a mapping of option names to values expected"),
        ("1: 2", "a mapping of option names to values expected"),
        ("memory: [", "is not valid YAML in line"),
        ("secrets: [KEY]", "secrets: a mapping"),
        ("secrets: {'a b': {env: X}}", "secrets.a b: the name of an environment variable expected"),
        ("secrets: {KEY: {env: X, file: y}}", "secrets.KEY: {env: VARIABLE}"),
        ("secrets: {KEY: {vault: X}}", "secrets.KEY: {env: VARIABLE}"),
        ("secrets: {KEY: {env: 1}}", "secrets.KEY: {env: VARIABLE}"),
    ],
)
def test_a_wrong_file_is_refused_with_the_path_of_the_key(user: User, text: str, message: str) -> None:
    write(user, text)
    with pytest.raises(UsageError) as refused:
        config_file.load(user)
    assert str(user.config_file) in refused.value.message
    assert message in refused.value.message


@pytest.mark.parametrize(
    "text", ["secrets: {KEY: s3cret}", "secrets: {KEY: {s3cret: 1}}", "secrets: 's3cret'", "a: 's3cret"]
)
def test_no_message_shows_a_value_written_in_the_wrong_place(user: User, text: str) -> None:
    write(user, text)
    with pytest.raises(UsageError) as refused:
        config_file.load(user)
    assert "s3cret" not in str(refused.value)


def test_a_directory_in_place_of_the_file_is_an_error(user: User) -> None:
    user.config_file.mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot read"):
        config_file.load(user)


def test_a_secret_s_variable_has_to_be_set(user: User) -> None:
    write(user, "secrets: {KEY: {env: THE_KEY}}")
    with pytest.raises(UsageError, match=r"secrets\.KEY: environment variable THE_KEY is not set"):
        config_file.read_secrets(config_file.load(user), user, {"THE_KEY": ""})


def test_a_secret_s_file_is_read_from_the_user_s_home(user: User) -> None:
    write(user, "secrets: {KEY: {file: ~/key}}")
    key = user.home / "key"
    key.touch(mode=0o600)
    key.write_text("s3cret\n")
    assert config_file.read_secrets(config_file.load(user), user, {}) == {"KEY": "s3cret"}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_secret_s_file_must_be_private(user: User, mode: int) -> None:
    write(user, "secrets: {KEY: {file: ~/key}}")
    key = user.home / "key"
    key.write_text("s3cret\n")
    key.chmod(mode)
    with pytest.raises(UsageError, match=r"secrets\.KEY: .*key can be read by others") as refused:
        config_file.read_secrets(config_file.load(user), user, {})
    assert "chmod 600" in refused.value.hint


def test_a_missing_or_empty_secret_s_file_is_an_error(user: User) -> None:
    write(user, "secrets: {KEY: {file: ~/key}}")
    with pytest.raises(UsageError, match="cannot read"):
        config_file.read_secrets(config_file.load(user), user, {})
    (user.home / "key").touch(mode=0o600)
    with pytest.raises(UsageError, match="is empty"):
        config_file.read_secrets(config_file.load(user), user, {})
