"""One host builds and pushes, the others pull by digest: proven before use, with a login that shows nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.hosts import base_image
from tests.integration import engines, registries, runs
from tests.integration.conftest import Instances
from tests.integration.workshops import MANIFEST, SMALL, Workshop, with_version

PASSWORD = "canary-of-a-registry"  # noqa: S105
UNKNOWN = f"sha256:{'0' * 64}"
LOGIN = {"registry_username": registries.USER, "registry_password": PASSWORD}


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with registries.registry(PASSWORD) as address:
        yield address


@pytest.fixture(scope="module")
def builder(
    engine: docker.APIClient, new_instance: Instances, module_place: Path, registry: str
) -> Iterator[tuple[Workshop, runs.Run]]:
    """A host that has built and pushed, and how that looked at the highest verbosity."""
    instance = new_instance()
    options = {"dockerfile": SMALL, "base": base_image("debian-12"), "repository": f"{registry}/{instance}", **LOGIN}
    made = Workshop(engine, instance, module_place, options)
    run = runs.play([runs.module_task("image", made.arguments())], diff=True, verbosity=3)
    yield made, run
    made.remove()


@pytest.fixture
def puller(builder: tuple[Workshop, runs.Run], place: Path) -> Iterator[Workshop]:
    """Another host: with a state of its own, and without the image (which the tests' one engine has to forget)."""
    built, _ = builder
    built.remove()
    options = {"source": "registry", "repository": built.options["repository"], **LOGIN}
    made = Workshop(built.engine, built.instance, place, options)
    yield made
    made.remove()


def actions(result: runs.Result) -> list[str]:
    return [action["action"] for action in result["actions"]]


def test_what_the_builder_pushed_another_host_pulls(builder: tuple[Workshop, runs.Run], puller: Workshop) -> None:
    [pushed] = builder[1].results
    assert actions(pushed) == ["build", "verify", "tag", "push"]

    predicted = puller.build(check=True)
    assert actions(predicted) == ["pull", "tag"]
    assert puller.images() == []
    assert not (puller.directory / "state").exists()

    pulled = puller.build()
    assert actions(pulled) == ["pull", "verify", "tag"]
    assert pulled["actions"][0]["detail"] == f"{puller.options['repository']}@{pushed['image']['digest']}"
    assert pulled["image"]["context"] == pushed["image"]["context"]
    assert pulled["image"]["agents"] == {"tool": "1.2.3"}
    assert puller.image is not None
    assert puller.image["Config"]["Labels"]["agentbox.context"] == pushed["image"]["context"]
    assert puller.image["RepoTags"] == [puller.tag]
    for check in (False, True):
        assert not puller.build(check=check)["changed"]


def test_the_login_shows_nowhere(builder: tuple[Workshop, runs.Run], puller: Workshop) -> None:
    tasks = [runs.module_task("image", puller.arguments(**options)) for options in ({}, {"digest": UNKNOWN})]
    run = runs.play(tasks, diff=True, verbosity=3)
    assert [result["changed"] for result in run.results] == [True, False]
    files = engines.files_below(puller.directory, builder[0].directory)
    history = json.dumps(puller.engine.history(puller.tag))
    for text in (builder[1].output, run.output, json.dumps(files), history):
        assert PASSWORD not in text
    assert not Path.home().joinpath(".docker", "config.json").exists()


def test_a_builder_pushes_once_to_each_place(builder: tuple[Workshop, runs.Run], puller: Workshop) -> None:
    built = replace(builder[0], directory=puller.directory)
    assert actions(built.build())[-1] == "push"
    assert not built.build()["changed"]
    other = f"{built.options['repository']}:other"
    assert actions(built.build(repository=other, check=True)) == ["push"]


def test_a_wrong_login_is_told_and_the_image_stays(puller: Workshop) -> None:
    puller.build()
    before = puller.image_id
    failed = puller.build(registry_password="wrong", digest=UNKNOWN)  # noqa: S106
    assert "Check user and password of the registry" in failed["msg"]
    assert puller.images() == [puller.image_id] == [before]


def test_an_unknown_tag_asks_for_the_builder(puller: Workshop) -> None:
    failed = puller.build(repository=f"{puller.options['repository']}-none")
    assert "there is no image" in failed["msg"]
    assert "Run the builder first" in failed["msg"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"manifests": with_version("1.2.4")}, "it holds tool 1.2.3 instead of 1.2.4"),
        ({"verify": [["no-such-program"]]}, "no-such-program is not there"),
    ],
)
def test_an_image_that_is_not_what_is_declared_gets_no_tag(
    puller: Workshop, options: dict[str, Any], reason: str
) -> None:
    failed = puller.build(**options)
    assert reason in failed["msg"]
    assert puller.image is None
    assert puller.images() == []


def push_debian(engine: docker.APIClient, repository: str) -> str:
    """Push the base of all tests; its digest. The tag is gone from the engine."""
    engine.tag(base_image("debian-12"), repository, "latest")
    auth = {"username": registries.USER, "password": PASSWORD}
    events = list(engine.push(repository, "latest", auth_config=auth, stream=True, decode=True))
    engine.remove_image(f"{repository}:latest")
    return next(str(event["aux"]["Digest"]) for event in events if "aux" in event)


def test_an_own_base_is_pulled_from_the_same_registry(
    engine: docker.APIClient, puller: Workshop, registry: str
) -> None:
    repository = f"{registry}/debian"
    base = f"{repository}@{push_debian(engine, repository)}"
    own = f"{puller.options['repository']}:own"
    options = {"source": "build", "base": base, "base_source": "registry", "dockerfile": SMALL, "repository": own}
    try:
        made = puller.build(**options)
        assert f"base: pulling {base}" in puller.progress.read_text(encoding="utf-8")
        assert made["image"]["base"] == engine.inspect_image(base)["Id"]
        assert actions(made)[-1] == "push"
    finally:
        engine.remove_image(base)


def test_an_image_of_another_maker_gets_no_tag(engine: docker.APIClient, puller: Workshop, registry: str) -> None:
    repository = f"{registry}/foreign"
    push_debian(engine, repository)
    failed = puller.build(repository=repository)
    assert "it was made for no instance of Agentbox" in failed["msg"]
    assert "label agentbox.context" in failed["msg"]
    assert puller.image is None
    assert not [image for image in engine.images() if f"{repository}:latest" in (image["RepoTags"] or [])]


def test_what_the_builder_is_yet_to_make_is_predicted(puller: Workshop) -> None:
    puller.build()
    predicted = puller.build(check=True, awaited=True)
    assert predicted["actions"][0] == {"action": "pull", "detail": "what the builder is yet to make"}
    assert not puller.build(awaited=True)["changed"]


def test_a_pull_needs_room_too(puller: Workshop) -> None:
    for check in (True, False):
        failed = puller.build(check=check, min_free="900t")
        assert "a pull needs 921600.0 GiB (min_free)" in failed["msg"]
    assert puller.images() == []


def test_the_role_pulls_what_the_tag_means_when_the_builder_takes_no_part(puller: Workshop) -> None:
    variables = {
        "agentbox_instance": puller.instance,
        "agentbox_image_distribution": "registry",
        "agentbox_image_builder": "elsewhere.example",
        "agentbox_image_repository": puller.options["repository"],
        "agentbox_image_registry_username": registries.USER,
        "agentbox_image_registry_password": PASSWORD,
        "agentbox_image_min_free": "1m",
        "agentbox_manifests": {"tool": MANIFEST},
        "agentbox_agents": ["tool"],
        "agentbox_state_root": str(puller.directory / "state"),
    }
    done = runs.play([runs.role_task("image", {})] * 2, variables=variables, verbosity=3)
    first, second = [result for result in done.results if result["task"] == "Pull | Pull the image"]
    assert actions(first) == ["pull", "verify", "tag"]
    assert not second["changed"]
    assert PASSWORD not in done.output


@pytest.mark.full
def test_the_role_lets_the_engine_trust_a_registrys_authority(
    engine: docker.APIClient, puller: Workshop, place: Path
) -> None:
    """On the bridge's own address, because engines check no certificate on loopback."""
    gateway = engine.inspect_network("bridge")["IPAM"]["Config"][0]["Gateway"]
    tls = registries.certificate(place, gateway)
    with registries.registry(PASSWORD, gateway, tls) as address:
        repository = f"{address}/{puller.instance}"
        build = {"source": "build", "dockerfile": SMALL, "base": base_image("debian-12"), "repository": repository}
        untrusted = puller.build(**build)
        assert "certificate" in untrusted["msg"]
        assert "image_registry_ca_file" in untrusted["msg"]
        variables = {
            "image_instance": puller.instance,
            "image_distribution": "registry",
            "image_repository": repository,
            "image_registry_username": registries.USER,
            "image_registry_password": PASSWORD,
            "image_registry_ca_file": str(place / "ca.pem"),
            "image_state_root": str(puller.directory / "state"),
            "image_agents": ["tool"],
            "image_manifests": {"tool": MANIFEST},
        }
        trusted = Path("/etc/docker/certs.d", address)
        try:
            asked = runs.play([runs.role_task("image", variables)])
            assert "there is no image" in asked.result("Pull | Pull the image")["msg"]
            assert puller.build(**build)["changed"]
        finally:
            removed = runs.play([runs.role_task("image", {**variables, "image_state": "absent"})] * 2)
        assert [result["changed"] for result in removed.results if "trust" in result["task"]] == [True, False]
        assert list(trusted.iterdir()) == []
        trusted.rmdir()
