"""Names derived from an instance and a box: valid everywhere, stable, never shared by two boxes."""

from __future__ import annotations

import re

import pytest

from agentbox._shared import _naming

ODD_NAMES = [
    "My Repo_Ünï",
    "my repo_uni",
    "my-repo-uni",
    "My-Repo-Uni",
    "x" * 140,
    "x" * 141,
    "X" * 140,
    "ÜÜÜ",
    "日本語",
    "日本国",
    "-",
    "",
    " ",
    "a/b",
    "a:b",
    'a"b',
    "a,b",
    "-rf",
    "\udcff",
]


@pytest.mark.parametrize("text", ODD_NAMES)
def test_a_slug_is_a_valid_and_stable_name(text: str) -> None:
    slug = _naming.slug(text)
    assert _naming.is_name(slug)
    assert slug == _naming.slug(text) == _naming.slug(slug)
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+", _naming.container_name("agentbox", slug))
    assert len(_naming.container_name("i" * 41, slug)) <= 128


def test_slugs_of_different_texts_differ() -> None:
    assert len({_naming.slug(text) for text in ODD_NAMES}) == len(ODD_NAMES)


@pytest.mark.parametrize("name", ["a", "0", "web-2", "a" * 41])
def test_a_valid_name_stays(name: str) -> None:
    assert _naming.slug(name) == name


@pytest.mark.parametrize("text", ["", "A", "-a", "a_b", "a.b", "a\n", "a" * 42, "ü"])
def test_what_is_no_name(text: str) -> None:
    assert not _naming.is_name(text)


def test_the_default_box_has_the_instances_name() -> None:
    assert _naming.container_name("abx", "default") == "abx"
    assert _naming.container_name("abx", "web") == "abx-web"
    assert _naming.home_volume("abx", "default") == "abx-default-home"


def test_caches_of_two_uids_differ() -> None:
    assert _naming.cache_volume("abx", "npm", 1000) != _naming.cache_volume("abx", "npm", 1001)


def test_state_roots() -> None:
    assert _naming.default_state_root(0, {"HOME": "/root"}) == "/var/lib/agentbox"
    assert _naming.default_state_root(1000, {"HOME": "/home/dev"}) == "/home/dev/.local/state/agentbox"
    assert _naming.default_state_root(1000, {"HOME": "/home/dev", "XDG_STATE_HOME": "/x"}) == "/x/agentbox"


def test_paths_of_a_box_lie_below_the_state_directory() -> None:
    paths = _naming.BoxPaths("/s/abx", "web")
    found = {paths.directory, paths.record, paths.mount, paths.passwd, paths.secrets, paths.relay}
    assert all(path.startswith("/s/abx/") for path in found | {paths.agent_settings("claude")})
    assert not paths.relay.startswith(paths.directory + "/"), "removing a box's files leaves mounted sockets alone"
