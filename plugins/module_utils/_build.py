"""Building an image: BuildKit through a docker CLI where that works, else the engine's classic builder."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from . import _lines, _proxy
from ._buildlog import BuildError, BuildLog
from ._engine import Engine
from ._progress import Report
from ._sources import Secret

# The first docker on PATH need not be one that has BuildKit.
CLI_PLACES = ("/usr/bin/docker", "/usr/local/bin/docker")
PROBE_SECONDS = 30
_MASK = "***"


@dataclass(frozen=True)
class Build:
    """One build. Nothing secret is in ``arguments`` and ``labels``: they stand in command lines and in the image."""

    dockerfile: str
    files: Mapping[str, str]
    arguments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    # Build arguments that every builder knows and keeps out of the image; passwords are allowed in them.
    proxy: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    network: str | None = None
    no_cache: bool = False
    target: str | None = None
    snippet: str = ""  # the part of the Dockerfile that the user wrote


@dataclass(frozen=True)
class Built:
    """An untagged image, and the images of the other stages that the builder has left in the engine as its cache."""

    image_id: str
    stages: Sequence[str] = ()


class Builder(Protocol):
    """Turns a ``Build`` into an image; raises ``BuildError``."""

    def build(self, build: Build, report: Report) -> Built: ...


def context_archive(dockerfile: str, files: Mapping[str, str]) -> bytes:
    """A tar archive that depends on names and contents only."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, text in sorted({**files, "Dockerfile": dockerfile}.items()):
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def with_secret_mounts(dockerfile: str, secrets: Mapping[str, Secret]) -> str:
    """``dockerfile`` with every ``RUN`` seeing the secrets' files while it runs."""
    mounts = " ".join(f"--mount=type=secret,id={name},target={secrets[name].target}" for name in sorted(secrets))
    return re.sub(r"^RUN ", f"RUN {mounts} ", dockerfile, flags=re.MULTILINE) if secrets else dockerfile


def find_builder(engine: Engine, environ: Mapping[str, str] = os.environ) -> Builder:
    """The best builder that works here."""
    if not engine.identity.podman:
        for program in _programs(environ):
            if _buildkit_works(program, engine.identity.host, environ):
                return BuildKit(program, engine.identity.host, environ)
    return Classic(engine)


def _programs(environ: Mapping[str, str]) -> list[str]:
    found = [shutil.which("docker", path=environ.get("PATH")), *CLI_PLACES]
    return list(dict.fromkeys(os.path.realpath(path) for path in found if path and Path(path).exists()))


def _buildkit_works(program: str, host: str, environ: Mapping[str, str]) -> bool:
    """Build an image of one empty layer and throw it away; a client says nothing reliable about its BuildKit."""
    with _client_environment(host, environ, {}) as (_, client_environ):
        try:
            probe = subprocess.run(
                [program, "build", "--output", "type=tar,dest=/dev/null", "-"],
                input=context_archive("FROM scratch\nCOPY probe /\n", {"probe": ""}),
                env=client_environ,
                capture_output=True,
                timeout=PROBE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return probe.returncode == 0


@contextmanager
def _client_environment(
    host: str, environ: Mapping[str, str], more: Mapping[str, str]
) -> Iterator[tuple[Path, dict[str, str]]]:
    """A private directory and the environment for a docker client that ignores its user's configuration.

    That may name another engine, a remote builder or a credential store that is not there.
    """
    with tempfile.TemporaryDirectory(prefix="agentbox-build-") as directory:
        kept = {key: value for key, value in environ.items() if not key.startswith(("DOCKER_", "BUILDX_", "BUILDKIT_"))}
        ours = {
            "DOCKER_HOST": host,
            "DOCKER_BUILDKIT": "1",
            "DOCKER_CONFIG": directory,
            "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",
        }
        yield Path(directory), {**kept, **more, **ours}


class BuildKit:
    """A docker CLI with a working BuildKit."""

    def __init__(self, program: str, host: str, environ: Mapping[str, str]) -> None:
        self._program = program
        self._host = host
        self._environ = environ

    def build(self, build: Build, report: Report) -> Built:
        dockerfile = with_secret_mounts(build.dockerfile, build.secrets)
        log = _Log(build, report)
        report(f"build: BuildKit of {self._program}")
        with (
            _client_environment(self._host, self._environ, build.proxy) as (directory, environ),
            tempfile.TemporaryFile() as context,
        ):
            context.write(context_archive(dockerfile, build.files))
            context.seek(0)
            image_id = directory / "image-id"
            command = [self._program, "build", "--progress=plain", "--iidfile", str(image_id)]
            command += [*_arguments(build), *_secret_files(build.secrets, directory), "-"]
            try:
                status = _lines.run(command, log.observe, log.idle, environ=environ, stdin=context)
            except OSError as error:
                raise BuildError(f"cannot run {self._program}: {error}") from error
            if status != 0:
                raise log.failure(f"{self._program} build ended with status {status}")
            return Built(image_id.read_text(encoding="ascii").strip())


def _arguments(build: Build) -> list[str]:
    words = [f"--network={build.network}"] if build.network else []
    words += ["--no-cache"] if build.no_cache else []
    words += [f"--target={build.target}"] if build.target else []
    for option, values in (("--build-arg", build.arguments), ("--label", build.labels)):
        for key, value in sorted(values.items()):
            words += [option, f"{key}={value}"]
    # By name only: the client takes the values from its environment, so no password stands in a command line.
    for key in sorted(build.proxy):
        words += ["--build-arg", key]
    return words


def _secret_files(secrets: Mapping[str, Secret], directory: Path) -> list[str]:
    words = []
    for name, secret in sorted(secrets.items()):
        path = directory / f"secret-{name}"
        path.touch(mode=0o600)
        path.write_text(secret.content, encoding="utf-8")
        words += ["--secret", f"id={name},src={path}"]
    return words


class Classic:
    """The builder inside the engine, reached through its API."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def build(self, build: Build, report: Report) -> Built:
        if build.secrets:
            raise BuildError(
                f"the host's settings of {', '.join(sorted(build.secrets))} hold credentials, which only BuildKit can "
                "use without leaving them in the image",
                "Install docker-buildx, or take the credentials out of these settings",
            )
        log = _Log(build, report)
        report("build: the engine's classic builder")
        found: list[str] = []
        with self._engine.doing("build the image"):
            events = self._engine.client.build(
                fileobj=io.BytesIO(context_archive(build.dockerfile, build.files)),
                custom_context=True,
                buildargs={**build.arguments, **build.proxy},
                labels=dict(build.labels),
                network_mode=build.network,
                nocache=build.no_cache,
                target=build.target,
                rm=True,
                forcerm=True,
                decode=True,
            )
            try:
                _lines.pump(_classic_lines(events, found), log.observe, log.idle)
            except _RefusedError as error:
                raise log.failure(str(error)) from None
        if not found:
            raise log.failure("the engine named no image")
        *stages, image_id = found  # the engine names the image of every stage
        return Built(image_id, stages)


class _RefusedError(Exception):
    """The classic builder's last event, an error."""


def _classic_lines(events: Iterable[Mapping[str, Any]], found: list[str]) -> Iterator[str]:
    """The lines in a stream of build events; image IDs go to ``found``."""
    for event in events:
        if "error" in event:
            raise _RefusedError(event["error"])
        if "ID" in event.get("aux", {}):
            found.append(event["aux"]["ID"])
        yield from str(event.get("stream", "")).splitlines()


class _Log:
    """A build's log that reports progress, shows signs of life and keeps passwords to itself."""

    def __init__(self, build: Build, report: Report) -> None:
        self._log = BuildLog(build.dockerfile, build.snippet)
        self._report = report
        self._secret_texts = _secret_texts(build)
        self._started = time.monotonic()

    def observe(self, line: str) -> None:
        news = self._log.take(_masked(line, self._secret_texts))
        if news:
            self._report(f"build: {news}")

    def idle(self) -> None:
        self._report(f"build: {time.monotonic() - self._started:.0f} s, still in {self._log.step or 'preparation'}")

    def failure(self, reason: str) -> BuildError:
        return self._log.failure(_masked(reason, self._secret_texts))


def _secret_texts(build: Build) -> list[str]:
    """What must not be shown, longest first: logins of proxies and of package sources."""
    logins = _proxy.logins(" ".join(build.proxy.values()))
    passwords = [login.partition(":")[2] for login in logins]
    hidden = [text for secret in build.secrets.values() for text in secret.hidden]
    return sorted({*logins, *passwords, *hidden} - {""}, key=len, reverse=True)


def _masked(line: str, secret_texts: Sequence[str]) -> str:
    for text in secret_texts:
        line = line.replace(text, _MASK)
    return line
