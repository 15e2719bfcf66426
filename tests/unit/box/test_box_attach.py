"""attach.sh in a real terminal: any TERM, a view of its own, nothing left behind."""

from __future__ import annotations

import pytest

from .boxes import BoxDirectory, Viewer, eventually


def views(directory: BoxDirectory) -> list[str]:
    sessions = directory.tmux("list-sessions", "-F", "#{session_name}").splitlines()
    return [name for name in sessions if name.startswith("view-")]


@pytest.mark.parametrize(
    ("term", "used"),
    [
        ("xterm", "xterm"),
        ("xterm-ghostty", "xterm-256color"),
        ("x; rm -rf /", "xterm-256color"),
        ("--help", "xterm-256color"),
        ("", "xterm-256color"),
    ],
)
def test_any_terminal_attaches(running: BoxDirectory, term: str, used: str) -> None:
    viewer = Viewer(running, term)
    client = eventually(lambda: running.tmux("list-clients", "-F", "#{client_termname} #{client_session}"))
    assert client.split()[0] == used
    assert views(running) == [client.split()[1]]
    assert viewer.detach() == 0
    assert running.tmux("list-sessions", "-F", "#{session_name}") == "agentbox"


def test_two_viewers_look_at_different_windows(running: BoxDirectory) -> None:
    def shown() -> list[str]:
        return sorted(running.tmux("display-message", "-p", "-t", f"={v}:", "#{window_name}") for v in views(running))

    viewers = [Viewer(running), Viewer(running)]
    eventually(lambda: shown() == ["main", "main"])
    viewers[0].press(b"\x021")  # window 1
    eventually(lambda: shown() == ["main", "observer"])
    assert [viewer.detach() for viewer in viewers] == [0, 0]


def test_attach_waits_for_a_box_that_starts(directory: BoxDirectory) -> None:
    viewer = Viewer(directory)
    with directory.supervised():
        eventually(lambda: views(directory))
        assert viewer.detach() == 0


def test_view_whose_script_was_killed_is_ended_by_the_supervisor(running: BoxDirectory) -> None:
    running.tmux("new-session", "-d", "-s", "view-1", "-t", "=agentbox")
    running.tmux("wait-for", "-S", "agentbox-changed")
    eventually(lambda: not views(running))


def test_detaching_again_and_again_leaves_the_box_as_it_was(running: BoxDirectory) -> None:
    for _ in range(10):
        viewer = Viewer(running)
        eventually(lambda: running.tmux("list-clients"))
        assert viewer.detach() == 0
    assert running.status()["rebuilds"] == 0
