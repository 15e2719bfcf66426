"""A place for boxes in tests: an instance with its state directory and workspaces, and how to converge it."""

from __future__ import annotations

import functools
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import yaml
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError
from ansible_collections.agentbox.fleet.plugins.modules import box as module

from agentbox._shared import _naming
from tests.integration import engines, runs

FILES = ("entry.sh", "attach.sh", "tmux.conf")
START_TIMEOUT = 60.0  # seconds for a box to have its session
UID = 12345  # owner of the workspaces; no user of any machine


@functools.cache
def files() -> dict[str, str]:
    """The module's option ``files``, as the role renders it."""
    return {name: (runs.REPOSITORY / "templates/box" / name).read_text(encoding="utf-8") for name in FILES}


@functools.cache
def manifests() -> dict[str, Any]:
    """The agents of the test images, by name."""
    sources = ("agents/claude.yml", "tests/doubles/manifests/standin.yml")
    loaded = [yaml.safe_load((runs.REPOSITORY / source).read_text(encoding="utf-8")) for source in sources]
    return {manifest["name"]: manifest for manifest in loaded}


@dataclass(frozen=True)
class Site:
    """One instance. ``directory`` holds its state root and workspaces."""

    instance: str
    directory: Path

    @property
    def state_root(self) -> Path:
        return self.directory / "state"

    @property
    def state(self) -> Path:
        return Path(_naming.state_dir(str(self.state_root), self.instance))

    def paths(self, box: str) -> _naming.BoxPaths:
        return _naming.BoxPaths(str(self.state), box)

    def container(self, box: str) -> str:
        return _naming.container_name(self.instance, box)

    def look(self, engine: docker.APIClient) -> dict[str, Any]:
        """Everything of the instance in engine and files; equal for two looks between which nothing was touched."""
        files = engines.files_below(self.directory)
        files.pop(_naming.lock_path(str(self.state)), None)  # names its last holder
        return {"engine": engines.belongings(engine, self.instance), "files": files}

    def workspace(self, name: str, uid: int = UID) -> Path:
        """A workspace owned by ``uid``, made if it is missing."""
        path = self.directory / "work" / name
        if not path.exists():
            path.mkdir(parents=True)
            os.chown(path, uid, uid)
        return path

    def box(self, name: str, **declared: Any) -> dict[str, Any]:
        """A declaration that the stand-in's image fulfils; a workspace of the box's name unless one is declared."""
        return {
            "name": name,
            "image": engines.IMAGE,
            "lead": "standin",
            "agents": ["standin"],
            "memory": "512m",
            "cpus": 1,
            "publish": "none",
            **({} if "workspace" in declared else {"workspace": str(self.workspace(name))}),
            **declared,
        }

    def task(self, *boxes: Any, keywords: Mapping[str, Any] | None = None, **options: Any) -> runs.Task:
        """A task that converges ``boxes``; ``options`` are more options of the module."""
        return runs.module_task("box", self.arguments(*boxes, **options), **(keywords or {}))

    def arguments(self, *boxes: Any, **options: Any) -> dict[str, Any]:
        """The module's options."""
        return {
            "instance": self.instance,
            "state_root": str(self.state_root),
            "manifests": manifests(),
            "files": files(),
            "boxes": list(boxes),
            **options,
        }

    def converge_here(self, *boxes: Any, check: bool = False, **options: Any) -> runs.Result:
        """As ``converge``, within this process: all of the module but its frame, in a tenth of the time."""
        defaults = {name: option.get("default") for name, option in module.ARGUMENT_SPEC.items()}
        try:
            outcome = module.run({**defaults, **self.arguments(*boxes, **options)}, check)
        except AgentboxError as error:
            return {"failed": True, "msg": str(error)}
        return {**outcome.as_dict(), "failed": bool(outcome.failures), "msg": "; ".join(outcome.failures)}

    def converge(self, *boxes: Any, check: bool = False, **options: Any) -> runs.Result:
        """The result of converging ``boxes`` once."""
        return runs.play([self.task(*boxes, **options)], check=check, diff=True).results[0]

    def run(self, box: str, script: str) -> str:
        """Output of a shell script in a box, as the box's own user; it must succeed."""
        done = self.try_run(box, script)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def try_run(self, box: str, script: str) -> subprocess.CompletedProcess[str]:
        """As ``run``, for scripts that may fail. Standard error comes with the output."""
        return subprocess.run(
            ["docker", "exec", self.container(box), "bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )

    def wait_for_session(self, box: str) -> None:
        """Wait until the terminal session of a box is there."""
        deadline = time.monotonic() + START_TIMEOUT
        while (
            self.try_run(box, f"tmux -L {_naming.TMUX_SOCKET} has-session -t ={_naming.TMUX_SESSION}").returncode != 0
        ):
            assert time.monotonic() < deadline, f"no session in box {box}"
            time.sleep(0.25)
