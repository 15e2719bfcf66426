"""Users as an inventory names them."""

from __future__ import annotations

import pytest

from agentbox._shared._errors import DeclarationError
from agentbox._shared._users import User, parse_names, parse_users


@pytest.mark.parametrize("nothing", [None, "", " ", [], ()])
def test_nothing_means_nobody(nothing: object) -> None:
    assert parse_users(nothing) == []
    assert parse_names(nothing, "agents") == ()


def test_users_keep_their_order_however_they_are_written() -> None:
    assert parse_users("grace, ada") == [User("grace"), User("ada")]
    assert parse_users(["grace", {"name": "ada", "agents": ["claude"]}, {"name": "joan", "agents": []}]) == [
        User("grace"),
        User("ada", ("claude",)),
        User("joan", ()),
    ]


@pytest.mark.parametrize(
    ("users", "message"),
    [
        (5, "users: must be a list, not the number 5"),
        ({"name": "ada"}, "users: must be a list, not a mapping"),
        (["ada", 7], r"users\[1\]: the number 7 is no valid name"),
        (["../etc"], r"users\[0\]: '../etc' is no valid name"),
        (["-rf"], r"users\[0\]: '-rf' is no valid name"),
        ([{"agents": []}], r"users\[0\].name: null is no valid name"),
        ([{"name": "ada", "agent": "claude"}], r"users\[0\].agent: unknown key, known are name, agents"),
        ([{"name": "ada", "agents": [None]}], r"users\[0\].agents\[0\]: must be a name, not null"),
        ([{"name": "ada", "agents": 1}], r"users\[0\].agents: must be a list, not the number 1"),
        (["ada", {"name": "ada"}], r"users\[1\]: 'ada' stands twice"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(users: object, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        parse_users(users)
