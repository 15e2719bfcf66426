"""A repository as APT source: other sources of it go, keys are asked for politely, unknown machines are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from agentbox._shared import _apt_source, _daemon
from agentbox._shared._apt_source import Change, Places, Source
from agentbox._shared._errors import AgentboxError, DeclarationError

ROOT = Path(__file__).resolve().parents[3]
URI = "https://packages.example/linux/debian"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END PGP PUBLIC KEY BLOCK-----\n"
OTHER_KEY = KEY.replace("abc", "def")
DEBIAN = "Types: deb\nURIs: https://deb.example/debian\nSuites: bookworm\nComponents: main\n"


def source() -> Source:
    return _apt_source.source("engine", URI + "/", "bookworm", ["stable"], "x86_64")


def test_a_source_is_one_stanza_with_its_own_key() -> None:
    fields = dict(line.split(": ", 1) for line in source().text.splitlines() if not line.startswith("#"))
    assert fields == {
        "Types": "deb",
        "URIs": URI,
        "Suites": "bookworm",
        "Components": "stable",
        "Architectures": "amd64",
        "Signed-By": "/etc/apt/keyrings/engine.asc",
    }


@pytest.mark.parametrize(
    ("machine", "architecture"),
    [("x86_64", "amd64"), ("aarch64", "arm64"), ("armv7l", "armhf"), ("ppc64le", "ppc64el")],
)
def test_machines_have_dpkgs_names(machine: str, architecture: str) -> None:
    assert _apt_source.architecture(machine) == architecture


@pytest.mark.parametrize("machine", ["mips", "", "X86_64"])
def test_an_unknown_machine_stops_with_those_that_are_known(machine: str) -> None:
    with pytest.raises(DeclarationError, match=r"no packages for the machine .*known are aarch64"):
        _apt_source.architecture(machine)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "../x"}, "name: "),
        ({"uri": "ftp://packages.example"}, "uri: must be an http or https address"),
        ({"uri": "https://user:word@packages.example/"}, "uri: must hold no login"),
        ({"uri": f"{URI} main\nTypes: deb"}, "uri: must be an http or https address"),
        ({"uri": "http://[::1"}, "uri: must be an http or https address"),
        ({"uri": f"{URI}\x00"}, "uri: must be an http or https address"),
        ({"suite": "a b"}, "suite: "),
        ({"components": []}, "components: "),
        ({"components": ["main\nTrusted: yes"]}, "components: "),
    ],
)
def test_what_cannot_stand_in_a_source_is_refused(change: dict[str, object], told: str) -> None:
    parts = {"name": "engine", "uri": URI, "suite": "bookworm", "components": ["stable"], "machine": "x86_64"}
    with pytest.raises(DeclarationError, match=told):
        _apt_source.source(**{**parts, **change})  # type: ignore[arg-type]


ONE_LINE = f"""\
# deb {URI} bookworm stable
deb [arch=amd64 signed-by=/usr/share/keyrings/old.gpg] {URI} bookworm stable
deb-src {URI}/ bookworm stable
deb http://user:word@packages.example/linux/debian bullseye stable
deb {URI}-security bookworm stable
deb cdrom:[Debian]/ bookworm main
"""


def test_lines_of_the_repository_go_and_others_stay() -> None:
    assert _apt_source.without(ONE_LINE, URI, deb822=False) == "".join(
        line
        for line in ONE_LINE.splitlines(keepends=True)
        if line.startswith("#") or "-security" in line or "cdrom" in line
    )


@pytest.mark.parametrize(
    ("stanza", "left"),
    [
        (f"Types: deb\nURIs: {URI}/\nSuites: bookworm\nSigned-By:\n KEY\n .\n KEY\n", ""),
        (f"types: deb\nuris:\n {URI}\nSuites: x\n", ""),
        (f"Types: deb\nURIs: https://a.example {URI}\nSuites: x\n", "Types: deb\nURIs: https://a.example\nSuites: x\n"),
        (
            f"# URIs: {URI}\nTypes: deb\nURIs: https://a.example\n",
            f"# URIs: {URI}\nTypes: deb\nURIs: https://a.example\n",
        ),
    ],
)
def test_stanzas_lose_the_repository(stanza: str, left: str) -> None:
    assert _apt_source.without(f"{DEBIAN}\n{stanza}", URI, deb822=True) == f"{DEBIAN}\n{left}"


def test_older_sources_go_before_the_new_one_comes_and_empty_files_with_them(tmp_path: Path) -> None:
    places = Places(tmp_path)
    main, old, mixed = tmp_path / "etc/apt/sources.list", places.sources / "docker.list", places.sources / "a.sources"
    existing = {main: f"deb {URI} x y\n", old: f"# docs\ndeb {URI} x y\n", mixed: DEBIAN}
    changes = _apt_source.plan(source(), KEY, existing, None, places)
    assert changes == [
        Change(places.keyring("engine"), None, KEY),
        Change(main, f"deb {URI} x y\n", ""),
        Change(old, f"# docs\ndeb {URI} x y\n", None),
        Change(places.source("engine"), None, source().text),
    ]


def test_it_comes_once_and_goes_once(tmp_path: Path) -> None:
    places = Places(tmp_path)
    other = places.sources / "debian.sources"
    other.parent.mkdir(parents=True)
    other.write_text(DEBIAN)
    _apt_source.apply(_apt_source.plan(source(), KEY, places.existing(), None, places))
    assert (
        oct(places.keyring("engine").stat().st_mode)[-3:] == oct(places.source("engine").stat().st_mode)[-3:] == "644"
    )
    installed = _apt_source.read_key("engine", places)
    assert _apt_source.plan(source(), KEY, places.existing(), installed, places) == []
    _apt_source.apply(_apt_source.plan_absence("engine", places.existing(), installed, places))
    assert _apt_source.plan_absence("engine", places.existing(), _apt_source.read_key("engine", places), places) == []
    assert places.existing() == {other: DEBIAN}


def unreachable(url: str) -> str:
    raise AgentboxError(f"cannot fetch the key from {url}")


def test_a_key_is_text_file_or_address(tmp_path: Path) -> None:
    file = tmp_path / "key.asc"
    file.write_text(KEY.replace("\n", "\r\n"))
    assert _apt_source.key_text(f"\n{KEY}\n", None, unreachable) == (KEY, "")
    assert _apt_source.key_text(str(file), None, unreachable) == (KEY, "")
    assert _apt_source.key_text(f"{URI}/gpg", OTHER_KEY, lambda url: KEY) == (KEY, "")


def test_an_installed_key_outlives_its_address_and_a_missing_one_is_an_error() -> None:
    key, warning = _apt_source.key_text(f"{URI}/gpg", OTHER_KEY, unreachable)
    assert (key, warning) == (
        OTHER_KEY,
        f"cannot fetch the key from {URI}/gpg. The key that is installed stays",
    )
    with pytest.raises(AgentboxError, match="cannot fetch the key"):
        _apt_source.key_text(f"{URI}/gpg", None, unreachable)


@pytest.mark.parametrize("given", ["http://packages.example/gpg", "file:///etc/passwd", "relative", ""])
def test_a_key_that_anybody_could_have_sent_is_refused(given: str) -> None:
    with pytest.raises(DeclarationError, match="key: must be armoured text"):
        _apt_source.key_text(given, KEY, unreachable)


@pytest.mark.parametrize("answer", ["<html>", "\x99\x02\r", "-----BEGIN PGP PRIVATE KEY BLOCK-----"])
def test_what_is_no_armoured_key_is_refused(answer: str) -> None:
    with pytest.raises(AgentboxError, match="is no armoured OpenPGP public key"):
        _apt_source.key_text(f"{URI}/gpg", None, lambda url: answer)


def test_logins_of_others_are_not_shown() -> None:
    assert _apt_source.shown("deb http://user:word@packages.example/ x y\n") == "deb http://***@packages.example/ x y\n"


def test_the_roles_source_is_the_one_by_which_its_engine_is_known() -> None:
    variables = yaml.safe_load((ROOT / "roles/docker/vars/main.yml").read_text(encoding="utf-8"))
    assert Places().source(variables["__docker_upstream_name"]) == _daemon.UPSTREAM_SOURCE
