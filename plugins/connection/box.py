"""Work inside a box."""

from __future__ import annotations

DOCUMENTATION = r"""
name: box
short_description: Work inside a box
version_added: 0.1.0
description:
  - Runs commands in a running box and copies files into and out of it, through the engine of this machine.
  - An adopted box is reached as any other. Every other container is refused.
  - Everything happens as the box's own user, with the privileges of its agent and no others. O(ignore:remote_user) is
    ignored, and becoming another user is refused, because in a box nobody can gain privileges.
  - A command may take and be silent for as long as it likes. A box that is not running makes its host unreachable.
extends_documentation_fragment:
  - agentbox.fleet.engine.plugin
  - ansible.builtin.connection_pipelining
options:
  remote_addr:
    description: Name of the box's container.
    type: str
    default: inventory_hostname
    vars:
      - name: inventory_hostname
      - name: ansible_host
  engine_timeout:  # "timeout" would be taken for the task's keyword
    description: Seconds that the engine has for an answer. What runs in the box is not limited by it.
    type: int
    default: 60
    env:
      - name: AGENTBOX_ENGINE_TIMEOUT
    ini:
      - section: agentbox
        key: engine_timeout
    vars:
      - name: agentbox_engine_timeout
  state_root:
    description: >-
      Directory of the state of all instances, in which stands what is adopted. By default that of who runs Ansible;
      what root adopted is always known.
    type: path
    vars:
      - name: agentbox_state_root
notes:
  - Hosts for this connection come from the inventory P(agentbox.fleet.boxes#inventory).
  - Relative paths are below the box's workspace.
seealso:
  - plugin: agentbox.fleet.boxes
    plugin_type: inventory
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
# In an inventory of its own; P(agentbox.fleet.boxes#inventory) writes such hosts by itself.
boxes:
  hosts:
    agentbox-web:
  vars:
    ansible_connection: agentbox.fleet.box
    ansible_python_interpreter: /opt/agentbox/bin/python
"""

import contextlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_text
from ansible.plugins.connection import ConnectionBase
from ansible.utils.display import Display
from ansible_collections.agentbox.fleet.plugins.module_utils import _adopt, _engine, _exec, _naming, _wire
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError

_WRITE = 'cat >"$1"'
_READ = 'cat <"$1"'
display = Display()


def obstacle(container: str, inspect: Mapping[str, Any] | None, *, adopted: bool = False) -> str | None:
    """Why nothing can run in a container, and what to do about it; None when something can.

    ``inspect`` is the engine's answer, None when there is no such container; ``adopted`` says that a box stands for the
    container, which Agentbox did not make.
    """
    if inspect is None:
        return f"there is no container {container}. Make the box with `agentbox up` or site.yml"
    if not adopted and _naming.LABEL_BOX not in (inspect["Config"].get("Labels") or {}):
        return f"container {container} is no box. This connection is for boxes: those that Agentbox made, or adopted"
    state = str(inspect["State"]["Status"])
    if state == "running":
        return None
    if adopted:
        return f"container {container} is not running ({state}). It is adopted: Agentbox leaves it as it is"
    if state == "paused":
        return f"box {container} is paused. Run `docker unpause {container}` or site.yml"
    return f"box {container} is not running ({state}). Start it with `agentbox up` or site.yml"


class Connection(ConnectionBase):  # type: ignore[misc]
    """See ``DOCUMENTATION``."""

    transport = "agentbox.fleet.box"
    has_pipelining = True
    _connected: bool

    def _connect(self) -> Connection:
        if not self._connected:
            self._container = str(self.get_option("remote_addr"))
            with _unreachable():
                identity = _engine.identify(self.get_option("docker_host"))
                self._address = identity.address(self.get_option("engine_timeout"))
                self._look()
            display.vvv("CONNECTED TO THE BOX", host=self._container)
            self._connected = True
        return self

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        display.vvv(f"EXEC {to_text(cmd)}", host=self._container)
        stdin = None if in_data is None else io.BytesIO(in_data)
        stdout, stderr = io.BytesIO(), io.BytesIO()
        code = self._run(("/bin/sh", "-c", to_text(cmd)), stdin=stdin, stdout=stdout, stderr=stderr)
        return code, stdout.getvalue(), stderr.getvalue()

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)
        display.vvv(f"PUT {in_path} TO {out_path}", host=self._container)
        errors = io.BytesIO()
        with _source(in_path) as source:
            code = self._run(("/bin/sh", "-c", _WRITE, "sh", out_path), source, io.BytesIO(), errors)
        if code:
            raise AnsibleError(f"cannot write {out_path} in box {self._container}: {_said(errors)}")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        super().fetch_file(in_path, out_path)
        display.vvv(f"FETCH {in_path} TO {out_path}", host=self._container)
        errors, code = io.BytesIO(), None
        try:
            with Path(out_path).open("wb") as target:
                code = self._run(("/bin/sh", "-c", _READ, "sh", in_path), None, target, errors)
        finally:
            if code != 0:
                Path(out_path).unlink(missing_ok=True)
        if code:
            raise AnsibleError(f"cannot read {in_path} in box {self._container}: {_said(errors)}")

    def close(self) -> None:
        self._connected = False

    def reset(self) -> None:
        self.close()
        self._connect()

    def _run(self, argv: Sequence[str], stdin: BinaryIO | None, stdout: BinaryIO, stderr: BinaryIO) -> int:
        """Exit code of a program in the box."""
        if self.become:
            raise AnsibleError(
                f"nobody can become another user in box {self._container}, where gaining privileges is impossible. "
                "Leave `become` away, or set `ansible_become: false` for boxes"
            )
        try:
            "".join(argv).encode()
        except UnicodeEncodeError:
            raise AnsibleError("paths and commands for a box have to be UTF-8, the engine takes nothing else") from None
        with _unreachable():
            try:
                return _exec.execute(
                    self._address, self._container, argv, stdin=stdin, stdout=stdout.write, stderr=stderr.write
                )
            except _wire.RefusedError:
                self._look()
                raise

    def _look(self) -> None:
        """Raise ``AnsibleConnectionFailure`` unless something can run in the box now."""
        inspect = None
        with contextlib.suppress(_wire.RefusedError):
            inspect = _wire.ask(self._address, "GET", f"/containers/{quote(self._container, safe='')}/json")
        problem = obstacle(self._container, inspect, adopted=self._is_adopted())
        if problem:
            raise AnsibleConnectionFailure(problem)

    def _is_adopted(self) -> bool:
        root = self.get_option("state_root") or _naming.default_state_root(os.geteuid(), dict(os.environ))
        return self._container in {adoption.container for adoption in _adopt.known(root)}


@contextmanager
def _unreachable() -> Iterator[None]:
    """An engine that does not do what it is asked for makes a host unreachable."""
    try:
        yield
    except AgentboxError as error:
        raise AnsibleConnectionFailure(str(error)) from error


def _source(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise AnsibleFileNotFound(file_name=path) from None


def _said(errors: io.BytesIO) -> str:
    return errors.getvalue().decode("utf-8", "replace").strip()
