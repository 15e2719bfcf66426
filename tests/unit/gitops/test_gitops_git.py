"""Fetching and accepting commits, with real Git, real keys and repositories on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentbox._shared._gitops import Places, Settings
from agentbox.gitops.errors import RefusedError, RunError
from agentbox.gitops.git import Repository, require_private


class Origin:
    """A repository as its developers see it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.git("init", "--quiet", "--initial-branch=main", str(directory))

    def git(self, *arguments: str) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{role}_{key}": "ada@git.example" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")},
        }
        self.directory.mkdir(exist_ok=True)
        done = subprocess.run(
            ["git", *arguments], cwd=self.directory, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, text: str, *options: str) -> str:
        (self.directory / "site.yml").write_text(text, encoding="utf-8")
        self.git("add", ".")
        self.git(*options, "commit", "--quiet", "--message", text)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(config=tmp_path / "etc", code=tmp_path / "opt", state=tmp_path / "var", units=tmp_path / "units")
    found.config.mkdir()
    found.work.mkdir(parents=True)
    return found


def settings(origin: Origin, **changed: object) -> Settings:
    known = {
        "repository": f"file://{origin.directory}",
        "branch": "main",
        "inventory": "hosts.yml",
        "playbook": "site.yml",
        "host": "ada.example",
        "mode": "converge",
        "verify_signatures": True,
        "allow_rewritten": False,
    }
    return Settings(**{**known, **changed})  # type: ignore[arg-type]


def ssh_key(directory: Path, name: str) -> tuple[Path, str]:
    """A private key's path and the line that allows its signatures."""
    path = directory / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)
    return path, f"ada@git.example {path.with_suffix('.pub').read_text(encoding='ascii')}"


def signing_with(key: Path) -> list[str]:
    return ["-c", "gpg.format=ssh", "-c", f"user.signingKey={key}", "-c", "commit.gpgSign=true"]


def test_follows_the_branch_wherever_it_goes(origin: Origin, places: Places) -> None:
    repository = Repository(settings(origin), places)
    first = origin.commit("one")
    assert repository.fetch() == first
    second = origin.commit("two")
    assert repository.fetch() == second
    assert repository.contains(second, first)
    origin.git("reset", "--hard", "--quiet", first)
    third = origin.commit("three")
    assert repository.fetch() == third
    assert not repository.contains(third, second)


def test_a_commit_that_is_gone_everywhere_counts_as_not_contained(origin: Origin, places: Places) -> None:
    repository = Repository(settings(origin), places)
    origin.commit("one")
    assert not repository.contains(repository.fetch(), "0" * 40)


@pytest.mark.parametrize("damage", ["no objects", "a file in its place", "empty configuration"])
def test_a_damaged_copy_is_made_anew(origin: Origin, places: Places, damage: str) -> None:
    repository = Repository(settings(origin), places)
    origin.commit("one")
    repository.fetch()
    if damage == "no objects":
        shutil.rmtree(places.repository / "objects")
        (places.repository / "objects").mkdir()
    elif damage == "a file in its place":
        shutil.rmtree(places.repository)
        places.repository.write_text("left by a killed run", encoding="utf-8")
    else:
        (places.repository / "config").write_bytes(b"\0" * 20)
    second = origin.commit("two")
    assert repository.fetch() == second
    assert [path.name for path in places.work.iterdir()] == ["repository.git"]


def test_locks_that_a_killed_run_left_stop_nothing(origin: Origin, places: Places) -> None:
    repository = Repository(settings(origin), places)
    origin.commit("one")
    repository.fetch()
    locks = [places.repository / name for name in ("config.lock", "refs/heads/followed.lock", "packed-refs.lock")]
    for lock in locks:
        lock.touch()
    inode = places.repository.stat().st_ino
    assert repository.fetch() == origin.git("rev-parse", "HEAD")
    assert not [lock for lock in locks if lock.exists()]
    assert places.repository.stat().st_ino == inode, "made anew instead"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"branch": "nowhere"}, "couldn't find remote ref refs/heads/nowhere"),
        ({"repository": "git://127.0.0.1:9/fleet"}, "unable to connect to 127.0.0.1"),
        ({"repository": "file:///nowhere"}, "'/nowhere' does not appear to be a git repository"),
        ({"repository": "ext::sh -c true"}, "transport 'ext' not allowed"),
    ],
)
def test_says_why_it_cannot_fetch_and_keeps_the_copy(
    origin: Origin, places: Places, changed: dict[str, str], reason: str
) -> None:
    commit = origin.commit("one")
    Repository(settings(origin), places).fetch()
    with pytest.raises(RunError) as told:
        Repository(settings(origin, **changed), places).fetch()
    assert reason in told.value.message
    assert (told.value.outcome, sorted(path.name for path in places.work.iterdir())) == ("failed", ["repository.git"])
    assert Repository(settings(origin), places).contains(commit, commit)


def test_a_path_that_the_commit_lacks_is_named(origin: Origin, places: Places) -> None:
    repository = Repository(settings(origin), places)
    origin.commit("one")
    commit = repository.fetch()
    repository.require_path(commit, "playbook", "site.yml")
    with pytest.raises(RunError, match=r"inventory hosts\.yml is not in commit"):
        repository.require_path(commit, "inventory", "hosts.yml")


def test_an_allowed_ssh_signature_is_accepted(origin: Origin, places: Places, tmp_path: Path) -> None:
    key, line = ssh_key(tmp_path, "ada")
    places.allowed_signers.write_text(line, encoding="ascii")
    repository = Repository(settings(origin), places)
    origin.commit("one", *signing_with(key))
    repository.require_signature(repository.fetch())


def test_no_signature_and_one_of_somebody_else_are_refused(origin: Origin, places: Places, tmp_path: Path) -> None:
    _, line = ssh_key(tmp_path, "ada")
    stranger, _ = ssh_key(tmp_path, "stranger")
    places.allowed_signers.write_text(line, encoding="ascii")
    repository = Repository(settings(origin), places)
    origin.commit("one")
    with pytest.raises(RefusedError, match="is not signed by an allowed key: it has no signature"):
        repository.require_signature(repository.fetch())
    origin.commit("two", *signing_with(stranger))
    with pytest.raises(RefusedError, match="is not signed by an allowed key: "):
        repository.require_signature(repository.fetch())


def test_a_signed_tag_does_not_make_a_commit_signed(origin: Origin, places: Places, tmp_path: Path) -> None:
    key, line = ssh_key(tmp_path, "ada")
    places.allowed_signers.write_text(line, encoding="ascii")
    repository = Repository(settings(origin), places)
    origin.commit("one")
    origin.git(*signing_with(key), "tag", "--sign", "--message=v1", "v1")
    with pytest.raises(RefusedError):
        repository.require_signature(repository.fetch())


def gpg(home: Path, *arguments: str) -> str:
    command = ["gpg", "--batch", "--quiet", "--homedir", str(home), "--pinentry-mode=loopback", "--passphrase="]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def gpg_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A keyring with a secret key; its agent ends when the directory is gone."""
    home = tmp_path_factory.mktemp("gpg", numbered=True)
    home.chmod(0o700)
    gpg(home, "--quick-generate-key", "ada@git.example", "ed25519", "sign", "never")
    return home


def test_openpgp_keys_count_and_those_of_root_s_own_keyring_do_not(
    origin: Origin, places: Places, gpg_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "gpg"
    program.write_text(f'#!/bin/sh\nexec gpg --homedir {gpg_home} "$@"\n', encoding="ascii")
    program.chmod(0o755)
    origin.commit(
        "one", "-c", f"gpg.program={program}", "-c", "user.signingKey=ada@git.example", "-c", "commit.gpgSign=true"
    )
    repository = Repository(settings(origin), places)
    commit = repository.fetch()
    # The keyring of whoever runs knows the key, and an allowed SSH key is there; neither makes it count.
    monkeypatch.setenv("GNUPGHOME", str(gpg_home))
    places.allowed_signers.write_text(ssh_key(tmp_path, "other")[1], encoding="ascii")
    with pytest.raises(RefusedError):
        repository.require_signature(commit)
    places.signing_keys.write_text(gpg(gpg_home, "--armor", "--export", "ada@git.example"), encoding="ascii")
    repository.require_signature(commit)
    assert [path.name for path in places.work.iterdir()] == ["repository.git"], "a keyring is left"


def test_keys_that_are_none_are_an_error_of_the_settings(origin: Origin, places: Places) -> None:
    places.signing_keys.write_text("no key\n", encoding="ascii")
    repository = Repository(settings(origin), places)
    origin.commit("one")
    with pytest.raises(RunError, match="cannot read the keys in"):
        repository.require_signature(repository.fetch())


def test_files_with_secrets_are_only_used_when_nobody_else_can_read_them(origin: Origin, places: Places) -> None:
    origin.commit("one")
    secret = places.config / "key"
    secret.write_text("secret", encoding="ascii")
    secret.chmod(0o640)
    with pytest.raises(RefusedError, match=r"deploy_key_file: others can read .*chmod 0600"):
        Repository(settings(origin, deploy_key_file=str(secret)), places).fetch()
    secret.chmod(0o600)
    Repository(settings(origin, deploy_key_file=str(secret)), places).fetch()
    link = places.config / "link"
    link.symlink_to(secret)
    with pytest.raises(RefusedError, match="has to be a file"):
        require_private("deploy_key_file", str(link))
    with pytest.raises(RunError, match=r"cannot look at .*No such file"):
        require_private("deploy_key_file", str(places.config / "none"))
