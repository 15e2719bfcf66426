from __future__ import annotations

from ansible_collections.agentbox.fleet.plugins.filter.settings import unknown_settings


def test_what_roles_and_playbooks_read_is_known() -> None:
    assert unknown_settings(["agentbox_boxes", "agentbox_instance", "agentbox_become", "agentbox_hosts"]) == []


def test_what_the_connection_reads_is_known() -> None:
    assert unknown_settings(["agentbox_docker_host", "agentbox_engine_timeout"]) == []


def test_a_misspelt_name_is_told_with_the_nearest_known_one() -> None:
    assert unknown_settings(["agentbox_boxs", "agentbox_boxes", "agentbox_zzzz"]) == [
        "agentbox_boxs: nothing reads it, did you mean agentbox_boxes?",
        "agentbox_zzzz: nothing reads it",
    ]
