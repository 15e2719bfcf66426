"""Agents of a host's users, as their login shells show them."""

from __future__ import annotations

import pytest
from testinfra.host import Host


@pytest.mark.parametrize("user", ["dev", "ops"])
def test_the_login_shell_finds_the_pinned_version(host: Host, user: str) -> None:
    found = host.check_output("su --login %s --command 'command -v esbuild; esbuild --version'", user)
    assert found.split() == [f"/opt/agentbox/users/{user}/esbuild", "0.28.2"]


def test_others_get_nothing(host: Host) -> None:
    assert host.run("su --login --command 'command -v esbuild' root").rc != 0


def test_what_users_start_is_for_root_alone_to_change(host: Host) -> None:
    assert host.check_output("find /opt/agentbox ! -type l '(' ! -user root -o -perm /022 ')'") == ""


def test_homes_are_left_alone(host: Host) -> None:
    assert host.check_output("diff --recursive /etc/skel /home/dev") == ""
