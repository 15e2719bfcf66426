"""Images on a real engine: built by content, proven before use, and never at the cost of the one in use."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.agentbox.fleet.plugins.module_utils import (
    _naming,
)

from tests.hosts import base_image
from tests.integration import engines, runs, sites
from tests.integration.workshops import CANARY, DOCKERFILE, FILES, MANIFEST, Workshop, output_of, with_version


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


def test_no_cache_builds_every_time(built: Workshop) -> None:
    before = built.image_id
    rebuilt = built.build(no_cache=True)
    assert "asked for" in rebuilt["actions"][0]["detail"]
    assert set(built.images()) == {built.image_id, before}
    assert built.image_id != before


def test_latest_is_asked_for_once_then_only_if_wanted(workshop: Workshop) -> None:
    workshop.options["manifests"] = with_version("latest")
    assert workshop.build()["image"]["agents"] == {"tool": "1.2.3"}
    assert not workshop.build()["changed"]
    assert not workshop.build(refresh=True)["changed"]

    newer = {**FILES, "latest.txt": "1.2.4\n"}
    assert workshop.build(files=newer)["image"]["agents"] == {"tool": "1.2.3"}
    assert workshop.build(files=newer, refresh=True)["image"]["agents"] == {"tool": "1.2.4"}

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


def test_an_image_of_another_maker_keeps_its_tag(workshop: Workshop) -> None:
    container = workshop.engine.create_container(engines.IMAGE)["Id"]
    labels = [f"LABEL {label}=" for label in (_naming.LABEL_INSTANCE, _naming.LABEL_MANAGED)]
    foreign = workshop.engine.commit(container, workshop.instance, "latest", changes=labels)["Id"]
    workshop.engine.remove_container(container)
    try:
        for options in ({}, {"check": True}):
            failed = workshop.build(**options)
            assert f"{workshop.tag} is an image that Agentbox did not make" in failed["msg"]
        assert workshop.image_id == foreign
    finally:
        workshop.engine.remove_image(workshop.tag)


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
    results = [result for result in runs.play(tasks, check=True).results if result["task"] == "Build | Build the image"]
    agents = [sorted(result["image"]["agents"]) for result in results[:2]]
    assert agents == [["claude", "standin"], []]
    assert all(result["changed"] for result in results[:2])
    assert "agents[0]: there is no manifest named 'nope' (known: claude, codex, standin)" in results[2]["msg"]
    assert "manifests.claude: unknown key 'pakage', did you mean 'package'?" in results[3]["msg"]


@pytest.mark.full
def test_the_role_builds_on_an_own_base_with_own_packages_and_lines(workshop: Workshop) -> None:
    """A base with a user of its own that has the number of every image's user, as those of Node and Ubuntu do."""
    base = f"{workshop.instance}-base"
    labels = {_naming.LABEL_INSTANCE: workshop.instance}
    add_user = ["useradd", "--uid=1000", "--create-home", "node"]
    container = workshop.engine.create_container(base_image("debian-12"), command=add_user, labels=labels)["Id"]
    workshop.engine.start(container)
    workshop.engine.wait(container)
    workshop.engine.commit(container, base, "latest", changes=["ENV FROM_BASE=yes"])
    workshop.engine.remove_container(container)
    variables = {
        "image_instance": workshop.instance,
        "image_state_root": str(workshop.directory / "state"),
        "image_agents": [],
        "image_base": f"{base}:latest",
        "image_packages": "sqlite3",
        "image_snippet": "ARG WORD\nRUN echo $WORD > /own\n",
        "image_build_args": {"WORD": "own"},
    }
    made = runs.play([runs.role_task("image", variables)]).result("Build | Build the image")
    script = "id -un 1000; cat /own; echo $FROM_BASE; sqlite3 :memory: 'select 7'; ls /home"
    assert output_of(workshop, made["image"]["id"], script).split() == ["agent", "own", "yes", "7", "agent"]
