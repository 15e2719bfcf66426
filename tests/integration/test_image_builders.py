"""Builders and base images: what they are asked for, and what they leave in no layer."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator

import pytest
from ansible_collections.agentbox.fleet.plugins.module_utils import (
    _base,
    _build,
    _engine,
    _image_plan,
    _image_types,
    _image_use,
    _naming,
    _sources,
)
from ansible_collections.agentbox.fleet.plugins.module_utils._buildlog import BuildError

from tests.integration import engines
from tests.integration.workshops import CANARY, Workshop, output_of


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


def test_the_classic_builders_old_stages_are_removed(workshop: Workshop, connected: _engine.Engine) -> None:
    """Its cache has no labels, so the record knows what the last build has left."""
    state = workshop.directory / "state"
    state.mkdir()
    request = _image_types.Request(workshop.tag, workshop.instance, str(state))
    labels = {_naming.LABEL_INSTANCE: workshop.instance, _naming.LABEL_MANAGED: "true"}
    first = "ARG BASE\nFROM ${BASE} AS first\nARG WORD\nRUN echo $WORD > /tmp/word\n"
    dockerfile = f"{first}FROM ${{BASE}}\nCOPY --from=first /tmp/word /\n"
    stages = []
    for word in (secrets.token_hex(4), secrets.token_hex(4)):
        build = _build.Build(dockerfile, {}, {"BASE": engines.IMAGE, "WORD": word}, labels)
        built = _build.Classic(connected).build(build, lambda _: None)
        record = _image_plan.Record(workshop.tag, stages=tuple(built.stages))
        _image_use.put_into_use(connected, request, built.image_id, _image_use.live(connected, workshop.tag), record)
        stages += built.stages
    assert len(stages) == 2
    assert [bool(connected.inspect_image(stage)) for stage in stages] == [False, True]
    connected.client.remove_image(stages[1])


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


@pytest.mark.full  # "make test" makes one in its setup and on the fresh machine of its end-to-end tests
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
