"""Declarations: what is refused with which path, what is the same in two spellings, and the documentation's truth."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentbox._shared._errors import DeclarationError
from agentbox._shared._options import OPTIONS
from agentbox._shared._spec import BoxSpec, digest, most_memory, parse_boxes
from agentbox._shared._values import InvalidValueError, secret_values
from tests.unit.module_utils.box_samples import MANIFESTS

MODULES = Path(__file__).parents[3] / "plugins" / "modules"


def parse(*boxes: Any, secrets: dict[str, list[str]] | None = None) -> list[BoxSpec]:
    return parse_boxes(list(boxes), instance="abx", manifests=MANIFESTS, secrets=secrets)


def problems(*boxes: Any, secrets: dict[str, list[str]] | None = None) -> str:
    with pytest.raises(DeclarationError) as caught:
        parse(*boxes, secrets=secrets)
    return str(caught.value)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"memroy": "4g"}, "boxes[0].memroy: unknown key, did you mean memory?"),
        ({"zzz": 1}, "boxes[0].zzz: unknown key"),
        ({"memory": "511m"}, "boxes[0].memory: must be at least 512m, not 511m"),
        ({"memory": 4.5}, "boxes[0].memory: must be a size such as 512m or 4g, not the number 4.5"),
        ({"memory": True}, "boxes[0].memory: must be a size such as 512m or 4g, not the boolean true"),
        ({"cpus": 0}, "boxes[0].cpus: must be between 0.1 and 4096, not 0"),
        ({"cpus": "nan"}, "boxes[0].cpus: must be between 0.1 and 4096, not nan"),
        ({"pids": True}, "boxes[0].pids: must be a whole number, not the boolean true"),
        ({"yolo": "yes"}, "boxes[0].yolo: must be true or false, not 'yes'"),
        ({"uid": 0, "yolo": True}, "boxes[0].uid: a box never runs as uid 0"),
        ({"uid": False}, "boxes[0].uid: must be a whole number, not the boolean false"),
        ({"workspace": "~/code"}, "boxes[0].workspace: must be an absolute path, not '~/code'"),
        ({"workspace": "/a\nb"}, "boxes[0].workspace: must not contain a line break"),
        ({"publish": "127.0.0.1:0"}, "boxes[0].publish: must be none, a port, or address:port"),
        ({"publish": "localhost:4317"}, "boxes[0].publish: must be none, a port, or address:port"),
        ({"publish": 4400, "network": "none"}, "boxes[0].publish: nothing can be published with network none"),
        ({"ports": ["80:80"], "network": "none"}, "boxes[0].ports: nothing can be published with network none"),
        ({"networks": ["lan"], "network": "none"}, "boxes[0].networks: contradicts network none"),
        ({"networks": ["lan"], "network": "lan"}, "boxes[0].networks: lan is network already"),
        ({"networks": ["lan", "lan"]}, "boxes[0].networks[1]: 'lan' stands twice"),
        ({"networks": ["host"]}, "boxes[0].networks[0]: 'host' is refused"),
        ({"networks": ["bridge"]}, "boxes[0].networks[0]: 'bridge' is for the key network"),
        ({"networks": ["abx"]}, "boxes[0].networks: abx is the instance's own, which network bridge joins"),
        ({"networks": "lan"}, "boxes[0].networks: must be a list, not 'lan'"),
        ({"ports": ["8080:4317"]}, "boxes[0].ports: 4317 is the page of the box, which publish is for"),
        ({"ports": ["80:81", "80:82"]}, "boxes[0].ports: the published port 127.0.0.1:80 is that of boxes[0] too"),
        ({"publish": 80, "ports": ["80:81"]}, "boxes[0].ports: the published port 127.0.0.1:80 is that of boxes[0]"),
        ({"size": "huge"}, "boxes[0].size: must be one of small, medium, large, gpu, not 'huge'"),
        ({"size": ["small"]}, "boxes[0].size: must be one of small, medium, large, gpu, not a list"),
        ({"healthcheck": "curl"}, "boxes[0].healthcheck: must be none or a mapping of command, interval"),
        ({"healthcheck": {"every": 5}}, "boxes[0].healthcheck.every: unknown key, known are command, interval"),
        ({"sealed": "yes"}, "boxes[0].sealed: must be true or false, not 'yes'"),
        ({"sealed": True, "network": "bridge"}, "boxes[0].network: contradicts sealed"),
        ({"sealed": True, "networks": ["lan"]}, "boxes[0].networks: contradicts sealed"),
        ({"sealed": True, "publish": 4400}, "boxes[0].publish: contradicts sealed"),
        ({"sealed": True, "ports": ["80:80"]}, "boxes[0].ports: contradicts sealed"),
        ({"sealed": True, "mounts": ["/srv:/srv"]}, "boxes[0].mounts: contradicts sealed"),
        ({"sealed": True, "credentials": "auto"}, "boxes[0].credentials: contradicts sealed"),
        ({"sealed": True, "credentials": "mount"}, "boxes[0].credentials: contradicts sealed"),
        ({"network": "host"}, "boxes[0].network: 'host' is refused"),
        ({"network": "container:x"}, "boxes[0].network: 'container:x' is refused"),
        ({"env": {"A": True}}, "boxes[0].env.A: must be a string, not the boolean true"),
        ({"env": {"A": 1}}, "boxes[0].env.A: must be a string, not the number 1"),
        ({"env": {"A": 1.5}}, "boxes[0].env.A: must be a string, not the number 1.5"),
        ({"env": {"A": None}}, "boxes[0].env.A: must be a string, not null"),
        ({"env": {"A-B": "x"}}, "boxes[0].env: 'A-B' is no valid name"),
        ({"env": {"HOME": "/x"}}, "boxes[0].env.HOME: is set by Agentbox"),
        ({"env": {"ANTHROPIC_API_KEY": "x"}}, "boxes[0].env.ANTHROPIC_API_KEY: is a credential, move it to secrets"),
        ({"secrets": ["TOKEN"]}, "boxes[0].secrets.TOKEN: no value is given for it"),
        ({"secrets": {"TOKEN": "canary"}}, "boxes[0].secrets: must be a list of names here"),
        ({"lead": "codex"}, "boxes[0].lead: there is no manifest of 'codex' (known: claude, plain)"),
        ({"lead": "plain"}, "boxes[0].lead: 'plain' is not among agents (claude)"),
        ({"agents": ["claude", "claude"]}, "boxes[0].agents[1]: 'claude' stands twice"),
        ({"permission_mode": "wild"}, "boxes[0].permission_mode: claude has no mode 'wild' (it has default, plan)"),
        ({"lead": "plain", "agents": ["plain"], "yolo": True}, "boxes[0].yolo: plain has no such mode"),
        ({"lead": "none", "yolo": True}, "boxes[0].yolo: there is no lead"),
        ({"mounts": ["/srv"]}, "boxes[0].mounts[0]: must be source:target[:ro|rw]"),
        ({"mounts": ["srv:/x"]}, "boxes[0].mounts[0].source: must be an absolute path, not 'srv'"),
        ({"mounts": [{"source": "/a", "target": "/b", "mode": "ro"}]}, "boxes[0].mounts[0].mode: unknown key"),
        ({"mounts": ["/srv:/workspace"]}, "boxes[0].mounts: target /workspace is taken"),
        ({"mounts": ["/srv:/agentbox/x"]}, "boxes[0].mounts: target /agentbox/x is taken"),
        ({"mounts": ["/a:/x", "/b:/x/"]}, "boxes[0].mounts: target /x is taken"),
        ({"mounts": ["/srv:/etc/gitconfig"]}, "boxes[0].mounts: target /etc/gitconfig is taken"),
        ({"mounts": ["/srv:/etc/claude-code"]}, "boxes[0].mounts: target /etc/claude-code is taken"),
        ({"mounts": ["/srv:/etc/claude-code/x"]}, "boxes[0].mounts: target /etc/claude-code/x is taken"),
        ({"volumes": ["data:/home/agent/.cache/pip"]}, "boxes[0].volumes: target /home/agent/.cache/pip is taken"),
        (
            {"workspace": "/opt/agentbox", "workspace_target": "mirror"},
            "boxes[0].workspace_target: target /opt/agentbox is taken",
        ),
        (
            {"workspace": "/home/agent", "workspace_target": "mirror"},
            "boxes[0].workspace_target: target /home/agent is taken",
        ),
        ({"volumes": ["a b:/x"]}, "boxes[0].volumes[0].name: 'a b' is no valid name of a volume"),
        ({"volumes": ["abx-api-home:/x"]}, "boxes[0].volumes: abx-api-home is a volume of Agentbox's own"),
        ({"volumes": ["abx-cache-npm-1000:/x"]}, "boxes[0].volumes: abx-cache-npm-1000 is a volume of Agentbox's own"),
        ({"gpus": "some"}, "boxes[0].gpus: must be none, all or a number of devices"),
        ({"image": "a b"}, "boxes[0].image: 'a b' is no image reference"),
        ({"state": "present"}, "boxes[0].state: must be one of started, stopped, absent, adopted, not 'present'"),
    ],
)
def test_a_wrong_value_is_named_with_its_path(declared: dict[str, Any], message: str) -> None:
    found = problems({"name": "web", **declared})
    assert message in found
    assert "canary" not in found


def test_all_problems_are_told_at_once() -> None:
    found = problems({"name": "A"}, {"memory": "1m"}, "text")
    for expected in ("boxes[0].name:", "boxes[1].name: is missing", "boxes[1].memory:", "boxes[2]: must be a mapping"):
        assert expected in found


def test_what_two_boxes_would_share_names_both() -> None:
    assert "boxes[1].name: the name 'a' is that of boxes[0] too" in problems({"name": "a"}, {"name": "a"})
    port = {"publish": "127.0.0.1:4400"}
    found = problems({"name": "a", **port}, {"name": "b", "publish": 4400})
    assert found == "boxes[1].publish: the published port 127.0.0.1:4400 is that of boxes[0] too"
    parse({"name": "a", **port}, {"name": "b", "state": "absent", **port})
    found = problems({"name": "a", "ports": ["0.0.0.0:4400:80"]}, {"name": "b", **port})
    assert found == "boxes[1].publish: the published port 127.0.0.1:4400 is that of boxes[0] too"
    found = problems({"name": "a", "ports": ["[::1]:80:1"]}, {"name": "b", "ports": ["[::]:80:2"]})
    assert found == "boxes[1].ports: the published port [::]:80 is that of boxes[0] too"
    apart = [["80:80"], ["80:80/udp"], ["[::1]:80:80"], ["192.0.2.7:80:80"], ["81:80"]]
    parse(*({"name": f"box{index}", "ports": ports} for index, ports in enumerate(apart)))


def test_secrets_need_a_box_and_agree_with_credentials() -> None:
    assert problems({"name": "a"}, secrets={"b": ["X"]}) == "secrets.b: there is no box of that name"
    contradiction = problems({"name": "a", "credentials": "none"}, secrets={"a": ["ANTHROPIC_API_KEY"]})
    assert "boxes[0].secrets.ANTHROPIC_API_KEY: contradicts credentials none" in contradiction
    assert parse({"name": "a", "secrets": ["B"]}, secrets={"a": ["B", "A"]})[0].secrets == ("A", "B")


@pytest.mark.parametrize("value", ["canary\n", "canary\nx", "canary\0", 5])
def test_what_no_variable_can_hold_as_it_is_is_refused_without_quoting_it(value: object) -> None:
    with pytest.raises(InvalidValueError) as caught:
        secret_values({"a": {"TOKEN": value}})
    assert caught.value.key == ".a.TOKEN"
    assert "canary" not in caught.value.message
    assert "boxes[0].env.NAME: must be " in problems({"name": "a", "env": {"NAME": value}})


@pytest.mark.parametrize("nothing", [None, "", []])
def test_nothing_declared_means_no_boxes(nothing: object) -> None:
    assert parse_boxes(nothing, instance="abx", manifests={}) == []
    spec = parse({"name": "a", "mounts": nothing, "volumes": nothing, "secrets": nothing, "agents": ["claude"]})[0]
    assert (spec.mounts, spec.volumes, spec.secrets) == ((), (), ())


@pytest.mark.parametrize("wrong", [{"name": "a"}, "a", 3, True])
def test_boxes_that_are_no_list(wrong: object) -> None:
    with pytest.raises(DeclarationError, match="boxes: must be a list of boxes"):
        parse_boxes(wrong, instance="abx", manifests={})


def test_an_absent_box_needs_nothing_but_its_name() -> None:
    assert parse({"name": "a", "state": "absent", "lead": "gone"})[0].state == "absent"


def test_only_the_default_box_publishes_by_itself() -> None:
    specs = parse({"name": "default"}, {"name": "web"})
    assert [str(spec.publish) for spec in specs] == ["127.0.0.1:4317", "None"]
    assert parse({"name": "default", "network": "none"})[0].publish is None
    assert parse({"name": "default", "publish": "none"})[0].publish is None
    assert str(parse({"name": "web", "publish": "[::1]:4400"})[0].publish) == "[::1]:4400"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"memory": "4g"}, {"memory": 4 << 30}),
        ({"memory": "4g"}, {"memory": "4096MiB"}),
        ({"cpus": 4}, {"cpus": "4.0"}),
        ({"pids": 600}, {"pids": "600"}),
        ({"publish": 4400}, {"publish": "127.0.0.1:4400"}),
        ({"workspace": "/srv/x"}, {"workspace": "//srv/./x/"}),
        ({"image": "abx"}, {"image": "abx:latest"}),
        ({"env": {"A": "1", "B": "2"}}, {"env": {"B": "2", "A": "1"}}),
        ({"mounts": ["/a:/x", "/b:/y:ro"]}, {"mounts": ["/b/:/y/:ro", {"source": "/a", "target": "/x"}]}),
        ({"agents": ["claude"]}, {}),
        ({"networks": ["b", "a"]}, {"networks": ["a", "b"]}),
        ({"networks": []}, {}),
        ({"ports": ["80:80", "53:53/UDP"]}, {"ports": ["127.0.0.1:53:53/udp", "127.0.0.1:080:80/tcp"]}),
        ({"ports": ["[::1]:80:80"]}, {"ports": ["[0:0:0:0:0:0:0:1]:80:80/tcp"]}),
        ({"ports": None}, {}),
        ({"healthcheck": {}}, {}),
        ({"healthcheck": {"interval": "30s", "retries": 3}}, {}),
        ({"healthcheck": {"interval": "1m30s"}}, {"healthcheck": {"interval": 90}}),
        ({"healthcheck": {"command": "true"}}, {"healthcheck": {"command": ["sh", "-c", "true"]}}),
        ({"size": "medium"}, {}),
        ({"size": "large"}, {"memory": 16 << 30, "cpus": "8", "pids": 2048, "shm_size": "1024m"}),
        ({"size": "gpu"}, {"memory": "32g", "cpus": 8, "pids": "2048", "shm_size": "8g", "gpus": "all"}),
        ({"size": "small", "memory": "3g"}, {"memory": "3g", "cpus": 2, "pids": 256, "shm_size": "128m"}),
        ({"sealed": False}, {}),
        ({"sealed": True}, {"sealed": True, "network": "none", "publish": "none", "credentials": "none"}),
        ({"sealed": True}, {"sealed": True, "publish": None, "ports": [], "mounts": ""}),
        ({"recreate": "never"}, {"recreate": "drift"}),
    ],
)
def test_spelling_never_changes_the_canonical_form(one: dict[str, Any], other: dict[str, Any]) -> None:
    canonical, same = (parse({"name": "a", **declared})[0].canonical() for declared in (one, other))
    assert canonical == same


@pytest.mark.parametrize(
    "change",
    [
        {"memory": "5g"},
        {"yolo": True},
        {"env": {"A": ""}},
        {"mounts": ["/a:/x:ro"]},
        {"cpus": 4.01},
        {"uid": 1000},
        {"size": "small"},
        {"networks": ["lan"]},
        {"ports": ["80:80"]},
        {"ports": ["0.0.0.0:80:80"]},
        {"healthcheck": "none"},
        {"healthcheck": {"timeout": 6}},
    ],
)
def test_a_change_changes_the_canonical_form(change: dict[str, Any]) -> None:
    base = {"name": "a", "mounts": ["/a:/x"]}
    assert parse(base)[0].canonical() != parse({**base, **change})[0].canonical()


def test_the_digest_is_of_what_no_inspection_tells() -> None:
    base = parse({"name": "a"})[0].canonical()
    assert digest(base, "c") != digest(base, "d")
    assert digest(base, "c") != digest({**base, "permission_mode": "plan"}, "c")
    assert digest(base, "c") == digest({**base, "memory": 5 << 30, "workspace": "/srv/x"}, "c")


def test_problems_keep_the_order_of_the_declaration() -> None:
    found = problems({"name": "a", "mounts": ["/z:/z", "a:/a"], "agents": ["plain", "claude", "ada"]})
    assert "boxes[0].mounts[1].source: must be an absolute path" in found
    spec = parse({"name": "a", "mounts": ["/z:/z", "/a:/a"]})[0]
    assert [mount.source for mount in spec.mounts] == ["/z", "/a"]


def test_a_sealed_box_differs_from_one_without_network() -> None:
    """Which still has the person's identity."""
    plain = {"network": "none", "credentials": "none", "publish": "none"}
    sealed, open_box = (parse({"name": "default", **declared})[0] for declared in ({"sealed": True}, plain))
    assert (sealed.network, sealed.publish, sealed.credentials) == ("none", None, "none")
    assert digest(sealed.canonical(), "c") != digest(open_box.canonical(), "c")


def documentation(module: str) -> dict[str, Any]:
    tree = ast.parse((MODULES / f"{module}.py").read_text(encoding="utf-8"))
    texts = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    found: dict[str, Any] = yaml.safe_load(str(texts["DOCUMENTATION"]))
    return found


def test_the_documentation_is_the_table() -> None:
    documented = documentation("box")["options"]["boxes"]["suboptions"]
    assert list(documented) == [option.name for option in OPTIONS] == [field.name for field in fields(BoxSpec)][1:]
    for option in OPTIONS:
        entry = documented[option.name]
        assert " ".join(entry["description"].split()) == option.description, option.name
        assert entry["type"] == option.kind, option.name
        assert entry.get("default") == option.default, option.name
        assert tuple(entry.get("choices", ())) == option.choices, option.name
        assert entry.get("required", False) == option.required, option.name


@pytest.mark.parametrize(
    ("total", "limit"), [(64 << 30, (64 << 30) - (512 << 20)), (2 << 30, 1536 << 20), (1 << 30, 768 << 20)]
)
def test_a_host_keeps_some_of_its_memory(total: int, limit: int) -> None:
    assert most_memory(total) == limit


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "Etc/GMT+3", "host"])
def test_time_zones(zone: str) -> None:
    assert parse({"name": "a", "timezone": zone})[0].timezone == zone


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../etc/passwd", "/etc/localtime", "", 3])
def test_what_is_no_time_zone_is_refused(zone: object) -> None:
    assert "boxes[0].timezone: " in problems({"name": "a", "timezone": zone})


@pytest.mark.parametrize("locale", ["de_DE", "de_DE.ISO-8859-1", "C", "C.UTF-8; x", None])
def test_a_locale_without_utf_8_is_refused(locale: object) -> None:
    assert "boxes[0].locale: must be a UTF-8 locale" in problems({"name": "a", "locale": locale})
