#!/usr/bin/python
"""Build the image of an instance, go back to the one before, or remove it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: image
short_description: Have the image that boxes are made from
version_added: 0.1.0
description:
  - Builds an image from a Dockerfile and its files when it differs from what is there. What counts are contents, build
    arguments, the base image, the host's certificates and package sources; a touched file builds nothing.
  - The base image is chosen once and kept; it is pulled, or made from the host's own APT sources where there is no
    registry.
  - The new image is proven in a throwaway container before it gets the tag. A build or a proof that fails leaves the
    previous image in use.
  - The image that was in use before is kept as C(<name>:previous) (as C(<name>:<tag>-previous) when the tag is not
    C(latest)). Older ones are removed unless a container uses them.
  - Instead of building it, a host can take the image that another host has built, from a registry by its digest or from
    an archive by its checksum. It gets the tag when it is of the same instance, fits the machine and passes the same
    proof. Its labels are the builder's, so boxes made from it are the same.
  - BuildKit is used where a docker client with a working one is found, else the classic builder of the engine.
extends_documentation_fragment:
  - agentbox.fleet.engine
  - agentbox.fleet.common.instance
  - agentbox.fleet.common.progress
  - agentbox.fleet.common.state_root
  - agentbox.fleet.attributes
attributes:
  check_mode:
    support: full
    details:
      - What a build would produce from a base image that is yet to be had can't be told before; the module then
        predicts that it builds, without the digest.
      - What another host is yet to build can't be told either, see O(awaited).
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - With O(no_cache=true) it builds every time.
options:
  name:
    description:
      - Tag of the image. Without a version it gets C(latest).
    type: str
    required: true
  state:
    description:
      - V(present) for an image that is what the options say.
      - V(previous) for the image that was in use before the last one, which a failed upgrade goes back to. It fails
        where there is none; a second run changes nothing. A later run with V(present) builds what its options say.
      - V(absent) removes it with the ones that were kept, if they were made for O(instance).
    type: str
    choices: [present, previous, absent]
    default: present
  dockerfile:
    description:
      - Content of the Dockerfile. Required with O(state=present) and O(source=build).
      - It has to start C(FROM ${BASE}), and has C(host/ca-bundle.crt) (the host's certificates) and C(host/apt.list)
        (the host's APT sources for the base, may be empty) in its context.
      - For each agent it gets the build argument C(VERSION_<NAME>). With a version C(latest) it needs a stage
        C(latest-<name>) that leaves the number in C(/latest).
    type: str
  files:
    description: The other files of the build context, path to text.
    type: dict
    default: {}
  manifests:
    description: Manifests of all known agents, name to manifest.
    type: dict
    default: {}
  agents:
    description: Names of the agents that the image has to hold.
    type: list
    elements: str
    default: []
  verify:
    description: Commands that have to succeed in the image besides the version commands of the agents.
    type: list
    elements: list
    default: []
  base:
    description:
      - The base image, one that derives from Debian. With a digest (C(name@sha256:...)) it never changes by itself.
      - The login of the registry is also used for a base of the same registry.
    type: str
    default: debian:bookworm-slim
  base_source:
    description:
      - Where the base image comes from when the engine does not have it.
      - V(auto) tries the registry first, then debootstrap. Whatever it took the first time stays.
    type: str
    choices: [auto, registry, debootstrap]
    default: auto
  source:
    description:
      - V(build) builds the image here.
      - V(registry) pulls it from O(repository), V(archive) loads it from O(archive).
    type: str
    choices: [build, registry, archive]
    default: build
  repository:
    description:
      - Repository of a registry, with a tag if it is not C(latest), for example C(registry.example/agentbox).
      - With O(source=build) the image is pushed there, with O(source=registry) it is pulled from there.
    type: str
  digest:
    description:
      - With O(source=registry) the digest of the image; without it what the tag of O(repository) means in the registry.
    type: str
  registry_username:
    description: User of the registry. Without it what the Docker configuration of the user running the module says.
    type: str
  registry_password:
    description: Password of the registry. It is handed to the engine and written nowhere.
    type: str
  save:
    description: With O(source=build) save the image as a compressed archive in the instance's state directory.
    type: bool
    default: false
  archive:
    description:
      - With O(source=archive) the file to load. Needed only when the image is not there yet, which check mode tells
        without the file.
    type: path
  checksum:
    description: Checksum of the archive, as RV(image.archive) has it after the run that saved it. It names the image.
    type: str
  awaited:
    description: In check mode, the image is yet to be built by another host, so that its digest is not known.
    type: bool
    default: false
  snippet:
    description: The user's own lines in O(dockerfile). A build that fails in them says in which line of theirs.
    type: str
  build_args:
    description: Build arguments. They can be read from the image, so they must not be secret.
    type: dict
    default: {}
  build_network:
    description: Network of the build, for example V(host). Without it the engine's default.
    type: str
  refresh:
    description:
      - Ask anew for the latest versions of agents whose manifest says V(latest), and build if there is a newer one.
        Where nobody answers, the known version stays, with a warning. Check mode does not ask.
    type: bool
    default: false
  no_cache:
    description: Build even if nothing differs, without any cache, and ask for the latest versions anew.
    type: bool
    default: false
  min_free:
    description:
      - What has to be free on the disk of the engine's data before an image is built, pulled or loaded.
    type: str
    default: 5g
  keep:
    description:
      - How many images that were in use before are kept when another one comes into use. With V(0) there is no way
        back, see O(state=previous).
    type: int
    default: 1
  ca_file:
    description:
      - File with the certificates that the image shall trust, in PEM form. Only certificates are taken from it.
      - Without it the file that E(SSL_CERT_FILE), E(REQUESTS_CA_BUNDLE) or E(CURL_CA_BUNDLE) names, else the system's.
    type: path
  proxy:
    description:
      - Proxy of the build, with the keys C(http_proxy), C(https_proxy), C(all_proxy) and C(no_proxy).
      - Without it the proxy variables of the module's environment. Nothing of it stays in the image.
    type: dict
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Build an image with one agent
  agentbox.fleet.image:
    name: agentbox:latest
    dockerfile: "{{ lookup('ansible.builtin.template', 'Dockerfile.j2') }}"
    files: "{{ lookup('agentbox.fleet.image_files') }}"
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"
    agents: [claude]

- name: Build it anew with today's packages
  agentbox.fleet.image:
    name: agentbox:latest
    dockerfile: "{{ lookup('ansible.builtin.template', 'Dockerfile.j2') }}"
    files: "{{ lookup('agentbox.fleet.image_files') }}"
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"
    agents: [claude]
    no_cache: true

- name: Build it once and push it
  agentbox.fleet.image:
    name: agentbox:latest
    dockerfile: "{{ lookup('ansible.builtin.template', 'Dockerfile.j2') }}"
    files: "{{ lookup('agentbox.fleet.image_files') }}"
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"
    agents: [claude]
    repository: registry.example/agentbox
    registry_username: builder
    registry_password: "{{ registry_password }}"

- name: Take it from there
  agentbox.fleet.image:
    name: agentbox:latest
    source: registry
    repository: registry.example/agentbox
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"
    agents: [claude]

- name: Go back to the image that was in use before
  agentbox.fleet.image:
    name: agentbox:latest
    state: previous

- name: Remove it
  agentbox.fleet.image:
    name: agentbox:latest
    state: absent
"""

RETURN = r"""
image:
  description: The image as it is after the run, or in check mode would be; null when there is none.
  returned: always
  type: dict
  contains:
    id:
      description: ID of the image, empty as long as it is not built.
      type: str
      sample: sha256:9b2f
    name:
      description: Its tag.
      type: str
      sample: agentbox:latest
    context:
      description: Digest of everything that it was built from; empty where that can't be known before.
      type: str
      sample: sha256:1f0c
    base:
      description: ID of its base image.
      type: str
      sample: sha256:77aa
    agents:
      description: Versions of its agents.
      type: dict
      sample: {claude: 2.1.332}
    size:
      description: Its size in bytes with the layers that it shares with others; 0 before it is built.
      type: int
      sample: 1093847211
    digest:
      description: With O(repository) what the registry calls it; empty before it is pushed.
      type: str
      sample: sha256:5e1d
    archive:
      description:
        - With O(save=true) the archive, with its C(path), C(checksum) and C(size) in bytes; null before it is saved.
      type: dict
      sample: {path: /var/lib/agentbox/agentbox/image-agentbox_latest.tar.gz, checksum: "sha256:88d0", size: 391847211}
superseded:
  description: ID of the image that lost the tag in this run; empty when none did, and in check mode.
  returned: always
  type: str
  sample: sha256:1c77
actions:
  description: What was done, or in check mode would be done, in order.
  returned: always
  type: list
  elements: dict
  contains:
    action:
      description:
        - One of C(build), C(pull), C(load), C(verify), C(tag), C(keep), C(prune), C(push), C(save), C(remove).
      type: str
    detail:
      description: Why, or what.
      type: str
  sample: [{action: build, detail: "from debian:bookworm-slim: Dockerfile changed"}]
"""

import os
import re
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import (
    _engine,
    _image,
    _image_fetch,
    _image_use,
    _manifests,
    _naming,
    _proxy,
    _registry,
    _values,
)
from ansible_collections.agentbox.fleet.plugins.module_utils._base import SOURCES
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import (
    AgentboxError,
    DeclarationError,
)
from ansible_collections.agentbox.fleet.plugins.module_utils._image_types import Image, Request, Result
from ansible_collections.agentbox.fleet.plugins.module_utils._progress import file_reporter

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    **_engine.ENGINE_OPTIONS,
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "previous", "absent"], "default": "present"},
    "instance": {"type": "str", "default": _naming.DEFAULT_INSTANCE},
    "dockerfile": {"type": "str"},
    "files": {"type": "dict", "default": {}},
    "manifests": {"type": "dict", "default": {}},
    "agents": {"type": "list", "elements": "str", "default": []},
    "verify": {"type": "list", "elements": "list", "default": []},
    "base": {"type": "str", "default": "debian:bookworm-slim"},
    "base_source": {"type": "str", "choices": list(SOURCES), "default": "auto"},
    "source": {"type": "str", "choices": ["build", "registry", "archive"], "default": "build"},
    "repository": {"type": "str"},
    "digest": {"type": "str"},
    "registry_username": {"type": "str"},
    "registry_password": {"type": "str", "no_log": True},
    "save": {"type": "bool", "default": False},
    "archive": {"type": "path"},
    "checksum": {"type": "str"},
    "awaited": {"type": "bool", "default": False},
    "snippet": {"type": "str"},
    "build_args": {"type": "dict", "default": {}},
    "build_network": {"type": "str"},
    "refresh": {"type": "bool", "default": False},
    "no_cache": {"type": "bool", "default": False},
    "min_free": {"type": "str", "default": "5g"},
    "keep": {"type": "int", "default": 1},
    "ca_file": {"type": "path"},
    "proxy": {"type": "dict", "no_log": True},
    "state_root": {"type": "path"},
    "progress": {"type": "path"},
}


def parse_request(params: dict[str, Any], environ: dict[str, str]) -> Request:
    """The module's options as a request; ``DeclarationError`` names the option that is wrong."""
    instance = _parse("instance", _values.name, params["instance"])
    if params["state"] == "present" and params["source"] == "build" and not params["dockerfile"]:
        raise DeclarationError("dockerfile: is required to build an image")
    proxy = _proxy.of_host(environ) if params["proxy"] is None else params["proxy"]
    root = params["state_root"] or _naming.default_state_root(os.geteuid(), environ)
    return Request(
        name=_parse("name", _values.image, params["name"]),
        instance=instance,
        state_dir=_naming.state_dir(root, instance),
        dockerfile=params["dockerfile"] or "",
        files=_texts("files", params["files"]),
        agents=_manifests.select(params["manifests"], params["agents"]),
        commands=params["verify"],
        base=params["base"],
        base_source=params["base_source"],
        source=params["source"],
        repository=_parse("repository", _values.image, params["repository"]) if params["repository"] else "",
        digest=_digest("digest", params["digest"]),
        login=_registry.Login(params["registry_username"] or "", params["registry_password"] or ""),
        save=params["save"],
        archive=params["archive"] or "",
        checksum=_digest("checksum", params["checksum"]),
        awaited=params["awaited"],
        snippet=params["snippet"] or "",
        build_args=_texts("build_args", params["build_args"]),
        network=params["build_network"],
        refresh=params["refresh"],
        no_cache=params["no_cache"],
        min_free=_parse("min_free", _values.size(0), params["min_free"]),
        keep=_parse("keep", _values.integer(0, 100), params["keep"]),
        ca_file=params["ca_file"],
        proxy=_proxy.environment(proxy),
        environ=environ,
    )


def _parse(option: str, parser: _values.Parser, value: object) -> Any:
    try:
        return parser(value)
    except _values.InvalidValueError as error:
        raise DeclarationError(f"{option}{error.key}: {error.message}") from None


def _digest(option: str, value: str | None) -> str:
    if value and not _DIGEST.fullmatch(value):
        raise DeclarationError(f"{option}: must be sha256: and 64 hexadecimal digits, not {value!r}")
    return value or ""


def _texts(option: str, values: dict[str, Any]) -> dict[str, str]:
    for key, value in values.items():
        if not isinstance(value, str):
            raise DeclarationError(f"{option}.{key}: must be a string, not {_values.described(value)}; quote it")
    return dict(values)


def connect(params: dict[str, Any], check: bool) -> _engine.Engine | None:
    """The engine. None when there is none and that is no error: nothing to remove, or a prediction was asked for."""
    predict = check and params["engine_absent"] == "predict"
    return _engine.connect_if_installed(params["docker_host"], may_be_absent=predict or params["state"] == "absent")


def run(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """The module's result; ``AgentboxError`` for everything that a user can do something about."""
    request = parse_request(params, dict(os.environ))
    engine = connect(params, check)
    if params["state"] == "absent":
        result = _image_use.remove(engine, request, check=check)
    else:
        act = _act(params["state"], params["source"])
        result = act(engine, request, check=check, report=file_reporter(params["progress"]))
    return outcome(request.name, result, check=check)


def _act(state: str, source: str) -> Callable[..., Result]:
    if state == "previous":
        return _image.restore
    return _image.converge if source == "build" else _image_fetch.converge


def outcome(name: str, result: Result, *, check: bool) -> dict[str, Any]:
    before = {name: result.before.shown() if result.before else None}
    after = {name: result.after.shown() if result.after else None}
    return {
        "changed": result.changed,
        "image": described(name, result.after) if result.after else None,
        "superseded": "" if check else result.superseded,
        "actions": list(result.actions),
        "warnings": list(result.warnings),
        "diff": {"before": before, "after": after},
    }


def described(name: str, image: Image) -> dict[str, Any]:
    archive = vars(image.archive) if image.archive else None
    published = {"digest": image.digest, "archive": archive}
    return {"id": image.image_id, "name": name, "size": image.size, **published, **image.shown()}


def main() -> None:
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        required_if=[("source", "registry", ("repository",))],
        supports_check_mode=True,
    )
    try:
        result = run(module.params, module.check_mode)
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
