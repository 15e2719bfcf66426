"""What the boxes of this machine were last made to be, and where they differ from it now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentbox._shared import _adopt, _health_box, _naming, _proxy, _report, _state

from . import exits, listing, made, seen
from .call import Call
from .playbook import PlaybookFailedError
from .progress import printable
from .seen import SeenBox
from .streams import answer, say

EXIT_CODES = {"ok": exits.OK, "drift": exits.DRIFT, "failed": exits.FAILED}
# Tags of what a drift of boxes is not about.
_SKIPPED = ("docker", "tmux", "image", "install", "verify")
_GIT_IDENTITY, _GH_LOGIN = "/etc/gitconfig", f"{_naming.BOX_HOME}/.config/gh"
_LONGEST = 60  # characters of a value in a line


def tell(call: Call) -> int:
    """Say where the boxes of this user differ from what they were last made to be, and what a run would do.

    That is a run of the playbook in check mode, without what prepares a host for its boxes.
    """
    boxes = seen.find_all(call.engine(), call.instance, str(call.user.state_root))
    for box in boxes:
        call.claim(box)
    declared = declarations(call.state_dir, call.instance, boxes)
    manifests = made.manifests(call.state_dir, (box["name"] for box in declared))
    variables = {"agentbox_boxes": declared, "agentbox_manifests": manifests, **surroundings(boxes)}
    try:
        activity = call.run("site", variables, _SKIPPED, check=True)
    except PlaybookFailedError as error:
        say(f"error: {error}")
        activity = error.activity
    report = _report.report(activity.events)
    answer(_report.as_json(report).rstrip() if call.arguments.json else as_text(report))
    return exit_code(report)


def declarations(state_dir: str, instance: str, boxes: Iterable[SeenBox]) -> list[dict[str, Any]]:
    """What was last declared of every box of a state directory, whether its container is there or not.

    A box that was stopped on purpose counts as declared stopped, every other one as declared started. ``boxes`` are
    those that the engine has; one without a record is a ``StateError``: nobody knows what it should be.
    """
    there = {box.name: box for box in boxes if box.state_dir == state_dir and not box.adopted}
    names = {*there, *_recorded_names(state_dir)}
    own = [made.declaration(state_dir, name, there.get(name)) for name in sorted(names)]
    adopted = _adopt.of_instance(state_dir, instance)
    return own + [
        {"name": name, "state": "adopted", "container": adopted[name].container}
        for name in sorted(adopted.keys() - names)
    ]


def surroundings(boxes: Iterable[SeenBox]) -> dict[str, Any]:
    """Variables for what boxes got from whoever made them: proxy and identity, which no container can lose.

    Taken from the boxes themselves, so that who asks does not seem to have changed them.
    """
    inspects = [box.inspect for box in boxes if not box.adopted]
    environments = [_health_box.environment(inspect) for inspect in inspects]
    proxies = [{name: found.get(name, "") for name in _proxy.VARIABLES} for found in environments]
    mounts = [mount for inspect in inspects for mount in inspect["HostConfig"].get("Mounts") or []]
    sources = {mount["Target"]: Path(mount["Source"]) for mount in mounts}
    git, gh = sources.get(_GIT_IDENTITY), sources.get(_GH_LOGIN)
    homes = [
        *([git.parent] if git and git.name == ".gitconfig" else []),
        *([gh.parent.parent] if gh and gh.match(".config/gh") else []),
    ]
    return {
        "box_git_identity": git is not None,
        "box_gh_login": gh is not None,
        **({"agentbox_proxy": proxies[0]} if proxies else {}),
        **({"agentbox_identity_home": str(homes[0])} if homes else {}),
    }


def _recorded_names(state_dir: str) -> list[str]:
    names = [Path(path).name for path in _state.entries(f"{state_dir}/boxes")]
    return [name for name in names if _naming.is_name(name) and Path(_naming.BoxPaths(state_dir, name).record).exists()]


def exit_code(report: Mapping[str, Any]) -> int:
    """0 without a difference, 4 with one, 1 when that could not be found out."""
    return EXIT_CODES[str(report["outcome"])]


def as_text(report: Mapping[str, Any]) -> str:
    """One line per difference and per action that would be taken; the sum at the end."""
    rows = [row for host in report["hosts"].values() for box in host["boxes"] for row in _rows(box)]
    return "\n".join([*listing.columns(rows), _report.summary(report)])


def _rows(box: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for item in box["drift"]:
        values = [printable(str(item[key]))[:_LONGEST] for key in ("declared", "live")]
        yield box["name"], "differs", f"{printable(item['path'])}: declared {values[0]}, live {values[1]}"
    for action in box["actions"]:
        yield box["name"], "would", f"{action['action']} {printable(action['detail'])}"
    if box["error"]:
        yield box["name"], "failed", printable(box["error"])
