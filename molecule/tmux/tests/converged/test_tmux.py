"""The tmux that the role promises."""

from __future__ import annotations

import pytest
from testinfra.host import Host

TMUX = "LC_ALL=C.UTF-8 tmux -L abxtest -f /dev/null"
PRINT = "printf 'gr\\303\\274n \\342\\234\\223'; sleep 60"
SHOWN = "#{escape-time} #{history-limit} #{mouse} #{@own}"


def test_a_session_draws_utf8(host: Host) -> None:
    try:
        assert host.run(f"{TMUX} new-session -d -s t %s", PRINT).succeeded
        screen = host.check_output(f"sleep 1; {TMUX} capture-pane -p -t t")
    finally:
        host.run(f"{TMUX} kill-server")
    assert "grün ✓" in screen


# The line that the drift put into the system's configuration stands behind ours and wins; a user's own file does, too.
@pytest.mark.parametrize(
    ("user", "options"),
    [("ada", "5 7 1 yes"), ("bea", "5 50000 1 yes"), ("grace", "5 2000 0 yes")],
)
def test_the_named_users_get_the_settings_unless_they_have_their_own(host: Host, user: str, options: str) -> None:
    command = f"tmux -L abxtest new-session -d \\; display-message -p '{SHOWN}' \\; kill-server"
    assert host.check_output("su --login %s --command %s", user, command) == options


def test_a_link_into_dotfiles_stays_one(host: Host) -> None:
    assert host.file("/home/ada/.tmux.conf").linked_to == "/home/ada/dotfiles/tmux.conf"
    assert host.file("/home/ada/dotfiles/tmux.conf").content_string == "set -g history-limit 7\n"
