"""Which logins of the host the boxes of one run get: read, checked against who has them, and due or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _credentials_box, _credentials_host, _naming
from ._box import Box, Login
from ._credentials_host import Note, Seed
from ._engine import Engine
from ._errors import DeclarationError
from ._payload import keeping_volume
from ._spec import BoxSpec
from ._state import Digester
from ._volumes import Volume


@dataclass(frozen=True)
class Logins:
    """What a run knows that decides about logins. ``containers`` are as the engine lists them, by name."""

    specs: Sequence[BoxSpec]
    engine: Engine | None
    containers: Mapping[str, Mapping[str, Any]]
    volumes: Mapping[str, Volume]
    digester: Digester

    def of(self, box: Box) -> tuple[Login, ...]:
        """The logins that a box is to have. Raises ``DeclarationError`` for one that is missing or another box's."""
        found = _credentials_host.find(box)
        lacking = [agent for agent, login in found.items() if login is None and not self._was_seeded(box, agent)]
        if lacking:
            raise _credentials_host.missing_problem(box, lacking)
        logins = tuple(login for login in found.values() if login)
        for login in logins:
            self._check_alone(box, login)
        return logins

    def _was_seeded(self, box: Box, agent: str) -> bool:
        """A login that a box has stays its own when the host's goes."""
        target = _credentials_host.target(box, box.agents[agent])
        return box.spec.credentials == "seed" and self._note(box, target, agent) is not None

    def _check_alone(self, box: Box, login: Login) -> None:
        key = f"{box.spec.path}.credentials"
        advice = "Log in inside the other box, or declare a secret for it"
        other = _credentials_host.rival(box.spec, login, self.specs, box.setting.manifests)
        if other:
            raise DeclarationError(
                f"{key}: {other}.credentials takes the login of {login.agent} too, {login.source}; one box can have it",
                advice,
            )
        has_it = _credentials_host.holder(
            login,
            self.digester.of_bytes(login.content),
            self._others(box),
            self.volumes,
            mounting=box.spec.credentials == "mount",
        )
        if has_it:
            raise DeclarationError(
                f"{key}: {has_it} has the login of {login.agent}, {login.source}; one box can have it", advice
            )

    def _others(self, box: Box) -> Iterable[Mapping[str, Any]]:
        """All other boxes of the engine that this run leaves there."""
        going = {
            _naming.container_name(box.setting.instance, spec.name) for spec in self.specs if spec.state == "absent"
        }
        return [
            item
            for name, item in self.containers.items()
            if name not in going
            and not name.startswith(f"{box.container}.")  # set aside by a recreation
            and name != box.container
            and (item.get("Labels") or {}).get(_naming.LABEL_MANAGED) == "true"
            and _naming.LABEL_BOX in item["Labels"]
        ]

    def due(self, box: Box, live: Mapping[str, Any] | None) -> tuple[Seed, ...]:
        """The logins to be written into volumes of a box; ``live`` is its container."""
        seeds = [self._seed(box, login, live) for login in box.logins if box.spec.credentials == "seed"]
        return tuple(seed for seed in seeds if seed)

    def _seed(self, box: Box, login: Login, live: Mapping[str, Any] | None) -> Seed | None:
        mount = keeping_volume(box, login.target)
        digest, note = self.digester.of_bytes(login.content), self._note(box, login.target, login.agent)
        if mount is None or (note and digest and note.digest == digest):
            return None
        held = _credentials_box.held(self.engine, str(live["Id"]), box, login) if self.engine and live else None
        return Seed(login, mount, digest) if _credentials_host.is_due(login, note, held) else None

    def _note(self, box: Box, target: str, agent: str) -> Note | None:
        mount = keeping_volume(box, target)
        volume = self.volumes.get(str(mount["Source"])) if mount else None
        return _credentials_host.noted(box.setting.state_dir, volume, agent)
