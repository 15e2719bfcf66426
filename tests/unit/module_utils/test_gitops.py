"""What a host that converges itself accepts as settings."""

from __future__ import annotations

from typing import Any

import pytest

from agentbox._shared._errors import DeclarationError
from agentbox._shared._gitops import Settings, from_options, repository, uses_ssh

OPTIONS: dict[str, Any] = {
    "repository": "https://git.example/fleet",
    "branch": "main",
    "inventory": "inventories/fleet",
    "playbook": "site.yml",
    "host": "ada.example",
    "mode": "converge",
    "verify_signatures": False,
    "allowed_signers": [],
    "signing_keys": "",
    "allow_rewritten": False,
    "deploy_key_file": "",
    "credentials_file": None,
    "vault_password_file": "/root/vault",
}


def parsed(**changed: Any) -> Settings:
    return from_options({**OPTIONS, **changed}, {"LANG": "C"})


def test_settings_survive_their_file() -> None:
    settings = parsed()
    assert Settings.from_json(settings.to_json()) == settings
    assert settings.secret_files == {"vault_password_file": "/root/vault"}


def test_an_older_file_is_told_and_not_guessed() -> None:
    with pytest.raises(DeclarationError, match=r"lacks 'branch'.*Run role"):
        Settings.from_json({key: value for key, value in parsed().to_json().items() if key != "branch"})


@pytest.mark.parametrize(
    "address",
    [
        "https://git.example/fleet",
        "https://git.example:8443/group/fleet.git",
        "ssh://git@git.example:2222/fleet",
        "git@git.example:group/fleet.git",
        "file:///srv/git/fleet",
        "/srv/git/fleet",
        "git://127.0.0.1/fleet",
        "http://localhost:8080/fleet",
        "http://[::1]/fleet",
    ],
)
def test_addresses_that_hold_no_secret_and_cannot_be_spoofed(address: str) -> None:
    assert repository(address, verified=False) == address


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "address of a Git repository expected"),
        ("--upload-pack=touch /tmp/x", "address of a Git repository expected"),
        ("https://git.example/fleet\nX", "address of a Git repository expected"),
        ("https://ada:hunter2@git.example/fleet", "must not hold"),
        ("https://hunter2@git.example/fleet", "must not hold"),
        ("ssh://git:hunter2@git.example/fleet", "must not hold"),
        ("https://git.example/fleet?private_token=hunter2", "query"),
        ("https://git.example/fleet#hunter2", "query"),
        ("ext::sh -c hunter2", "address of a Git repository expected"),
        ("ext::hunter2", "expected"),
        ("ftp://git.example/fleet", "expected"),
        ("fleet", "expected"),
        ("git://git.example/fleet", "anybody on the way"),
        ("http://127.0.0.1.git.example/fleet", "anybody on the way"),
        ("https://[::1/fleet", "not a valid address"),
        ("https:///fleet", "not a valid address"),
        ("https://git.example:abc/fleet", "not a valid address"),
        ("ssh://-oProxyCommand=hunter2/fleet", "not a valid address"),
        ("ssh://-oX@git.example/fleet", "not a valid address"),
    ],
)
def test_other_addresses_are_refused_without_repeating_a_secret(address: str, why: str) -> None:
    with pytest.raises(DeclarationError, match=why) as told:
        repository(address, verified=False)
    assert str(told.value).startswith("repository: ")
    assert "hunter2" not in str(told.value)


def test_signatures_make_the_way_irrelevant_but_not_the_password() -> None:
    assert repository("git://git.example/fleet", verified=True)
    with pytest.raises(DeclarationError):
        repository("http://ada:hunter2@git.example/fleet", verified=True)


def test_signatures_need_somebody_who_may_sign() -> None:
    with pytest.raises(DeclarationError, match="nobody's signature would count"):
        parsed(verify_signatures=True)
    assert parsed(verify_signatures=True, signing_keys="-----BEGIN PGP").verify_signatures


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("branch", value) for value in ("", "-x", "a b", "a..b", "a.lock", "a/", "/a", "a/.b", "a\nb", "a~1")),
        *(("inventory", value) for value in ("", "/etc/passwd", "../x", "a/../../b", "-i", "a b", "a,b", "a'b", "a\n")),
        *(("playbook", value) for value in ("", "site yml", "--help", "$(x).yml")),
        *(("host", value) for value in ("", "all:!ada", "a,b", "*", "-l", "@file", "~regex", 'a"b')),
        *(("vault_password_file", value) for value in ("relative", "/a b", "/a'b", "/a;b")),
    ],
)
def test_values_that_ansible_pull_would_read_as_something_else_are_refused(option: str, value: str) -> None:
    with pytest.raises(DeclarationError, match=f"^{option}: "):
        parsed(**{option: value})


@pytest.mark.parametrize(
    ("address", "ssh"),
    [
        ("git@git.example:fleet", True),
        ("ssh://git.example/fleet", True),
        ("https://git.example/fleet", False),
        ("/srv/git/fleet", False),
    ],
)
def test_which_addresses_take_ssh(address: str, ssh: bool) -> None:
    assert uses_ssh(address) is ssh
