"""Every way to run Agentbox: clone, installed tarball, installed wheel, ansible-pull, execution environment."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import docker
import docker.errors
import pytest
import yaml

from agentbox._shared import _naming
from tests import cleanup, hosts
from tests.integration import engines, runs, sites
from tests.integration.test_cli import OTHER_UID, as_user, free_port

BIN = Path(sys.executable).parent
FLEET = PurePosixPath("ansible_collections/agentbox/fleet")
IN_WHEEL = "agentbox/collections" / FLEET
# What the roles, modules and plugins of the collection read when they run.
AT_RUN_TIME = ("agents", "meta", "playbooks", "plugins", "requirements", "roles", "src", "templates")
BUILD_CONTEXT = "{{ lookup('agentbox.fleet.image_files') | to_json(sort_keys=True) | hash('sha256') }}"
TIMEOUT = 240  # seconds for one command
FOREIGN = ("AGENTBOX_", "ANSIBLE_", "DOCKER_", "PYTHON", "XDG_", "SUDO_", "WORKSPACE", "MEM", "CPUS")


@dataclass(frozen=True)
class Dist:
    """What ``make dist`` built."""

    wheel: Path
    tarball: Path

    def in_wheel(self) -> dict[str, bytes]:
        """Path to content of the wheel's files."""
        with zipfile.ZipFile(self.wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def in_tarball(self) -> dict[str, bytes]:
        """Path to content of the tarball's files."""
        with tarfile.open(self.tarball) as archive:
            return {entry.name: read(archive, entry) for entry in archive if entry.isfile()}


def read(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(entry)
    assert stream
    return stream.read()


def make_dist(directory: Path, umask: int = 0o022) -> Dist:
    program = runs.REPOSITORY / "tools/dist.py"
    subprocess.run([sys.executable, str(program), str(directory)], cwd="/", check=True, timeout=TIMEOUT, umask=umask)
    [wheel], [tarball] = directory.glob("*.whl"), directory.glob("*.tar.gz")
    return Dist(wheel, tarball)


def environment(home: Path, **more: str) -> dict[str, str]:
    """That of a person who has nothing but a home, and Ansible on the PATH."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {**own, "HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1", **more}


def run(*command: str | Path, cwd: Path, env: Mapping[str, str], timeout: float = TIMEOUT) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(module_place: Path) -> Dist:
    return make_dist(module_place / "dist")


@pytest.fixture(scope="module")
def installed(dist: Dist, module_place: Path) -> Path:
    """A collections path on which the tarball is installed, as root does."""
    path = module_place / "collections"
    run(BIN / "ansible-galaxy", "collection", "install", "--offline", "--collections-path", path, dist.tarball,
        cwd=module_place, env=environment(module_place))  # fmt: skip
    return path


@pytest.fixture(scope="module")
def packaged(dist: Dist, module_place: Path) -> Path:
    """A virtual environment with the wheel that the tarball holds, and with the dependencies of the tests' own."""
    directory = module_place / "venv"
    venv.create(directory, with_pip=False, symlinks=True)
    inside = module_place / "inside"
    with tarfile.open(dist.tarball) as archive:
        archive.extract(f"files/{dist.wheel.name}", inside, filter="data")
    run(sys.executable, "-m", "pip", "--python", directory / "bin/python", "install", "--quiet", "--no-deps",
        "--no-index", inside / "files" / dist.wheel.name, cwd=module_place, env=environment(module_place))  # fmt: skip
    # A .pth file is not followed from another one, so the clone that is installed there stays out of sight.
    (purelib(directory) / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return directory


def purelib(directory: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)}))


def test_the_wheel_is_the_same_whoever_builds_it(dist: Dist, place: Path) -> None:
    assert make_dist(place / "dist", umask=0o077).wheel.read_bytes() == dist.wheel.read_bytes()


def test_the_tarball_holds_what_runs_and_nothing_of_the_developers(dist: Dist) -> None:
    names = dist.in_tarball()
    assert {PurePosixPath(name).parts[0] for name in names} == {
        *(*AT_RUN_TIME, "docs", "files"),
        *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "bindep.txt"),
        *("FILES.json", "MANIFEST.json"),
    }
    assert not [name for name in names if name.endswith((".pyc", "~"))]
    assert {name for name in names if name.startswith("files/")} == {f"files/{dist.wheel.name}"}
    assert names[f"files/{dist.wheel.name}"] == dist.wheel.read_bytes()


def test_nothing_is_readable_by_root_only(dist: Dist) -> None:
    with tarfile.open(dist.tarball) as archive:
        assert {oct(entry.mode) for entry in archive if entry.isdir()} == {"0o755"}
        assert {oct(entry.mode) for entry in archive if entry.isfile()} <= {"0o644", "0o755"}
        assert [entry.linkname for entry in archive if entry.issym()] == ["../../plugins/module_utils"]
    with zipfile.ZipFile(dist.wheel) as wheel:
        assert {oct(entry.external_attr >> 16 & 0o777) for entry in wheel.infolist()} <= {"0o644", "0o755"}


def test_the_wheel_brings_the_collection_of_the_tarball(dist: Dist) -> None:
    wheel, tarball = dist.in_wheel(), dist.in_tarball()
    shared = {Path(name).name: text for name, text in tarball.items() if name.startswith("plugins/module_utils/")}
    for place in ("agentbox/_shared", f"{IN_WHEEL}/src/agentbox/_shared"):  # a wheel has no links
        assert {name: text for name, text in wheel.items() if name.startswith(f"{place}/")} == {
            f"{place}/{name}": text for name, text in shared.items()
        }
    for folder in AT_RUN_TIME:
        names = {name for name in tarball if name.startswith(f"{folder}/")}
        brought = {name.removeprefix(f"{IN_WHEEL}/") for name in wheel if name.startswith(f"{IN_WHEEL}/{folder}/")}
        assert {name for name in brought if not name.startswith("src/agentbox/_shared/")} == names
        assert all(wheel[f"{IN_WHEEL}/{name}"] == tarball[name] for name in names)


def test_every_layout_gives_the_same_build_context(installed: Path, packaged: Path, place: Path) -> None:
    layouts = (runs.REPOSITORY / "collections", installed, purelib(packaged) / "agentbox/collections")
    digests = [
        run(
            BIN / "ansible", "localhost", "--module-name", "ansible.builtin.debug", "--args", f"msg={BUILD_CONTEXT}",
            cwd=place, env=environment(place, ANSIBLE_COLLECTIONS_PATH=str(path)),
        )
        for path in layouts
    ]  # fmt: skip
    assert re.search(r'"msg": "[0-9a-f]{64}"', digests[0])
    assert digests == [digests[0]] * 3


def test_ansible_doc_knows_every_module_plugin_and_role(installed: Path, place: Path) -> None:
    env = environment(place, ANSIBLE_COLLECTIONS_PATH=str(installed))
    known = json.loads(run(BIN / "ansible-doc", "--metadata-dump", runs.COLLECTION, cwd=place, env=env))["all"]
    folder = installed / FLEET / "plugins"
    wanted = {
        "module": [path.stem for path in (folder / "modules").glob("*.py")],
        "role": [path.name for path in (folder.parent / "roles").iterdir()],
        # The files of filters hold several each; those beside them document one each.
        "filter": [path.stem for path in (folder / "filter").glob("*.yml")],
        **{
            kind: [path.stem for path in (folder / kind).glob("*.py")]
            for kind in ("callback", "connection", "inventory", "lookup")
        },
    }
    for kind, names in wanted.items():
        assert sorted(known[kind]) == sorted(f"{runs.COLLECTION}.{name}" for name in names), kind


def test_a_release_collects_the_fragments_into_the_changelog(place: Path) -> None:
    """What CONTRIBUTING.md says, on a copy."""
    tree = place / "release"
    shutil.copytree(runs.REPOSITORY, tree, symlinks=True, ignore=shutil.ignore_patterns(".*", "tests", "collections"))
    fragments = [yaml.safe_load(path.read_text()) for path in (tree / "changelogs/fragments").glob("*.yml")]
    run(BIN / "antsibull-changelog", "release", cwd=tree, env=environment(place))
    run(BIN / "antsibull-changelog", "lint", cwd=tree, env=environment(place))
    version = yaml.safe_load((tree / "galaxy.yml").read_text())["version"]
    [(released, release)] = yaml.safe_load((tree / "changelogs/changelog.yaml").read_text())["releases"].items()
    assert released == version
    for section, entries in ((section, entries) for fragment in fragments for section, entries in fragment.items()):
        told = release["changes"][section]
        assert told == entries if isinstance(entries, str) else set(entries) <= set(told)
    assert f"## v{version}" in (tree / "CHANGELOG.md").read_text().replace("\\", "")
    assert not list((tree / "changelogs/fragments").glob("*.yml"))


@dataclass(frozen=True)
class Fleet:
    """A repository of one's own: an inventory with one box of the stand-in, and a playbook that runs ours."""

    directory: Path
    instance: str

    @property
    def container(self) -> str:
        return _naming.container_name(self.instance, "default")

    def write(self) -> None:
        workspace = self.directory.parent / "workspace"
        workspace.mkdir()
        os.chown(workspace, OTHER_UID, OTHER_UID)
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "agentbox_become": False,
            "agentbox_instance": self.instance,
            "agentbox_state_root": str(self.directory.parent / "state"),
            "agentbox_manifests": {"standin": sites.manifests()["standin"]},
            "agentbox_agents": ["standin"],
            "agentbox_boxes": [
                {
                    "name": "default",
                    "workspace": str(workspace),
                    "agents": ["standin"],
                    "lead": "standin",
                    "memory": "512m",
                    "publish": "none",
                }
            ],
        }
        self.directory.mkdir()
        inventory = {"all": {"hosts": {"localhost": variables}}}
        (self.directory / "hosts.yml").write_text(yaml.safe_dump(inventory))
        site = [{"name": "Converge", "ansible.builtin.import_playbook": f"{runs.COLLECTION}.site"}]
        (self.directory / "site.yml").write_text(yaml.safe_dump(site))


@contextmanager
def prepared(engine: docker.APIClient, image: str) -> Iterator[str]:
    """The name of an instance that has its image, so that nothing is built anew."""
    instance = engines.new_instance_name()
    engine.tag(image, instance, "latest")
    with ExitStack() as stack:
        stack.callback(remove_images, engine, instance)
        stack.callback(engines.remove_instance, engine, instance)
        yield instance


def remove_images(engine: docker.APIClient, instance: str) -> None:
    """The one in use and, had it to be built anew after all, the one before."""
    for image in engine.images(name=instance):
        for tag in image["RepoTags"]:
            engine.remove_image(tag)


@pytest.fixture
def fleet(engine: docker.APIClient, place: Path) -> Iterator[Fleet]:
    with prepared(engine, engines.IMAGE) as instance:
        found = Fleet(place / "fleet", instance)
        found.write()
        yield found


def test_an_ordinary_user_runs_the_tarball_that_root_installed(installed: Path, fleet: Fleet, place: Path) -> None:
    home = place / "home"
    home.mkdir()
    os.chown(home, OTHER_UID, OTHER_UID)
    group = Path("/var/run/docker.sock").stat().st_gid
    said = run(
        *as_user(group), BIN / "ansible-playbook", f"{runs.COLLECTION}.site", "--check",
        "--inventory", fleet.directory / "hosts.yml", "--tags", "image,box", "--skip-tags", "install",
        cwd=home, env=environment(home, ANSIBLE_COLLECTIONS_PATH=str(installed)),
    )  # fmt: skip
    assert "failed=0" in said


@pytest.mark.full
def test_what_ansible_pull_made_with_the_tarball_is_what_a_clone_would_make(
    engine: docker.APIClient, installed: Path, fleet: Fleet, place: Path
) -> None:
    env = environment(place, ANSIBLE_COLLECTIONS_PATH=str(installed))
    run("git", "init", "--quiet", cwd=fleet.directory, env=env)
    run("git", "add", ".", cwd=fleet.directory, env=env)
    run("git", "-c", "user.name=Ada", "-c", "user.email=ada@fleet.example", "commit", "--quiet", "--message", "Declare",
        cwd=fleet.directory, env=env)  # fmt: skip
    run("git", "clone", "--quiet", "--bare", fleet.directory, place / "fleet.git", cwd=place, env=env)
    run(
        BIN / "ansible-pull", "--url", f"file://{place}/fleet.git", "--directory", place / "checkout",
        "--inventory", "hosts.yml", "--tags", "image,box,verify", "site.yml", cwd=place, env=env,
    )  # fmt: skip
    assert engine.inspect_container(fleet.container)["State"]["Running"]
    said = run(
        BIN / "ansible-playbook", runs.REPOSITORY / "site.yml", "--inventory", fleet.directory / "hosts.yml", "--check",
        "--tags", "image,box", cwd=place, env=environment(place),
    )  # fmt: skip
    assert "Converge the boxes] ***" in said
    assert re.search(r"changed=0 .* failed=0", said), said


def test_the_packaged_command_line_needs_no_clone(engine: docker.APIClient, packaged: Path, place: Path) -> None:
    with prepared(engine, engines.IMAGE_CLAUDE) as instance:
        env = environment(place, AGENTBOX_INSTANCE=instance)
        workspace = place / "work"
        workspace.mkdir()
        agentbox = packaged / "bin/agentbox"
        try:
            where = run(packaged / "bin/python", "-c", "import agentbox; print(agentbox.__file__)", cwd=place, env=env)
            assert Path(where).is_relative_to(packaged)
            said = run(agentbox, "up", "--port", str(free_port()), "--memory", "512m", cwd=workspace, env=env)
            assert str(workspace) in said
            assert engine.inspect_container(instance)["State"]["Running"]
            report: dict[str, Any] = json.loads(run(agentbox, "doctor", "--json", cwd=workspace, env=env))
            assert report["verdict"] in ("ok", "warn")
            assert str(workspace) in run(agentbox, "ls", cwd=place, env=env)
        finally:
            shutil.rmtree(f"/var/lib/agentbox/{instance}", ignore_errors=True)


@pytest.fixture
def definition(dist: Dist, place: Path) -> Path:
    """A directory with the definition of the execution environment, the tarball that it names, and a build context."""
    directory = place / "definition"
    (directory / "dist").mkdir(parents=True)
    shutil.copy(runs.REPOSITORY / "execution-environment.yml", directory)
    shutil.copy(dist.tarball, directory / "dist")
    run(BIN / "ansible-builder", "create", "--output-filename", "Dockerfile", cwd=directory, env=environment(place))
    return directory


def test_ansible_builder_takes_the_definition_and_what_the_collection_needs(
    dist: Dist, installed: Path, definition: Path
) -> None:
    copied = definition / "context/_build/collections" / dist.tarball.name
    assert copied.read_bytes() == dist.tarball.read_bytes()
    needs = run(BIN / "ansible-builder", "introspect", installed, cwd=definition, env=environment(definition))
    found = yaml.safe_load(needs)
    assert {re.split("[ >]", line)[0] for line in found["python"]} == {
        "docker",
        "jsonschema",
    }  # others are ansible-core's
    assert {line.split()[0] for line in found["system"]} == {"git", "openssh-client", "openssh-clients"}


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_execution_environment_runs_the_collection(engine: docker.APIClient, definition: Path) -> None:
    """On the tests' own base, which trusts what its network needs."""
    tag = f"{engines.new_instance_name()}-ee"
    base = hosts.build_image("debian-12")
    build = ("docker", "build", "--quiet", f"--tag={tag}", f"--build-arg=EE_BASE_IMAGE={base}", "context")
    inside = ("docker", "run", "--rm", f"--label={cleanup.TEST_LABEL}", tag)
    env = environment(definition)
    try:
        run(*build, cwd=definition, env=env, timeout=840)
        agents = "msg={{ lookup('agentbox.fleet.manifests').keys() | list }}"
        debug = (*inside, "ansible", "localhost", "--module-name", "ansible.builtin.debug", "--args", agents)
        assert '"claude"' in run(*debug, cwd=definition, env=env)
        playbook = (*inside, "ansible-playbook", "--inventory", "localhost,", f"{runs.COLLECTION}.site")
        run(*playbook, "--syntax-check", cwd=definition, env=env)
    finally:
        with contextlib.suppress(docker.errors.ImageNotFound):
            engine.remove_image(tag, force=True)
