from __future__ import annotations

from agentbox.cli import summary
from agentbox.cli.seen import SeenBox


def box(page: str | None = "http://127.0.0.1:4317", state: str = "running") -> SeenBox:
    return SeenBox("default", "agentbox", state, "healthy", "/home/dev/code/my-project", "/state", page, {})


def shown(found: SeenBox, *logins: str) -> list[str]:
    return summary.of(found, attach_with="agentbox attach", shell_with="agentbox shell", logins=logins).splitlines()


def test_the_summary_has_the_shape_that_the_readme_promises() -> None:
    assert shown(box(), "claude auth login") == [
        "box       agentbox (started), workspace /home/dev/code/my-project",
        "page      http://127.0.0.1:4317",
        "attach    agentbox attach          (detach with Ctrl-b d; the agent goes on)",
        "log in    agentbox shell, then: claude auth login",
    ]


def test_what_there_is_not_has_no_line() -> None:
    assert [line.split()[0] for line in shown(box(page=None))] == ["box", "attach"]


def test_a_box_that_ended_meanwhile_is_not_called_started() -> None:
    assert shown(box(state="exited"))[0].startswith("box       agentbox (exited), ")
