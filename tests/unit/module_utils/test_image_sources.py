"""Which settings of a host reach a build: http(s) ones, Debian's own, credentials apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbox._shared._sources import AptSource, carried_apt, carried_npm, carried_pip, debian_sources, read

DEB822 = """\
Types: deb deb-src
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main
 contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def test_deb822_sources_become_one_source_per_suite() -> None:
    assert debian_sources([DEB822], "bookworm") == [
        AptSource("http://mirror.example/debian", "bookworm", "main contrib"),
        AptSource("http://mirror.example/debian", "bookworm-updates", "main contrib"),
        AptSource("http://mirror.example/debian-security", "bookworm-security", "main"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "deb http://mirror.example/debian bookworm main",
        "deb http://mirror.example/debian/ bookworm main # our mirror",
        "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] https://apt.example/x bookworm main",
    ],
)
def test_one_line_sources_of_debian_are_taken(line: str) -> None:
    (source,) = debian_sources([line], "bookworm")
    assert (source.suite, source.components) == ("bookworm", "main")


@pytest.mark.parametrize(
    "text",
    [
        "deb cdrom:[Debian]/ bookworm main",
        "deb file:/srv/debian bookworm main",
        "deb-src http://mirror.example/debian bookworm main",
        "# deb http://mirror.example/debian bookworm main",
        "deb https://vendor.example/linux/debian bookworm stable",
        "deb https://vendor.example/apt bookworm main",
        "deb [signed-by=/etc/apt/keyrings/vendor.asc] https://vendor.example/debian bookworm main",
        "deb http://mirror.example/debian bookworm-backports main",
        "deb http://mirror.example/debian ./",
        DEB822.replace("Types: deb", "Enabled: no\nTypes: deb"),
        "Types: deb\nURIs: http://v.example/debian\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN PGP",
    ],
)
def test_sources_that_a_base_cannot_use_are_left_out(text: str) -> None:
    assert debian_sources([text], "bookworm") == []


def test_a_host_of_another_release_lends_its_archives() -> None:
    found = debian_sources([DEB822], "trixie")
    assert [source.suite for source in found] == ["trixie", "trixie-updates", "trixie-security"]
    both = f"{DEB822}\n\ndeb http://other.example/debian trixie main\n"
    assert debian_sources([both], "trixie") == [AptSource("http://other.example/debian", "trixie", "main")]


def test_logins_of_archives_are_parted_from_the_list() -> None:
    source = AptSource("http://joe:se%40cret@mirror.example/debian", "bookworm", "main")
    text, secrets = carried_apt([source])
    assert text == "deb http://mirror.example/debian bookworm main\n"
    assert secrets["apt"].content == "machine http://mirror.example/debian login joe password se@cret\n"
    assert "se@cret" in secrets["apt"].hidden
    assert "se@cret" not in repr(secrets)


def test_pip_takes_the_last_file_and_then_the_environment() -> None:
    files = [
        "[global]\nindex-url = https://first.example/simple\nextra-index-url = https://more.example/simple\n",
        "[global]\nindex-url = https://second.example/simple\n[install]\nindex-url = https://third.example/simple\n",
        "not a configuration file",
    ]
    arguments, secrets = carried_pip(files, {})
    assert arguments == {
        "PIP_INDEX_URL": "https://third.example/simple",
        "PIP_EXTRA_INDEX_URL": "https://more.example/simple",
    }
    assert secrets == {}
    arguments, _ = carried_pip(files, {"PIP_INDEX_URL": "https://env.example/simple"})
    assert arguments["PIP_INDEX_URL"] == "https://env.example/simple"


def test_paths_of_the_host_are_not_carried() -> None:
    files = ["[global]\nextra-index-url = file:///opt/a https://more.example/simple\nfind-links = /opt/wheels\n"]
    assert carried_pip(files, {}) == ({"PIP_EXTRA_INDEX_URL": "https://more.example/simple"}, {})
    assert carried_npm(["registry=file:///opt/npm\n"], {}) == ({}, {})


def test_what_is_no_address_is_not_carried() -> None:
    assert carried_pip(["[global]\nindex-url = http://[\n"], {}) == ({}, {})
    assert carried_npm(["registry=http://[\n"], {}) == ({}, {})


def test_a_login_makes_pips_settings_a_secret() -> None:
    arguments, secrets = carried_pip(["[global]\nindex-url = https://joe:secret@pip.example/simple\n"], {})
    assert arguments == {}
    assert secrets["pip"].content == "[global]\nindex-url = https://joe:secret@pip.example/simple\n"
    assert secrets["pip"].hidden == ("joe:secret",)


def test_npms_registry_and_its_token() -> None:
    files = ["registry=https://first.example/npm/\n", "; a comment\nregistry = https://npm.example/all/\n"]
    assert carried_npm(files, {}) == ({"NPM_CONFIG_REGISTRY": "https://npm.example/all/"}, {})
    own = "//npm.example/all/:_authToken=${TOKEN}\n//npm.example.evil/:_authToken=other\n"
    arguments, secrets = carried_npm([*files, own], {"TOKEN": "canary"})
    assert arguments == {}
    assert secrets["npm"].content == "registry=https://npm.example/all/\n//npm.example/all/:_authToken=canary\n"
    assert secrets["npm"].hidden == ("canary",)


def test_all_settings_are_found_where_the_tools_look(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name, text in {
        "etc/apt/sources.list.d/debian.sources": DEB822,
        "etc/apt/sources.list.d/vendor.list": "deb https://vendor.example/apt bookworm main\n",
        "home/.config/pip/pip.conf": "[global]\nindex-url = https://pip.example/simple\n",
        "home/.npmrc": "registry=https://npm.example/\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = read("bookworm", {"HOME": str(home)}, tmp_path)
    assert found.apt.count("deb http://mirror.example/") == 3
    assert found.arguments == {
        "PIP_INDEX_URL": "https://pip.example/simple",
        "NPM_CONFIG_REGISTRY": "https://npm.example/",
    }
    other = read(None, {"HOME": str(home), "PIP_CONFIG_FILE": "/dev/null"}, tmp_path)
    assert other.apt == ""
    assert other.arguments == {"NPM_CONFIG_REGISTRY": "https://npm.example/"}
