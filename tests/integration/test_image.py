"""Images on a real engine: built by content, proven before use, and never at the cost of the one in use."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest
from ansible_collections.agentbox.fleet.plugins.module_utils import (
    _base,
    _build,
    _engine,
    _image_guard,
    _naming,
    _sources,
)
from ansible_collections.agentbox.fleet.plugins.module_utils._buildlog import BuildError
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError, EngineError
from ansible_collections.agentbox.fleet.plugins.modules import image

from tests.integration import engines, runs, sites

CANARY = "canary-of-a-password"
# On top of the stand-in's image, whose user and shell are those of every image.
DOCKERFILE = """\
ARG BASE
FROM ${BASE} AS latest-tool
USER root
ARG ASKED
COPY latest.txt /latest
RUN grep -q '^[0-9]' /latest
FROM ${BASE}
USER root
COPY host/ marker.txt /host/
ARG WORD=none
ARG VERSION_TOOL
RUN printf '#!/bin/sh\\necho "tool %s"\\n' "${VERSION_TOOL}" > /usr/local/bin/tool && chmod 0755 /usr/local/bin/tool
"""
FILES = {"marker.txt": "one\n", "latest.txt": "1.2.3\n"}
MANIFEST: dict[str, Any] = {
    "name": "tool",
    "title": "Tool",
    "package": {"installer": "npm", "name": "tool", "version": "1.2.3"},
    "binary": "tool",
    "version": {"argv": ["tool", "--version"], "pattern": r"^tool (\d+\.\d+\.\d+)$"},
    "config": {"directory": ".tool"},
    "launch": {"argv": ["tool"], "permission_modes": ["default"]},
}


@dataclass
class Workshop:
    """One instance's image: its options and what the engine has of it."""

    engine: Any  # docker.APIClient, partly untyped
    instance: str
    directory: Path
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def tag(self) -> str:
        return f"{self.instance}:latest"

    def arguments(self, **options: Any) -> dict[str, Any]:
        """The module's options."""
        return {
            "name": self.tag,
            "instance": self.instance,
            "dockerfile": DOCKERFILE,
            "files": FILES,
            "manifests": {"tool": MANIFEST},
            "agents": ["tool"],
            "base": engines.IMAGE,
            "min_free": "1m",
            "state_root": str(self.directory / "state"),
            "progress": str(self.progress),
            **self.options,
            **options,
        }

    def play(self, *, check: bool = False, **options: Any) -> runs.Result:
        """The result of the module run by Ansible."""
        return runs.play([runs.module_task("image", self.arguments(**options))], check=check, diff=True).results[0]

    def build(self, *, check: bool = False, **options: Any) -> runs.Result:
        """As ``play``, within this process: all of the module but its frame, in a tenth of the time."""
        defaults = {name: option.get("default") for name, option in image.ARGUMENT_SPEC.items()}
        try:
            return image.run({**defaults, **self.arguments(**options)}, check)
        except AgentboxError as error:
            return {"failed": True, "msg": str(error)}

    @property
    def progress(self) -> Path:
        return self.directory / "progress"

    @property
    def image(self) -> dict[str, Any] | None:
        """What the engine says about the tag."""
        try:
            found: dict[str, Any] = self.engine.inspect_image(self.tag)
        except docker.errors.ImageNotFound:
            return None
        return found

    @property
    def image_id(self) -> str:
        assert self.image is not None
        return str(self.image["Id"])

    def images(self) -> list[str]:
        """IDs of all images of the instance, tagged or not."""
        wanted = {"label": f"{_naming.LABEL_INSTANCE}={self.instance}"}
        return [image["Id"] for image in self.engine.images(filters=wanted)]

    def remove(self) -> None:
        for image_id in self.images():
            self.engine.remove_image(image_id, force=True)


def output_of(workshop: Workshop, image_id: str, script: str) -> str:
    """What a script prints as root in a container of an image."""
    labels = {_naming.LABEL_INSTANCE: workshop.instance}
    container = workshop.engine.create_container(image_id, command=["bash", "-c", script], user="0", labels=labels)[
        "Id"
    ]
    workshop.engine.start(container)
    workshop.engine.wait(container)
    output: bytes = workshop.engine.logs(container)
    workshop.engine.remove_container(container, v=True)
    return output.decode()


def with_version(version: str) -> dict[str, Any]:
    return {"tool": {**MANIFEST, "package": {**MANIFEST["package"], "version": version}}}


@pytest.fixture
def workshop(engine: docker.APIClient, instance: str, place: Path) -> Iterator[Workshop]:
    made = Workshop(engine, instance, place)
    yield made
    made.remove()


@pytest.fixture
def built(workshop: Workshop) -> Workshop:
    """A workshop with its image."""
    assert workshop.build()["changed"]
    return workshop


def test_an_image_is_predicted_then_built_then_left_alone(workshop: Workshop) -> None:
    predicted = workshop.play(check=True)
    assert predicted["changed"]
    assert [action["action"] for action in predicted["actions"]] == ["build", "tag"]
    assert workshop.images() == []
    assert not (workshop.directory / "state").exists()

    made = workshop.play()
    assert made["changed"]
    assert made["image"]["context"] == predicted["image"]["context"]
    assert made["image"]["id"] == workshop.image_id
    assert made["image"]["agents"] == {"tool": "1.2.3"}
    assert workshop.image is not None
    labels = workshop.image["Config"]["Labels"]
    assert labels["agentbox.context"] == made["image"]["context"]
    assert labels["agentbox.agents"] == "tool=1.2.3"
    assert labels["agentbox.base"] == made["image"]["base"]
    assert "RUN printf" in workshop.progress.read_text(encoding="utf-8")

    for check in (False, True):
        again = workshop.play(check=check)
        assert not again["changed"]
        assert again["actions"] == []
        assert again["image"] == made["image"]


def test_a_touched_certificate_file_builds_nothing(workshop: Workshop) -> None:
    bundle = workshop.directory / "ca.pem"
    bundle.write_text(Path("/etc/ssl/certs/ca-certificates.crt").read_text(encoding="utf-8"), encoding="utf-8")
    workshop.options["ca_file"] = str(bundle)
    assert workshop.build()["changed"]
    os.utime(bundle, (0, 0))
    assert not workshop.build()["changed"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"build_args": {"WORD": "other"}}, "argument WORD is new"),
        ({"files": {**FILES, "marker.txt": "two\n"}}, "marker.txt changed"),
        ({"dockerfile": DOCKERFILE + "RUN true\n"}, "Dockerfile changed"),
        ({"manifests": with_version("1.2.4")}, "argument VERSION_TOOL changed"),
    ],
)
def test_what_goes_into_an_image_rebuilds_it(built: Workshop, options: dict[str, Any], reason: str) -> None:
    before = built.image_id
    predicted = built.build(check=True, **options)
    assert predicted["changed"]
    assert reason in predicted["actions"][0]["detail"]
    rebuilt = built.build(**options)
    assert reason in rebuilt["actions"][0]["detail"]
    assert rebuilt["image"]["context"] == predicted["image"]["context"]
    assert rebuilt["superseded"] == before
    assert set(built.images()) == {built.image_id, before}


def test_another_base_of_the_same_name_rebuilds_it(workshop: Workshop) -> None:
    workshop.options["base"] = f"{workshop.instance}-base:latest"
    client, base = workshop.engine, f"{workshop.instance}-base"
    label = f"LABEL {_naming.LABEL_INSTANCE}={workshop.instance}"
    standin = client.inspect_image(engines.IMAGE)["Id"]
    client.tag(standin, base, "latest")
    dockerfile = "ARG BASE\nFROM ${BASE}\nCOPY marker.txt /marker\n"
    options: dict[str, Any] = {"dockerfile": dockerfile, "agents": []}
    assert workshop.build(**options)["changed"]
    container = client.create_container(standin, command=["true"])["Id"]
    client.commit(container, repository=base, tag="latest", changes=[label])
    client.remove_container(container)
    rebuilt = workshop.build(**options)
    assert "base changed" in rebuilt["actions"][0]["detail"]
    assert not workshop.build(**options)["changed"]


def test_an_image_outlives_its_base(built: Workshop) -> None:
    record = built.directory / "state" / built.instance / f"image-{built.instance}_latest.json"
    content = json.loads(record.read_text(encoding="utf-8"))
    content["base"] = {"wanted": "gone.example/none:1", "source": "registry", "reference": "gone.example/none:1"}
    record.write_text(json.dumps(content), encoding="utf-8")
    assert not built.build(base="gone.example/none:1")["changed"]


def test_a_failed_build_names_step_and_output_and_keeps_the_image(built: Workshop) -> None:
    before = built.image_id
    failed = built.build(dockerfile=DOCKERFILE + "RUN echo about-to-fail; exit 7\n")
    assert failed["failed"]
    assert "RUN echo about-to-fail" in failed["msg"]
    assert "\nabout-to-fail\n" in failed["msg"]
    assert built.images() == [built.image_id] == [before]
    assert not built.build()["changed"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("RUN printf '#!/bin/sh\\nexit 1\\n' > /usr/local/bin/tool", ("failed with status 1", "ignore-scripts")),
        ("RUN printf '#!/bin/sh\\necho tool 9.9.9\\n' > /usr/local/bin/tool", ("tool 9.9.9 instead of 1.2.3",)),
        ("RUN printf '#!/bin/sh\\necho hello\\n' > /usr/local/bin/tool", ("named no version", "hello")),
        ("RUN rm /usr/local/bin/tool", ("is not there",)),
    ],
)
def test_an_image_that_does_not_work_is_not_put_into_use(built: Workshop, line: str, words: tuple[str, ...]) -> None:
    before = built.image_id
    failed = built.build(dockerfile=f"{DOCKERFILE}{line}\n")
    assert failed["failed"]
    for word in (*words, "the previous image stays in use"):
        assert word in failed["msg"]
    assert built.images() == [built.image_id] == [before]


def test_a_real_package_installed_without_its_native_part_is_detected(workshop: Workshop) -> None:
    """What npm calls success: no script run, no optional package, exit status 0, and a program that does not run."""
    program = "/opt/broken/node_modules/.bin/esbuild"
    standin = sites.manifests()["standin"]
    manifest = {**standin, "version": {**standin["version"], "argv": [program, "--version"]}}
    install = "npm install --prefix /opt/broken --ignore-scripts --omit=optional --cache /tmp/npm"
    dockerfile = (
        "ARG BASE\nFROM ${BASE}\nUSER root\nARG NPM_CONFIG_REGISTRY\nARG VERSION_STANDIN\n"
        f'RUN {install} esbuild@"${{VERSION_STANDIN}}"\nUSER agent\n'
    )
    failed = workshop.build(dockerfile=dockerfile, manifests={"standin": manifest}, agents=["standin"])
    assert failed["failed"]
    assert f"{program} --version failed with status 1" in failed["msg"]
    assert "omit=optional" in failed["msg"]
    assert workshop.image is None


def test_commands_besides_the_agents_are_verified(built: Workshop) -> None:
    failed = built.build(verify=[["true"], ["no-such-program", "--version"]], build_args={"WORD": "x"})
    assert failed["failed"]
    assert "no-such-program --version is not there" in failed["msg"]


def test_too_little_space_stops_before_the_build(built: Workshop) -> None:
    before = built.image_id
    for check in (True, False):
        failed = built.build(check=check, build_args={"WORD": "x"}, min_free="900t")
        assert failed["failed"]
        assert "921600.0 GiB (min_free)" in failed["msg"]
        assert built.engine.info()["DockerRootDir"] in failed["msg"]
    assert built.image_id == before


def test_the_free_space_is_the_file_systems(place: Path) -> None:
    with engines.mounted("tmpfs", place / "disk", options="size=1m,mode=0755") as disk:
        _image_guard.check_disk(str(disk), 1 << 10, "a build")
        with pytest.raises(EngineError, match=r"0\.0 GiB free, a build needs 1\.0 GiB"):
            _image_guard.check_disk(str(disk), 1 << 30, "a build")


def test_no_cache_builds_every_time(built: Workshop) -> None:
    before = built.image_id
    rebuilt = built.build(no_cache=True)
    assert "asked for" in rebuilt["actions"][0]["detail"]
    assert set(built.images()) == {built.image_id, before}
    assert built.image_id != before


def test_latest_is_asked_for_once_then_only_on_a_rebuild(workshop: Workshop) -> None:
    workshop.options["manifests"] = with_version("latest")
    assert workshop.build()["image"]["agents"] == {"tool": "1.2.3"}
    assert not workshop.build()["changed"]

    newer = {**FILES, "latest.txt": "1.2.4\n"}
    assert workshop.build(files=newer)["image"]["agents"] == {"tool": "1.2.3"}
    assert workshop.build(files=newer, no_cache=True)["image"]["agents"] == {"tool": "1.2.4"}

    offline = workshop.build(files={**FILES, "latest.txt": "unreachable\n"}, no_cache=True)
    assert offline["image"]["agents"] == {"tool": "1.2.4"}
    assert "tool stays at 1.2.4" in offline["warnings"][0]


def test_latest_that_was_never_known_cannot_be_guessed(workshop: Workshop) -> None:
    failed = workshop.build(manifests=with_version("latest"), files={**FILES, "latest.txt": "unreachable\n"})
    assert failed["failed"]
    assert "grep -q" in failed["msg"]
    assert workshop.images() == []


def test_a_proxys_password_is_shown_nowhere(workshop: Workshop) -> None:
    proxy = {"http_proxy": f"http://user:{CANARY}@127.0.0.1:9", "no_proxy": "files.example"}
    # Named after the instance, because a step that the engine has cached prints nothing.
    dockerfile = DOCKERFILE + f'RUN echo "{workshop.instance} by $HTTP_PROXY, not for $NO_PROXY"\n'
    done = workshop.build(dockerfile=dockerfile, proxy=proxy)
    progress = workshop.progress.read_text(encoding="utf-8")
    assert "by http://***@127.0.0.1:9, not for files.example,localhost,127.0.0.1,::1" in progress
    history = json.dumps(workshop.engine.history(workshop.tag))
    inspected = json.dumps(workshop.image)
    failed = workshop.build(dockerfile=dockerfile + 'RUN echo "$http_proxy"; exit 1\n', proxy=proxy)
    assert failed["failed"]
    for text in (json.dumps(done), progress, history, inspected, failed["msg"]):
        assert CANARY not in text


def test_absent_removes_the_own_image_only(built: Workshop, instance: str) -> None:
    foreign = built.build(state="absent", instance=f"{instance}-other")
    assert not foreign["changed"]
    assert "left alone" in foreign["warnings"][0]
    assert built.build(state="absent", check=True)["changed"]
    assert built.image is not None
    removed = built.build(state="absent")
    assert [action["action"] for action in removed["actions"]] == ["remove"]
    assert built.images() == []
    assert not list((built.directory / "state" / instance).glob("image-*"))
    assert not built.build(state="absent")["changed"]


def test_an_engine_that_will_be_installed_is_predicted_from(workshop: Workshop) -> None:
    prefix = engines.without_engine(workshop.directory)
    args = {
        "name": workshop.tag,
        "dockerfile": DOCKERFILE,
        "manifests": {"tool": MANIFEST},
        "agents": ["tool"],
        "state_root": str(workshop.directory / "state"),
    }
    tasks = [
        runs.module_task("image", {**args, "engine_absent": "predict"}),
        runs.module_task("image", args),
        runs.module_task("image", {**args, "state": "absent"}),
    ]
    predicted, failed, absent = runs.play(tasks, check=True, prefix=prefix).results
    assert predicted["changed"]
    assert predicted["image"]["agents"] == {"tool": "1.2.3"}
    assert "no engine is installed" in failed["msg"]
    assert not absent["changed"]
    assert "failed" not in absent


def test_of_two_runs_at_once_one_builds_and_the_other_waits(workshop: Workshop) -> None:
    dockerfile = DOCKERFILE + "RUN sleep 5\n"
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: workshop.build(dockerfile=dockerfile), range(2)))
    assert sorted(result["changed"] for result in results) == [False, True]
    assert len(workshop.images()) == 1


def test_the_role_takes_lists_as_people_write_them_and_names_what_is_wrong(workshop: Workshop) -> None:
    common = {
        "image_instance": workshop.instance,
        "image_state_root": str(workshop.directory / "state"),
        "image_manifests": {"standin": sites.manifests()["standin"]},
    }
    cases: list[dict[str, Any]] = [
        {"image_agents": "standin, claude", "image_packages": None},
        {"image_agents": [], "image_packages": "golang"},
        {"image_agents": ["nope"]},
        {"image_manifests": {"claude": {"pakage": {}}}},
    ]
    tasks = [runs.role_task("image", {**common, **case}) for case in cases]
    results = [result for result in runs.play(tasks, check=True).results if "Build" in result["task"]]
    agents = [sorted(result["image"]["agents"]) for result in results[:2]]
    assert agents == [["claude", "standin"], []]
    assert all(result["changed"] for result in results[:2])
    assert "agents[0]: there is no manifest named 'nope' (known: claude, standin)" in results[2]["msg"]
    assert "manifests.claude: unknown key 'pakage', did you mean 'package'?" in results[3]["msg"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": ["tol"]}, "agents[0]: there is no manifest named 'tol' (known: tool)"),
        ({"agents": ["tool", "tool"]}, "agents[1]: 'tool' is named twice"),
        ({"build_args": {"WORD": 5}}, "build_args.WORD: must be a string, not the number 5; quote it"),
        ({"min_free": "much"}, "min_free: must be a size such as 512m or 4g, not 'much'"),
        ({"instance": "Not Valid"}, "instance: 'Not Valid' is no valid name"),
        ({"ca_file": "/nonexistent.pem"}, "ca_file: cannot read the certificates in /nonexistent.pem"),
        ({"ca_file": "/etc/hostname"}, "ca_file: /etc/hostname holds no certificate in PEM form"),
        ({"proxy": {"htp_proxy": "x"}}, "proxy.htp_proxy: unknown key"),
        ({"base": "alpine:3", "base_source": "debootstrap"}, "base: alpine:3 is no Debian image"),
    ],
)
def test_bad_input_names_its_option(workshop: Workshop, options: dict[str, Any], message: str) -> None:
    failed = workshop.build(**options)
    assert failed["failed"]
    assert message in failed["msg"]
    assert workshop.images() == []


def test_a_link_in_the_place_of_the_record_is_refused(built: Workshop) -> None:
    record = built.directory / "state" / built.instance / f"image-{built.instance}_latest.json"
    victim = built.directory / "victim"
    victim.write_text("precious", encoding="utf-8")
    record.unlink()
    record.symlink_to(victim)
    failed = built.build(build_args={"WORD": "x"})
    assert failed["failed"]
    assert f"{record} is a symbolic link" in failed["msg"]
    assert victim.read_text(encoding="utf-8") == "precious"


@pytest.fixture
def connected() -> Iterator[_engine.Engine]:
    found = _engine.connect()
    yield found
    found.close()


@pytest.fixture(params=["buildkit", "classic"])
def builder(request: pytest.FixtureRequest, connected: _engine.Engine) -> _build.Builder:
    return _build.find_builder(connected) if request.param == "buildkit" else _build.Classic(connected)


def test_both_builders_build_and_explain_alike(workshop: Workshop, builder: _build.Builder) -> None:
    lines: list[str] = []
    build = _build.Build(
        "ARG BASE\nFROM ${BASE} AS first\nUSER root\nARG WORD\n"
        "RUN echo said-$WORD-by-$http_proxy > /said && cat /said\nFROM ${BASE}\nCOPY --from=first /said /said\n",
        {},
        arguments={"BASE": engines.IMAGE, "WORD": secrets.token_hex(4)},
        labels={_naming.LABEL_INSTANCE: workshop.instance},
        proxy={"http_proxy": f"http://user:{CANARY}@proxy.example:9"},
        network="none",
    )
    image_id = builder.build(build, lines.append).image_id
    assert workshop.images() == [image_id]
    assert any("[first" in line and "RUN echo said-" in line for line in lines)
    assert f"build: said-{build.arguments['WORD']}-by-http://***@proxy.example:9" in lines

    broken = _build.Build(build.dockerfile + "RUN echo E: no space left on device; exit 3\n", {}, build.arguments)
    with pytest.raises(BuildError) as caught:
        builder.build(broken, lines.append)
    assert "RUN echo E: no space" in caught.value.message
    assert "\nE: no space left on device\n" in caught.value.message
    assert "Free space" in caught.value.hint


def test_credentials_of_package_sources_reach_a_build_and_no_layer(
    workshop: Workshop, connected: _engine.Engine
) -> None:
    secret = _sources.Secret("/root/.npmrc", f"//files.example/:_authToken={CANARY}\n", (CANARY,))
    build = _build.Build(
        "ARG BASE\nFROM ${BASE}\nUSER root\nRUN cat /root/.npmrc && test -s /root/.npmrc\nRUN test -s /root/.npmrc\n",
        {},
        arguments={"BASE": engines.IMAGE},
        labels={_naming.LABEL_INSTANCE: workshop.instance},
        secrets={"npm": secret},
        no_cache=True,
    )
    lines: list[str] = []
    image_id = _build.find_builder(connected).build(build, lines.append).image_id
    assert "build: //files.example/:_authToken=***" in lines
    kept = output_of(workshop, image_id, "cat /root/.npmrc")
    history = json.dumps(workshop.engine.history(image_id))
    assert CANARY not in kept + history
    with pytest.raises(BuildError, match="npm hold credentials, which only BuildKit can use"):
        _build.Classic(connected).build(build, lines.append)


def test_a_base_is_made_from_the_hosts_own_packages(workshop: Workshop, connected: _engine.Engine) -> None:
    wanted = _base.Base("debian:bookworm-slim", "debootstrap", f"{workshop.instance}-base:bookworm")
    debian = _sources.read("bookworm", os.environ).debian
    lines: list[str] = []
    try:
        base, base_id = _base.obtain(connected, [wanted], debian, os.environ, lines.append)
        assert base == wanted
        assert any("Extracting" in line for line in lines)
        output = output_of(workshop, base_id, "cat /etc/os-release; ls /etc/ssl/certs")
    finally:
        workshop.engine.remove_image(wanted.reference, force=True)
    assert "VERSION_CODENAME=bookworm" in output
    assert "ca-certificates.crt" in output


def test_no_way_to_a_base_says_what_was_tried(connected: _engine.Engine) -> None:
    ways = _base.ways("registry.invalid/debian:bullseye-slim", "auto", None, set())
    with pytest.raises(_base.BaseError) as caught:
        _base.obtain(connected, ways, [], os.environ, lambda _: None)
    assert "pull registry.invalid/debian:bullseye-slim" in caught.value.message
    assert "no http(s) APT source of this host has bullseye" in caught.value.message
