"""What keeps an image from being used says so, and leaves the one in use."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.agentbox.fleet.plugins.module_utils import (
    _image_guard,
)
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import EngineError

from tests.integration import engines, sites
from tests.integration.workshops import DOCKERFILE, Workshop


def test_a_failed_build_names_step_and_output_and_keeps_the_image(built: Workshop) -> None:
    before = built.image_id
    failed = built.build(dockerfile=DOCKERFILE + "RUN echo about-to-fail; exit 7\n")
    assert failed["failed"]
    assert "RUN echo about-to-fail" in failed["msg"]
    assert "\nabout-to-fail\n" in failed["msg"]
    assert built.images() == [built.image_id] == [before]
    assert not built.build()["changed"]


def test_a_failed_build_names_the_missing_tool_and_the_own_line(built: Workshop) -> None:
    before = built.image_id
    snippet = "# ours\nRUN true; \\\n    true\nRUN no-such-tool --version"
    failed = built.build(dockerfile=f"{DOCKERFILE}{snippet}\nUSER agent\n", snippet=snippet)
    assert "line 4 of the image's own lines (image_snippet); no-such-tool is not in the image" in failed["msg"]
    assert "Name the package that brings no-such-tool in image_packages" in failed["msg"]
    misspelt = "RUN true\nRNU true"
    failed = built.build(dockerfile=f"{DOCKERFILE}{misspelt}\n", snippet=misspelt)
    assert "line 2 of the image's own lines (image_snippet)" in failed["msg"]
    assert built.images() == [built.image_id] == [before]


def test_a_base_without_apt_is_refused_by_name(workshop: Workshop) -> None:
    """A system of other packages, as far as it can be told apart: its name and no apt-get."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        content = b'ID=other\nPRETTY_NAME="Other Linux v3"\n'
        entry = tarfile.TarInfo("etc/os-release")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    base = f"{workshop.instance}-base"
    archive.seek(0)
    workshop.engine.import_image_from_data(archive.getvalue(), repository=base, tag="latest")
    try:
        failed = workshop.build(base=f"{base}:latest")
    finally:
        workshop.engine.remove_image(f"{base}:latest")
    assert f"base: {base}:latest is Other Linux v3 without apt-get" in failed["msg"]
    assert "e.g. debian:bookworm-slim" in failed["msg"]
    assert workshop.images() == []


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
