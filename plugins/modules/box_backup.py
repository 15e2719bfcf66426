#!/usr/bin/python
"""Write boxes into backups, and make their HOME volumes from them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: box_backup
short_description: Write boxes into backups, and make their HOME volumes from them
version_added: 0.1.0
description:
  - A backup is one file, a compressed tar archive that only its owner can read. It holds the HOME volume of a box with
    the conversations in it, the declaration without values of secrets, and checksums of all files. The workspace, the
    caches and the image are not in it.
  - Logins and secrets are left out unless they are asked for. Whoever has a backup with them can act as the agent.
  - A box that runs stands still while it is written; a run that was killed leaves it paused until the next one.
  - A backup is read to its end before anything is made from it. One that is damaged, holds anything but directories,
    files and links within HOME, or comes from a format that is not known, is refused.
  - Importing makes the HOME volume and nothing else; declare the box to have it. A volume that was not filled to its
    end is removed, at the latest by the next import of that box, and no box is made with it.
  - Nothing that exists is written over, neither a file, nor a box or its HOME.
extends_documentation_fragment:
  - agentbox.fleet.engine
  - agentbox.fleet.common.instance
  - agentbox.fleet.common.lock_timeout
  - agentbox.fleet.common.progress
  - agentbox.fleet.common.state_root
  - agentbox.fleet.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - Importing a backup again whose HOME is there changes nothing.
      - Exporting writes a new file each time, and fails where there is one.
options:
  state:
    description: Whether boxes are written into files, or come from them.
    type: str
    choices: [exported, imported]
    required: true
  boxes:
    description: The boxes, each with its file.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the box. Without it an imported box has the name in its backup; to export it is needed.
        type: str
      file:
        description: Absolute path of the backup on the host.
        type: path
        required: true
      logins:
        description: Export the files too in which agents keep their logins.
        type: bool
        default: false
      secrets:
        description: Export the values of the secrets of the box too.
        type: bool
        default: false
      workspace:
        description:
          - Workspace that the imported box is declared with; its HOME belongs to whom the box then runs as.
          - By default that of a box without a declared one.
        type: path
      uid:
        description: User id that the imported box is declared with, if any.
        type: int
      image:
        description: An image that the host has, to import with. By default that of the instance.
        type: str
  manifests:
    description: Manifests of agents by name, which tell where logins lie.
    type: dict
    default: {}
  identity_home:
    description: Home of the person that boxes work for; by default of who runs the module, seen through sudo.
    type: path
seealso:
  - module: agentbox.fleet.box
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Back up a box
  agentbox.fleet.box_backup:
    state: exported
    boxes:
      - name: web
        file: /srv/backup/web.tar.gz
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"

- name: Have its HOME on another host, before the box is declared there
  agentbox.fleet.box_backup:
    state: imported
    boxes:
      - name: web
        file: /srv/backup/web.tar.gz
        workspace: /srv/code/web
"""

RETURN = r"""
boxes:
  description: One result per box, in the order of O(boxes).
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the box.
      type: str
      sample: web
    file:
      description: The backup.
      type: path
      sample: /srv/backup/web.tar.gz
    changed:
      description: Whether something was made, or in check mode would be.
      type: bool
    failed:
      description: Whether it could not be.
      type: bool
    msg:
      description: Why, and what to do about it; empty when it did not fail.
      type: str
    actions:
      description: What was done, or in check mode would be.
      type: list
      elements: dict
      sample: [{action: export, detail: /srv/backup/web.tar.gz}]
    size:
      description: Bytes of an exported file, 0 in check mode; of an imported one, bytes of the files in it.
      type: int
      sample: 1048576
    left_out:
      description:
        - What the backup does not hold. C(logins) and C(others) are paths below HOME, C(others) of what does not
          travel, such as links that lead out of HOME. C(secrets) are names.
        - In check mode and after an import, C(logins) are the places where logins are left out, whether there are some
          or not.
      type: dict
      sample: {logins: [.claude/.credentials.json], secrets: [], others: []}
actions:
  description: All actions in order.
  returned: always
  type: list
  elements: dict
  contains:
    box:
      description: Name of the box.
      type: str
    action:
      description: One of C(export), C(import).
      type: str
    detail:
      description: The file that is written, or the volume that is made.
      type: str
  sample: [{box: web, action: import, detail: agentbox-web-home}]
"""

import os
import signal
import sys
from types import FrameType
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import (
    _backup_export,
    _backup_import,
    _backup_run,
    _engine,
    _host,
    _naming,
)
from ansible_collections.agentbox.fleet.plugins.module_utils._engine import ENGINE_OPTIONS
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError, DeclarationError
from ansible_collections.agentbox.fleet.plugins.module_utils._progress import file_reporter

BOX_SPEC: dict[str, dict[str, Any]] = {
    "name": {"type": "str"},
    "file": {"type": "path", "required": True},
    "logins": {"type": "bool", "default": False},
    "secrets": {"type": "bool", "default": False, "no_log": False},
    "workspace": {"type": "path"},
    "uid": {"type": "int"},
    "image": {"type": "str"},
}
ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["exported", "imported"], "required": True},
    "instance": {"type": "str", "default": _naming.DEFAULT_INSTANCE},
    "boxes": {"type": "list", "elements": "dict", "required": True, "options": BOX_SPEC},
    "manifests": {"type": "dict", "default": {}},
    "state_root": {"type": "path"},
    "identity_home": {"type": "path"},
    "lock_timeout": {"type": "int", "default": 120},
    "progress": {"type": "path"},
    **ENGINE_OPTIONS,
}
# Ends that are asked for: what stands still goes on first, and what is half made goes.
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    for number in _SIGNALS:
        signal.signal(number, _end)
    try:
        results = run(module)
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    failures = [f"box {result.name}: {result.error}" for result in results if result.error]
    if failures:
        module.fail_json(msg="; ".join(failures), **_backup_run.outcome(results))
    module.exit_json(**_backup_run.outcome(results))


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def run(module: AnsibleModule) -> list[_backup_run.Result]:
    params = module.params
    if not _naming.is_name(params["instance"]):
        raise DeclarationError(f"instance: '{params['instance']}' is no valid name")
    absent_expected = module.check_mode and params["engine_absent"] == "predict"
    engine = _engine.connect_if_installed(params["docker_host"], may_be_absent=absent_expected)
    person = _host.person(params["identity_home"])
    state_root = params["state_root"] or _naming.default_state_root(person.euid, dict(os.environ))
    request = _backup_run.Request(
        engine=engine,
        instance=params["instance"],
        state_dir=_naming.state_dir(state_root, params["instance"]),
        person=person,
        manifests=params["manifests"],
        report=file_reporter(params["progress"]),
        check=module.check_mode,
        lock_timeout=float(params["lock_timeout"]),
    )
    try:
        if params["state"] == "exported":
            return _backup_export.export(request, [exported(box) for box in params["boxes"]])
        return _backup_import.bring(request, [imported(box) for box in params["boxes"]])
    finally:
        if engine:
            engine.close()


def exported(box: dict[str, Any]) -> _backup_export.Wanted:
    name = box["name"] or ""
    if not _naming.is_name(name):
        raise DeclarationError(f"boxes: '{name}' is no valid name of a box")
    return _backup_export.Wanted(name, box["file"], logins=box["logins"], secrets=box["secrets"])


def imported(box: dict[str, Any]) -> _backup_import.Wanted:
    return _backup_import.Wanted(box["file"], box["name"] or "", box["workspace"], box["uid"], box["image"] or "")


if __name__ == "__main__":
    main()
