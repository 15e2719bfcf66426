"""The host's copy of the repository: fetching the branch, and whose commit it is. Checks nothing out."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from agentbox._shared._gitops import Places, Settings, uses_ssh
from agentbox._shared._health import plain
from agentbox._shared._programs import plain_environment
from agentbox._shared._state import remove_tree

from .errors import RefusedError, RunError

FETCH_TIMEOUT = 600.0  # seconds
_SHORT_TIMEOUT = 60.0
_BRANCH = "followed"  # its name here, whatever it is called there
_HEAD = f"refs/heads/{_BRANCH}"
# Transfers that hang end by themselves: less than 1 kB/s for a minute, a silent ssh peer for 45 s.
_PATIENCE = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 -o StrictHostKeyChecking=yes"
_SILENT = ("hint:", "remote:", "Cloning into", "From ")


class Repository:
    """The bare copy at ``places.repository``. Only one run at a time may use it."""

    def __init__(self, settings: Settings, places: Places) -> None:
        self._settings = settings
        self._places = places

    def fetch(self) -> str:
        """The commit at the tip of the branch, with everything that belongs to it on this host.

        A copy that can't take it (a run was killed in it, the disk was full, other addresses before) is made anew.
        """
        for name, path in self._settings.secret_files.items():
            require_private(name, path)
        if self._fetch_into(self._places.repository) is not None:
            fresh = self._places.repository.with_name("repository.new")
            shutil.rmtree(fresh, ignore_errors=True)
            problem = self._fetch_into(fresh)
            if problem is not None:
                shutil.rmtree(fresh, ignore_errors=True)
                raise RunError(f"cannot fetch {self._settings.branch} of {self._settings.repository}: {problem}")
            remove_tree(str(self._places.repository))
            fresh.rename(self._places.repository)
        return self._git(self._places.repository, "rev-parse", f"{_HEAD}^{{commit}}").stdout.strip()

    def require_path(self, commit: str, what: str, path: str) -> None:
        """Raise ``RunError`` unless ``commit`` holds ``path``. Ansible would take another inventory instead."""
        if self._git(self._places.repository, "cat-file", "-e", f"{commit}:{path}").returncode != 0:
            raise RunError(f"{what} {path} is not in commit {commit[:12]}")

    def contains(self, commit: str, ancestor: str) -> bool:
        """Whether ``ancestor`` is ``commit`` or in its history."""
        done = self._git(self._places.repository, "merge-base", "--is-ancestor", ancestor, commit)
        return done.returncode == 0

    def require_signature(self, commit: str) -> None:
        """Raise ``RefusedError`` unless one of the allowed keys signed ``commit``.

        Git takes the kind of key from the signature itself, so each kind gets the allowed keys and nothing else:
        root's own keyring never counts.
        """
        keyring = self._places.work / "keyring"
        shutil.rmtree(keyring, ignore_errors=True)
        keyring.mkdir(mode=0o700)
        try:
            if self._places.signing_keys.exists():
                self._import_keys(keyring)
            signers = self._places.allowed_signers
            done = self._git(
                self._places.repository,
                *("-c", f"gpg.ssh.allowedSignersFile={signers if signers.exists() else os.devnull}"),
                *("-c", "gpg.program=gpg", "-c", "gpg.ssh.program=ssh-keygen", "-c", "gpg.x509.program=false"),
                "verify-commit",
                commit,
                extra={"GNUPGHOME": str(keyring)},
            )
        finally:
            shutil.rmtree(keyring, ignore_errors=True)
        if done.returncode != 0:
            said = _reason(done.stderr) or "it has no signature"
            raise RefusedError(f"commit {commit[:12]} is not signed by an allowed key: {said}")

    def _import_keys(self, keyring: Path) -> None:
        keys = str(self._places.signing_keys)
        command = ["gpg", "--batch", "--quiet", "--no-autostart", "--homedir", str(keyring), "--import", keys]
        done = _run(command, plain_environment(), _SHORT_TIMEOUT)
        if done.returncode != 0:
            raise RunError(f"cannot read the keys in {keys}: {_reason(done.stderr)}")

    def _fetch_into(self, directory: Path) -> str | None:
        """Fetch the branch; the reason why it could not be done, None when it was."""
        for lock in directory.rglob("*.lock"):
            lock.unlink()  # of a killed run: this one holds the lock of the whole state directory
        made = self._git(directory, "init", "--quiet", "--bare", f"--initial-branch={_BRANCH}", str(directory))
        if made.returncode != 0:
            return _reason(made.stderr)
        refspec = f"+refs/heads/{self._settings.branch}:{_HEAD}"
        source = ("--no-tags", "--prune", "--no-write-fetch-head", "--", self._settings.repository, refspec)
        done = self._git(directory, *_PATIENCE, *self._credentials(), "fetch", *source, timeout=FETCH_TIMEOUT)
        return _reason(done.stderr) or "git says nothing" if done.returncode != 0 else None

    def _credentials(self) -> Sequence[str]:
        """An empty helper forgets those of the system's configuration."""
        path = self._settings.credentials_file
        return ("-c", "credential.helper=", "-c", f"credential.helper=store --file={path}") if path else ()

    def _git(
        self, directory: Path, *arguments: str, timeout: float = _SHORT_TIMEOUT, extra: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            **plain_environment(),
            **self._settings.environment,
            "GIT_DIR": str(directory),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
            "GIT_SSH_COMMAND": self._ssh(),
            **(extra or {}),
        }
        return _run(["git", *arguments], environment, timeout)

    def _ssh(self) -> str:
        if not uses_ssh(self._settings.repository):
            return _SSH
        options = []
        if self._places.known_hosts.exists():
            options.append(f"-o UserKnownHostsFile={self._places.known_hosts}")
        if self._settings.deploy_key_file:
            options.append(f"-o IdentitiesOnly=yes -i {self._settings.deploy_key_file}")
        return " ".join((_SSH, *options))


def require_private(name: str, path: str) -> None:
    """Raise ``RefusedError`` unless ``path`` is a file that only its owner, root or whoever runs, can read."""
    try:
        found = os.lstat(path)
    except OSError as error:
        raise RunError(f"{name}: cannot look at {path}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise RefusedError(f"{name}: {path} has to be a file")
    if found.st_uid not in (0, os.geteuid()) or stat.S_IMODE(found.st_mode) & 0o077:
        raise RefusedError(f"{name}: others can read {path}", f"chown root {path}; chmod 0600 {path}")


def _run(command: Sequence[str], environment: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; one that takes too long is killed and counts as failed."""
    try:
        return subprocess.run(
            command,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end after {timeout:.0f} s")
    except OSError as error:
        raise RunError(f"cannot run {command[0]}: {error.strerror}") from error


def _reason(output: str) -> str:
    """The first line that says what went wrong, without Git's label."""
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith(_SILENT)]
    told = [line for line in lines if line.startswith(("fatal:", "error:", "ssh:"))] or lines
    return plain(told[0].removeprefix("fatal: ").removeprefix("error: ")) if told else ""
