#!/usr/bin/python
"""Make boxes what their declarations say."""

from __future__ import annotations

DOCUMENTATION = r"""
module: box
short_description: Make boxes what their declarations say
version_added: 0.1.0
description:
  - Converges a whole list of boxes, hardened containers in each of which a coding agent works in a durable tmux
    session. Boxes are worked on side by side; one that fails does not stop the others, and the task then fails naming
    it.
  - A wrong declaration fails with the path of every wrong key, before anything changes.
  - The security settings and limits of living containers are compared every time, with what the engine says and with
    what the kernel enforces. Memory, CPUs, processes, networks and the container's name are put right on the living
    container. What can't be put right without a new one is returned as drift, unless the box's V(recreate) allows to
    make it anew. A box made anew keeps its workspace, HOME and caches; what ran in its panes ends. If the new container
    does not work the old one comes back.
extends_documentation_fragment:
  - agentbox.fleet.engine
  - agentbox.fleet.common.instance
  - agentbox.fleet.common.lock_timeout
  - agentbox.fleet.common.progress
  - agentbox.fleet.common.state_root
  - agentbox.fleet.attributes
attributes:
  check_mode:
    support: full
    details:
      - Where an image that a box needs is missing, check mode takes it that an earlier task would have built it. See
        also O(coming_image).
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) makes the boxes what O(boxes) says.
      - V(absent) leaves nothing of the instance, declared or not. Boxes, networks, state and what killed runs left go.
        Volumes stay unless O(remove_volumes), with what is noted of them in the state directory. Workspaces always stay
        as they are.
    type: str
    choices: [present, absent]
    default: present
  boxes:
    description:
      - The declared boxes. Null and an empty string mean none.
      - Spelling does not matter, V(4g) and V(4294967296) are the same declaration.
    type: raw
    default: []
    suboptions:
      name:
        description: Name of the box, unique in its instance.
        type: str
        required: true
      state:
        description: >-
          What the box shall be after the run. V(adopted) gives the name to a container that Agentbox did not make: it
          is listed, examined and entered as a box, and never changed.
        type: str
        choices: [started, stopped, absent, adopted]
        default: started
      container:
        description: >-
          With V(state=adopted) the exact name of the container; nothing else can be declared of it.
        type: str
      workspace:
        description: >-
          Directory of the host that the agent works in; must exist. By default C(agentbox-workspace) in the home
          of O(identity_home), made for the purpose.
        type: path
      workspace_target:
        description: Where the workspace is mounted; V(mirror) means the same path as on the host.
        type: str
        choices: [/workspace, mirror]
        default: /workspace
      lead:
        description: Agent of window C(main), a manifest's name, or V(none).
        type: str
        default: claude
      agents:
        description: Agents that the image of the box must hold.
        type: list
        elements: str
        default: [claude]
      permission_mode:
        description: Permission mode of the lead, one of its manifest's modes.
        type: str
        default: default
      yolo:
        description: Start the lead without permission checks.
        type: bool
        default: false
      uid:
        description: >-
          User id of the processes in the box. V(auto) is the workspace's owner; if that is 0, C(SUDO_UID), else
          1000.
        type: raw
        default: auto
      workspace_access:
        description: With V(auto) a box uid that is not the workspace's owner gets an ACL on the workspace.
        type: str
        choices: [auto, none]
        default: auto
      size:
        description: >-
          Template that gives O(boxes[].memory), O(boxes[].cpus), O(boxes[].pids) and O(boxes[].shm_size), and with
          V(gpu) O(boxes[].gpus), unless they are declared too. Without it a box gets what V(medium) stands for.
        type: str
        choices: [small, medium, large, gpu]
      memory:
        description: >-
          Limit of memory and of memory plus swap, at least 512m; capped at what the host has, less 512m (on a small
          host a quarter) for itself.
        type: str
        default: 4g
      cpus:
        description: Number of CPUs, capped at what the host has.
        type: float
        default: 4
      pids:
        description: Limit of processes and threads.
        type: int
        default: 512
      shm_size:
        description: Size of C(/dev/shm).
        type: str
        default: 256m
      tmp_size:
        description: Size of the memory-backed C(/tmp).
        type: str
        default: 1g
      publish:
        description: >-
          Address and port of the host for the page of the box, or V(none). By default C(127.0.0.1:4317) for the
          box named C(default) and V(none) for the others.
        type: raw
      network:
        description: >-
          V(bridge) is the instance's own network, in which boxes can't reach each other; V(none); or the name of
          an existing network.
        type: str
        default: bridge
      networks:
        description: >-
          Names of existing networks that the box joins besides O(boxes[].network), before it starts. Whatever else is
          in them can reach the box.
        type: list
        elements: str
        default: []
      ports:
        description: >-
          More ports of the box that its host publishes, each C([address:]host:box[/tcp|udp]). Without an address only
          the host itself can call them; the page has O(boxes[].publish).
        type: list
        elements: str
        default: []
      healthcheck:
        description: >-
          What the engine calls the box healthy by: V(none), or a mapping of C(command) (text for a shell, or a list
          of arguments), C(interval), C(timeout), C(start_period) (seconds, or C(90s), C(2m)) and C(retries). What it
          does not hold is as by default, where the page of the box is asked every 30 s.
        type: raw
      env:
        description: Environment of the box; values are lines of text, not secret.
        type: dict
        default: {}
      timezone:
        description: Time zone of the box, for example V(Europe/Berlin); V(host) is that of its host.
        type: str
        default: host
      locale:
        description: >-
          Locale of the box, for example V(de_DE.UTF-8); its image must hold it (C(image_locales) of role C(image)).
        type: str
        default: C.UTF-8
      secrets:
        description: Names of the secrets that O(secrets) holds for this box.
        type: list
        elements: str
        default: []
      mounts:
        description: >-
          More paths of the host, each C(source:target[:ro|rw]) or a mapping of C(source), C(target),
          C(read_only).
        type: list
        elements: raw
        default: []
      volumes:
        description: More named volumes, each C(name:target[:ro|rw]) or a mapping of C(name), C(target), C(read_only).
        type: list
        elements: raw
        default: []
      gpus:
        description: V(none), V(all), or how many GPUs the box gets.
        type: raw
        default: none
      runtime:
        description: Container runtime.
        type: str
        choices: [runc, runsc]
        default: runc
      read_only:
        description: Mount the root file system of the box read-only.
        type: bool
        default: false
      seccomp:
        description: The engine's seccomp profile, or Agentbox's stricter one.
        type: str
        choices: [default, strict]
        default: default
      credentials:
        description: >-
          Where the agents' logins come from. V(auto) takes a declared secret, else a login made in the box. V(seed)
          copies the login of the person (O(identity_home)) into the box before it starts, and again only if the
          person's is newer and lives longer. V(mount) mounts the file of that login, and nothing else, read-write.
          V(none) lets none in. An agent with a declared secret needs no login. One box can have an OAuth login.
        type: str
        choices: [auto, seed, mount, none]
        default: auto
      sealed:
        description: >-
          No network and nothing of its host but the workspace: V(none) for O(boxes[].network), O(boxes[].publish) and
          O(boxes[].credentials), no proxy, no git identity and gh login, and neither O(boxes[].networks),
          O(boxes[].ports) nor O(boxes[].mounts).
        type: bool
        default: false
      recreate:
        description: >-
          Whether a box is made anew that differs from its declaration in what can't be changed on a living container.
          V(drift) spares a box somebody is attached to.
        type: str
        choices: [never, drift, always]
        default: never
      image:
        description: Image of the box, by default the instance's own.
        type: str
  secrets:
    description:
      - Secrets of the boxes, box to name to value. Each is a file in the box that its user alone can read, and a
        variable in the environment of its lead. A value is one line and arrives byte by byte.
      - Give the values in variables, for callbacks such as P(ansible.builtin.junit#callback) print the arguments of a
        task as they stand in the playbook.
    type: dict
    default: {}
  manifests:
    description: Manifests of all known agents, name to manifest.
    type: dict
    default: {}
  files:
    description:
      - The files of the runtime in a box, name to text. C(entry.sh), C(attach.sh) and C(tmux.conf) are needed by every
        box, C(seccomp-strict.json) by one with O(boxes[].seccomp=strict).
    type: dict
    default: {}
  identity_home:
    description:
      - Home of the person that the boxes work for. Default is that of the user who runs the module, seen through sudo.
    type: path
  git_identity:
    description: Mount the person's C(.gitconfig) read-only, if there is one.
    type: bool
    default: true
  gh_login:
    description: Mount the person's C(.config/gh) read-only, if there is one, but for O(boxes[].credentials=none).
    type: bool
    default: true
  protected:
    description:
      - Directories whose content rules what this host runs, such as Agentbox's own code. A workspace must neither hold
        nor lie in one of them. State, configuration and data of the engine are always protected.
    type: list
    elements: path
    default: []
  proxy:
    description:
      - Proxy of the boxes, with the keys C(http_proxy), C(https_proxy), C(all_proxy) and C(no_proxy). Loopback is
        always exempt. Who may inspect a container can read it.
      - Without it the proxy variables of the module's environment.
    type: dict
  prune:
    description:
      - Remove the instance's boxes that O(boxes) does not name. Volumes stay. Of an adopted box only the name goes, its
        container stays as it is.
    type: bool
    default: false
  remove_volumes:
    description: Remove HOME volumes of absent boxes too, and with the last box the caches.
    type: bool
    default: false
  upgrade:
    description:
      - Make boxes that differ from their declarations anew, such as after a new image or by a new version of Agentbox,
        also those with V(recreate=never). A box that somebody is attached to is spared as with V(recreate=drift).
      - Boxes are worked on one after the other. After the first that fails, the others are left as they are.
    type: bool
    default: false
  recreate_busy:
    description: With V(recreate=drift) or O(upgrade), make a differing box anew even while somebody is attached to it.
    type: bool
    default: false
  health_wait:
    description: Seconds in which a box that was made anew has to be healthy. Else its old container comes back.
    type: int
    default: 180
  coming_image:
    description:
      - RV(agentbox.fleet.image#module:image) of a task before this one. Where that only predicted a new image, check
        mode takes it for built, and so tells which boxes would differ from it.
    type: dict
author:
  - The Agentbox developers
"""

EXAMPLES = r"""
- name: Have the default box
  agentbox.fleet.box:
    boxes:
      - name: default
        workspace: /srv/code/web
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"
    files: "{{ box_files }}"

- name: Have two boxes, one with a secret, and no others
  agentbox.fleet.box:
    boxes:
      - name: web
        workspace: /srv/code/web
        memory: 8g
        recreate: drift
      - name: api
        workspace: /srv/code/api
        publish: 127.0.0.1:4400
    secrets:
      api:
        ANTHROPIC_API_KEY: "{{ vault_api_key }}"
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"
    files: "{{ box_files }}"
    prune: true

- name: Move all boxes to the image that was just built, one by one
  agentbox.fleet.box:
    boxes: "{{ agentbox_boxes }}"
    manifests: "{{ lookup('agentbox.fleet.manifests') }}"
    files: "{{ box_files }}"
    upgrade: true

- name: Remove everything of an instance, HOMEs and caches too
  agentbox.fleet.box:
    state: absent
    remove_volumes: true

- name: Give a container that Agentbox did not make the name of a box, and leave it as it is
  agentbox.fleet.box:
    boxes:
      - name: legacy
        state: adopted
        container: my-old-box

- name: Remove a box with its HOME
  agentbox.fleet.box:
    boxes:
      - name: web
        state: absent
    remove_volumes: true
"""

RETURN = r"""
boxes:
  description: One result per box, in the order of O(boxes), pruned ones last.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the box.
      type: str
      sample: web
    container:
      description: Name of its container.
      type: str
      sample: agentbox-web
    state:
      description: The state that was asked for.
      type: str
      sample: started
    changed:
      description: Whether something was done for it, or in check mode would be.
      type: bool
    failed:
      description: Whether it could not be made what it is declared to be.
      type: bool
    msg:
      description: Why, and what to do about it; empty when it did not fail.
      type: str
    actions:
      description: What was done, or in check mode would be, in order.
      type: list
      elements: dict
      sample: [{action: start, detail: agentbox-web}]
    drift:
      description: Where the box differs from its declaration and stays so.
      type: list
      elements: dict
      sample: [{path: memory, declared: 4g, live: 2g}]
    page:
      description: URL of its page on the host, null when it is not published.
      type: str
      sample: http://127.0.0.1:4317
    attach:
      description: Command that attaches a terminal to it; null for an adopted box, whose terminal is not Agentbox's.
      type: str
      sample: docker exec -it agentbox-web bash /agentbox/attach.sh
    uid:
      description: User id of its processes; null for an absent box.
      type: int
      sample: 1000
    workspace:
      description: Its workspace on the host, links resolved; null for an absent box.
      type: path
      sample: /srv/code/web
actions:
  description: All actions in order; C(box) is empty for those that concern the whole instance.
  returned: always
  type: list
  elements: dict
  contains:
    box:
      description: Name of the box.
      type: str
    action:
      description: >-
        One of C(make_directory), C(write_file), C(remove_path), C(make_workspace), C(set_acl), C(create_network),
        C(remove_network), C(remove_spare_network), C(remove_volume), C(create), C(recreate), C(finish_swap),
        C(rename), C(leave_network), C(join_network), C(update), C(seed_login), C(start), C(unpause), C(stop),
        C(remove).
      type: str
    detail:
      description: On what.
      type: str
  sample: [{box: web, action: create, detail: agentbox-web}]
drift:
  description: The drift of all boxes.
  returned: always
  type: list
  elements: dict
  contains:
    box:
      description: Name of the box.
      type: str
    path:
      description: Key of the declaration, or C(hardening.) and what nobody may change.
      type: str
    declared:
      description: What it should be, capped at what the host has.
      type: raw
    live:
      description: What it is.
      type: raw
  sample: [{box: web, path: memory, declared: 4g, live: 2g}]
"""

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.agentbox.fleet.plugins.module_utils import _boxes, _engine, _gather, _host, _naming, _proxy
from ansible_collections.agentbox.fleet.plugins.module_utils._box import ImageFacts, Setting
from ansible_collections.agentbox.fleet.plugins.module_utils._engine import ENGINE_OPTIONS, Engine
from ansible_collections.agentbox.fleet.plugins.module_utils._errors import AgentboxError
from ansible_collections.agentbox.fleet.plugins.module_utils._progress import file_reporter

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "instance": {"type": "str", "default": _naming.DEFAULT_INSTANCE},
    "boxes": {"type": "raw", "default": []},
    "secrets": {"type": "dict", "default": {}, "no_log": True},
    "manifests": {"type": "dict", "default": {}},
    "files": {"type": "dict", "default": {}},
    "state_root": {"type": "path"},
    "identity_home": {"type": "path"},
    "git_identity": {"type": "bool", "default": True},
    "gh_login": {"type": "bool", "default": True},
    "protected": {"type": "list", "elements": "path", "default": []},
    "proxy": {"type": "dict", "no_log": True},
    "prune": {"type": "bool", "default": False},
    "remove_volumes": {"type": "bool", "default": False},
    "upgrade": {"type": "bool", "default": False},
    "recreate_busy": {"type": "bool", "default": False},
    "health_wait": {"type": "int", "default": 180},
    "coming_image": {"type": "dict"},
    "lock_timeout": {"type": "int", "default": 120},
    "progress": {"type": "path"},
    **ENGINE_OPTIONS,
}


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    hide_misplaced_secrets(module)
    try:
        outcome = run(module.params, module.check_mode)
    except AgentboxError as error:
        module.fail_json(msg=str(error))
    for warning in outcome.warnings:
        module.warn(warning)
    if outcome.failures:
        module.fail_json(msg="; ".join(outcome.failures), **outcome.as_dict())
    module.exit_json(**outcome.as_dict())


def hide_misplaced_secrets(module: AnsibleModule) -> None:
    """Keep values out of every output that were written where names belong; the declaration is refused later."""
    boxes = module.params["boxes"]
    for box in boxes if isinstance(boxes, list) else []:
        secrets = box.get("secrets") if isinstance(box, dict) else None
        if isinstance(secrets, dict):
            module.no_log_values.update(str(value) for value in secrets.values() if value)


def run(params: dict[str, Any], check: bool) -> _boxes.Outcome:
    """All of the module but its frame."""
    predict = check and params["engine_absent"] == "predict"
    may_be_absent = predict or _boxes.only_absence(params["boxes"])
    engine = _engine.connect_if_installed(params["docker_host"], may_be_absent=may_be_absent)
    try:
        request = _boxes.Request(
            setting=setting(params, engine),
            boxes=params["boxes"],
            secrets=params["secrets"],
            engine=engine,
            report=file_reporter(params["progress"]),
            check=check,
            coming=coming_image(params["coming_image"]),
            absent=params["state"] == "absent",
            prune=params["prune"],
            upgrade=params["upgrade"],
            remove_volumes=params["remove_volumes"],
            recreate_busy=params["recreate_busy"],
            health_wait=float(params["health_wait"]),
            lock_timeout=float(params["lock_timeout"]),
        )
        return _boxes.converge(request)
    finally:
        if engine:
            engine.close()


def coming_image(image: dict[str, Any] | None) -> ImageFacts | None:
    """An image that is yet to be built, from what module ``image`` returned; None for one that is there."""
    if not image or image.get("id"):
        return None
    return ImageFacts(str(image["name"]), "", str(image["context"]), dict(image["agents"]))


def setting(params: dict[str, Any], engine: Engine | None) -> Setting:
    person = _host.person(params["identity_home"])
    state_root = params["state_root"] or _naming.default_state_root(person.euid, dict(os.environ))
    facts = _gather.engine_facts(engine)
    proxy = _proxy.of_host(os.environ) if params["proxy"] is None else params["proxy"]
    own = [state_root, f"{person.home}/.config/agentbox", *([facts.data_root] if facts.data_root else [])]
    return Setting(
        instance=params["instance"],
        state_dir=_naming.state_dir(state_root, params["instance"]),
        person=person,
        engine=facts,
        manifests=params["manifests"],
        files=params["files"],
        proxy=_proxy.environment(proxy),
        identity=_host.identity(person.home, git=params["git_identity"], gh=params["gh_login"]),
        timezone=_host.timezone(),
        protected=tuple(os.path.realpath(directory) for directory in [*own, *params["protected"]]),
    )


if __name__ == "__main__":
    main()
