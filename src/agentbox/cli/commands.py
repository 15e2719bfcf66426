"""What each command does, from the words of the user to playbooks and programs. Nothing here changes a container.

What only some commands need is imported by them, so that ``agentbox up`` reaches a box that runs at once.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from agentbox._shared import _naming, _report
from agentbox._shared._engine import Engine
from agentbox._shared._errors import AgentboxError, EngineAbsentError, EngineError

from . import (
    config_file,
    declaration,
    differences,
    exits,
    options,
    removal,
    seen,
    summary,
    terminal,
    workspace,
)
from .activity import Activity
from .call import Call
from .exits import UsageError
from .options import Settings
from .seen import SeenBox
from .streams import answer, say

HEALTH_MODULE = "agentbox.fleet.health"
# Tags of the roles that prepare a host for its boxes.
HOST_ROLES = ("docker", "tmux", "image")


def up(call: Call) -> int:
    """Make the box run and attach; a healthy one is left as it is."""
    place = _place(call)
    engine, box = place.engine, place.box
    if engine and box and not call.settings[options.NO_CACHE] and seen.is_up(engine, box):
        _report_differences(box, differences.find(engine, box, call.settings))
        return _arrive(call, engine, box)
    if engine and box:
        call.claim(box)
        _report_differences(box, differences.find(engine, box, call.settings))
        skipped = () if call.settings[options.NO_CACHE] else _done_for(engine, box)
        return _converge(call, "up", _with_image(call, _as_made(box)), skipped)
    return _converge(call, "up", _with_image(call, {"agentbox_boxes": [_wanted_box(call, place.workspace)]}))


def rebuild(call: Call) -> int:
    """Build the image without cache, then do what ``up`` does.

    A box that runs is made anew from the new image only when nobody is attached and its agent can resume.
    """
    place = _place(call)
    wanted, box = _wanted_box(call, place.workspace), place.box
    if not box:
        return _converge(call, "rebuild", _with_image(call, {"agentbox_boxes": [wanted]}))
    call.claim(box)
    changes = {key: wanted[key] for key in (*differences.asked(call.settings), "secrets") if key in wanted}
    return _converge(call, "rebuild", _with_image(call, _as_made(box, {**changes, "recreate": "drift"})))


def shell(call: Call) -> int:
    """Open a shell in the box, which is started first when it does not run."""
    engine, box = _existing_box(call)
    if box.adopted:
        _enter_adopted(call, engine, box)
    # The box is named, so it does not matter where its user stands.
    if call.settings.setting(options.WORKSPACE).asked:
        _workspace_of(call, box)
    _require_terminal(call, terminal.shell_hint(box.container))
    if not box.running:
        call.claim(box)
        call.run("up", _with_image(call, _as_made(box)), _done_for(engine, box))
        terminal.forget_typed_keys()
    terminal.shell(box.container, engine.identity.host)


def _enter_adopted(call: Call, engine: Engine, box: SeenBox) -> NoReturn:
    """A shell in a container that Agentbox did not make, in which only ``sh`` is sure to be."""
    if not box.running:
        raise AgentboxError(
            f"container {box.container} of adopted box {box.name} is {box.state}",
            "Start it as it was started before; Agentbox leaves it as it is",
        )
    _require_terminal(call, terminal.plain_shell_hint(box.container))
    terminal.plain_shell(box.container, engine.identity.host)


def attach(call: Call) -> int:
    """Attach to the running box."""
    engine, box = _existing_box(call)
    _refuse_adopted(call, box)
    if not box.running:
        raise AgentboxError(f"box {box.name} is not running, it is {box.state_told}", f"Run: {_command('up', call)}")
    _require_terminal(call, _naming.attach_command(box.container))
    terminal.attach(box.container, engine.identity.host)


def stop(call: Call) -> int:
    """Stop the box; stopping none is an error, because somebody has the name wrong."""
    _, box = _existing_box(call)
    _refuse_adopted(call, box)
    call.claim(box)
    call.run("stop", _as_made(box))
    answer(f"box {box.name} is stopped; start it with: {_command('up', call)}")
    return exits.OK


def down(call: Call) -> int:
    """Remove the box; removing none is fine."""
    try:
        engine = call.engine()
    except EngineAbsentError:
        engine = None
    box = call.find(engine) if engine else None
    if box:
        call.claim(box)
    variables = {"agentbox_boxes": [{"name": call.name}], "box_remove_volumes": call.arguments.volumes}
    activity = call.run("down", variables)
    home = _naming.home_volume(call.instance, call.name)
    if box and box.adopted:
        answer(f"box {box.name} is no longer adopted; container {box.container} stays as it is")
        return exits.OK
    volumes = removal.removed_volumes(activity.results.get(_report.BOX_MODULE, {}).get("actions", []), home)
    stays = engine and seen.has_volume(engine, call.instance, home)
    command = _command("down", call, "--volumes") if stays else None
    answer(removal.told(call.name, existed=box is not None, volumes=volumes, command=command))
    return exits.OK


def ls(call: Call) -> int:
    """List the boxes of the instance."""
    from . import listing, reports

    engine = call.engine()
    boxes = seen.find_all(engine, call.instance, str(call.user.state_root))
    told = reports.reports(engine, boxes)
    if call.arguments.json:
        answer(listing.as_json(boxes, told))
    elif boxes:
        answer(listing.as_table(boxes, told))
    else:
        say(f"instance {call.instance} has no boxes")
    return exits.OK


def logs(call: Call) -> int:
    """Print the container's log."""
    tail = call.arguments.tail
    if tail != "all" and not tail.isdecimal():
        raise UsageError(f"flag --tail is {tail!r}: must be a number of lines or all")
    engine, box = _existing_box(call)
    terminal.logs(box.container, engine.identity.host, call.arguments.follow, tail)


def check(call: Call) -> int:
    """Run the checklist; never becomes root, so that it tells what this user can do."""
    from . import doctor

    only = {"agentbox_only": [call.name]} if call.settings.setting(options.NAME).asked else {}
    activity = call.run("doctor", {"agentbox_configuration": call.settings.report(), **only})
    result = activity.results.get(HEALTH_MODULE)
    if result is None:
        raise AgentboxError("the health check gave no answer")
    if _is_missing(call):
        result = doctor.with_missing_box(result, call.name, f"Run: {_command('up', call)}")
    answer(doctor.as_json(result) if call.arguments.json else doctor.as_table(result))
    return doctor.exit_code(result)


def tell_drift(call: Call) -> int:
    """Tell the drift of this machine's boxes."""
    from . import drift

    return drift.tell(call)


def export(call: Call) -> int:
    """Write the box into a file."""
    from . import backups

    _, box = _existing_box(call)
    _refuse_adopted(call, box)
    call.claim(box)
    return backups.export(call, box)


def import_(call: Call) -> int:
    """Make a box from a file that ``export`` wrote, and do what ``up`` does."""
    from . import backups

    coming = backups.read(call, call.engine_if_there())
    return _converge(
        coming.call,
        "import",
        {**_with_image(coming.call, {"agentbox_boxes": [coming.declaration]}), **coming.variables},
    )


HANDLERS: Mapping[str, Callable[[Call], int]] = {
    "up": up,
    "shell": shell,
    "rebuild": rebuild,
    "doctor": check,
    "drift": tell_drift,
    "down": down,
    "attach": attach,
    "ls": ls,
    "logs": logs,
    "stop": stop,
    "export": export,
    "import": import_,
}


def _wanted_box(call: Call, directory: Path | None) -> dict[str, Any]:
    secrets = config_file.read_secrets(call.config, call.user, call.environ)
    return declaration.box(call.settings, directory, secrets)


def _as_made(box: SeenBox, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Variables of the playbooks for a box that is there: what it was last made to be, by whomever, but ``changes``."""
    from . import made

    last = made.declaration(box.state_dir, box.name, box)
    wanted = {**last, "state": "started", **(changes or {})}
    wanted["secrets"] = {**last["secrets"], **wanted["secrets"]}
    wanted["agents"] = sorted({*last["agents"], wanted["lead"]} - {declaration.NO_AGENT})
    return {"agentbox_boxes": [wanted], "agentbox_manifests": made.manifests(box.state_dir, [box.name])}


def _with_image(call: Call, variables: Mapping[str, Any]) -> dict[str, Any]:
    """``variables``, and those for the image of the box that they declare."""
    [wanted] = variables["agentbox_boxes"]
    return {**variables, **declaration.image(call.settings, wanted)}


@dataclass(frozen=True)
class _Place:
    """What is there before a box is made to run, and the workspace to declare for it."""

    engine: Engine | None
    box: SeenBox | None
    workspace: Path | None  # None: made for the purpose


def _place(call: Call) -> _Place:
    """Look for the box. A workspace that was asked for is checked before the engine is touched."""
    if call.settings.setting(options.WORKSPACE).asked:
        workspace.choose(call.settings, call.user, Path.cwd())
    engine = call.engine_if_there()
    box = call.find(engine) if engine else None
    if box:
        _refuse_adopted(call, box)
    directory = _workspace_of(call, box) if box else workspace.choose(call.settings, call.user, Path.cwd())
    return _Place(engine, box, directory)


def _workspace_of(call: Call, box: SeenBox) -> Path | None:
    """The workspace of a box that is there. Raises ``UsageError`` when the call is about another one."""
    existing = Path(box.workspace)
    if not workspace.is_meant(existing, call.settings, call.user, Path.cwd()):
        wanted = (workspace.choose(call.settings, call.user, Path.cwd()) or call.user.own_workspace).resolve()
        if wanted != existing.resolve():
            raise UsageError(
                f"box {box.name} works in {box.workspace}, not in {wanted}",
                f"Run: {proposal(call.settings, wanted, Path.cwd())}",
            )
    return workspace.declared(existing, call.user)


def proposal(settings: Settings, wanted: Path, cwd: Path) -> str:
    """The command line that makes a box of its own for ``wanted``, typed in ``cwd``."""
    words = ["up", "--name", workspace.proposed_name(wanted, taken=settings[options.NAME])]
    if wanted != cwd.resolve():
        words += ["--workspace", str(wanted)]
    if settings[options.INSTANCE] != options.INSTANCE.default:
        words += ["--instance", settings[options.INSTANCE]]
    return shlex.join([_program(), *words])


def _is_missing(call: Call) -> bool:
    """Whether somebody named the box and it does not exist, as far as this user can tell."""
    if not call.settings.setting(options.NAME).asked:
        return False
    try:
        return call.find(call.engine_as_is()) is None
    except EngineError:  # a check of its own says so
        return False


def _existing_box(call: Call) -> tuple[Engine, SeenBox]:
    engine = call.engine()
    box = call.find(engine)
    if not box:
        raise AgentboxError(f"there is no box {call.name}", f"Run: {_command('up', call)}")
    return engine, box


def _refuse_adopted(call: Call, box: SeenBox) -> None:
    """Raise ``UsageError`` for what would change an adopted container, or needs what only Agentbox's own have."""
    if box.adopted:
        raise UsageError(
            f"box {box.name} is adopted: Agentbox leaves container {box.container} as it is",
            f"Run: {_command('shell', call)}, or choose another name with --name",
        )


def _done_for(engine: Engine, box: SeenBox) -> tuple[str, ...]:
    """The roles that have done their part for a box that is there with its image: it only has to be started."""
    image = (box.inspect.get("Config") or {}).get("Image")
    return HOST_ROLES if image and engine.inspect_image(image) else ()


def _converge(call: Call, playbook: str, variables: Mapping[str, Any], skipped: tuple[str, ...] = ()) -> int:
    """Run a playbook that makes the box run; then print how to reach it, and attach on a terminal."""
    activity = call.run(playbook, variables, skipped)
    engine = call.engine()
    now = call.find(engine)
    if not now:
        raise AgentboxError(f"box {call.name} is gone again", "Look at: agentbox doctor")
    _tell_what_stays(activity, now)
    return _arrive(call, engine, now)


def _tell_what_stays(activity: Activity, box: SeenBox) -> None:
    """Say what the run left as it was, and what is to be done about it."""
    for item in activity.results.get(_report.BOX_MODULE, {}).get("boxes", []):
        found = [f"{each['path']} is {each['live']}, not {each['declared']}" for each in item.get("drift", [])]
        _report_differences(box, found)
    for check in activity.results.get(HEALTH_MODULE, {}).get("checks", []):
        # How to log in is told at the end of every `up`, see _arrive.
        if check["verdict"] != "ok" and check["id"] != "credentials":
            say(f"{check['verdict']}: {check['subject']} {check['id']}: {check['seen']}. {check['todo']}")


def _report_differences(box: SeenBox, found: Sequence[str]) -> None:
    for difference in found:
        say(f"box {box.name}: {difference}")
    if found:
        say("a box that exists is not changed by `up`; `agentbox down` and `agentbox up` make it anew, its HOME stays")


def _arrive(call: Call, engine: Engine, box: SeenBox) -> int:
    """Print how to reach the box, and how to log in; on a terminal become a viewer of it, where agents ask for that."""
    interactive = terminal.is_interactive()
    answer(
        summary.of(
            box,
            attach_with=_command("attach", call),
            shell_with=_command("shell", call),
            logins=() if interactive else _missing_logins(engine, box),
        )
    )
    if interactive:
        terminal.forget_typed_keys()
        terminal.attach(box.container, engine.identity.host)
    return exits.OK


def _missing_logins(engine: Engine, box: SeenBox) -> list[str]:
    from . import logins

    return logins.missing(engine, box)


def _require_terminal(call: Call, hint: str) -> None:
    if not terminal.is_interactive():
        raise UsageError("this needs a terminal", f"On one, run: {_command(call.arguments.command, call)}, or: {hint}")


def _command(command: str, call: Call, *words: str) -> str:
    """The command line for this box, with the flags that name it."""
    flags = [
        word
        for option in options.ADDRESS
        if call.settings[option] != option.default
        for word in (option.flags[0], str(call.settings[option]))
    ]
    return shlex.join([_program(), command, *flags, *words])


def _program() -> str:
    """What to type for this program: its name, or its path where the shell would not find it."""
    return "agentbox" if shutil.which("agentbox") else str(Path(sys.prefix, "bin", "agentbox"))
