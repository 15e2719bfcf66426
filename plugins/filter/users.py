"""Filter for the users that an inventory names for roles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import DeclarationError
from ansible_collections.agentbox.fleet.plugins.module_utils._users import parse_users


def user_names(users: Any) -> list[str]:
    """The names of users, in the order given, however the users are written."""
    try:
        return [user.name for user in parse_users(users)]
    except DeclarationError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., list[str]]]:
        return {"user_names": user_names}
