"""Names of users, however an inventory writes them."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.agentbox.fleet.plugins.filter.users import user_names


def test_names_keep_their_order_however_users_are_written() -> None:
    assert user_names(["grace", {"name": "ada", "agents": ["claude"]}]) == ["grace", "ada"]
    assert user_names("grace,ada") == ["grace", "ada"]
    assert user_names(None) == user_names("") == []


def test_a_wrong_user_is_named_by_its_path() -> None:
    with pytest.raises(AnsibleFilterError, match=r"users\[1\]: 'a b' is no valid name of a user"):
        user_names(["ada", "a b"])
