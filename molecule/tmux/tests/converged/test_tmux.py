"""The tmux that the role promises."""

from __future__ import annotations

from testinfra.host import Host

TMUX = "LC_ALL=C.UTF-8 tmux -L abxtest -f /dev/null"
PRINT = "printf 'gr\\303\\274n \\342\\234\\223'; sleep 60"


def test_a_session_draws_utf8(host: Host) -> None:
    try:
        assert host.run(f"{TMUX} new-session -d -s t %s", PRINT).succeeded
        screen = host.check_output(f"sleep 1; {TMUX} capture-pane -p -t t")
    finally:
        host.run(f"{TMUX} kill-server")
    assert "grün ✓" in screen
