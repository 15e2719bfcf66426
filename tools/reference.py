"""Write the reference pages from what the program itself reads: docs/boxes.md, docs/cli.md and docs/reference/.

The sources are the tables of options, the documentation of modules and plugins, and the argument_specs of roles.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import ansible.plugins
import yaml

from agentbox._shared._options import OPTIONS, SIZES
from agentbox.cli import exits
from agentbox.cli.arguments import COMMANDS
from agentbox.cli.options import TABLE

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PLUGINS = ROOT / "plugins"
NAMESPACE = "agentbox.fleet"
GENERATED = "<!-- Written by tools/reference.py (make reference) from the tables that the program reads. -->"
PARTS_OF_PLAYBOOKS = ("require_hosts", "verify")
# Kind of plugin to what its section is called.
PLUGIN_KINDS = {
    "inventory": "Inventory",
    "connection": "Connections",
    "lookup": "Lookups",
    "filter": "Filters",
    "callback": "Callbacks",
}

# What the table of keys can't say of a container that Agentbox did not make.
ADOPTED = (
    "## Adopted boxes",
    "",
    "A container that Agentbox did not make can have the name of a box:",
    "",
    "```yaml",
    "agentbox_boxes:",
    "  - {name: legacy, state: adopted, container: my-old-box}",
    "```",
    "",
    "`agentbox ls`, `doctor`, `logs` and `shell`, module `box_info`, inventory and connection know it then. Nothing",
    "ever starts, stops, changes, relabels, makes anew or removes it, whatever is declared or asked for. All that",
    "is written is a record, `adopted/<name>.json` in the state directory. `container` is the exact name; that",
    "container has to be there, and one that Agentbox made is refused, as is any other key beside `name`, `state`",
    "and `container`.",
    "",
    "The record goes when the box is declared `absent`, is pruned, or `agentbox down` forgets it; the container",
    "stays. A network or volume of the instance that such a container uses stays too. What an agent does in an",
    "adopted box has the limits that whoever made it gave it: `doctor` says whether it is there and judges nothing",
    "else of it.",
)

Documentation = Mapping[str, Any]


def pages() -> dict[Path, str]:
    """Every generated page and its text."""
    return {
        DOCS / "boxes.md": boxes(),
        DOCS / "cli.md": cli(),
        DOCS / "reference/README.md": index(),
        DOCS / "reference/modules.md": modules(),
        DOCS / "reference/plugins.md": plugins(),
        DOCS / "reference/roles.md": roles(),
    }


def boxes() -> str:
    rows = [
        (
            f"`{option.name}`",
            kind(option.kind, option.choices),
            default(option.default),
            plain(option.description).replace("boxes[].", ""),
        )
        for option in OPTIONS
    ]
    keys = list(SIZES["gpu"])
    sizes = [(f"`{name}`", *(f"`{size[key]}`" if key in size else "" for key in keys)) for name, size in SIZES.items()]
    return "\n".join(
        [
            GENERATED,
            "# The declaration of a box",
            "",
            "`agentbox_boxes` is a list; each item declares one box. Unknown keys, wrong types and duplicates are",
            "errors that name the path of the key. `secrets` is a mapping of names to values in the inventory (from a",
            "vault); the values are split off before anything is logged.",
            "",
            *table(("key", "type", "default", "meaning"), rows),
            "",
            "## Sizes",
            "",
            "A key that is declared beside `size` counts more. Memory and processors are capped at what the host has.",
            "",
            *table(("`size`", *(f"`{key}`" for key in keys)), sizes),
            "",
            *ADOPTED,
            "",
        ]
    )


def cli() -> str:
    commands = [
        (f"`agentbox {command.name} {command.operand}".rstrip() + "`", cell(command.help)) for command in COMMANDS
    ]
    options = [
        (
            ", ".join(f"`{flag}`" for flag in (*option.flags, option.off) if flag),
            ", ".join(f"`{variable}`" for variable in option.variables),
            f"`{option.key}`",
            cell(option.shown(option.default)),
            cell(option.help),
        )
        for option in TABLE
    ]
    switches = [
        (f"`agentbox {command.name}`", f"`{switch.flag}`", cell(switch.help))
        for command in COMMANDS
        for switch in command.switches
    ]
    codes = [(f"{code}", cell(meaning)) for code, meaning in exits.MEANINGS.items()]
    return "\n".join(
        [
            GENERATED,
            "# The command line",
            "",
            *table(("command", "what it does"), commands),
            "",
            "## Options",
            "",
            "A flag wins over the environment (variables in the order given; an empty one counts as unset), that",
            "over `~/.config/agentbox/config.yml`, that over the default. `agentbox doctor` shows where each is from.",
            "",
            *table(("flag", "environment", "file", "default", "meaning"), options),
            "",
            "Flags of single commands:",
            "",
            *table(("command", "flag", "meaning"), switches),
            "",
            "## Exit codes",
            "",
            *table(("code", "meaning"), codes),
            "",
        ]
    )


def index() -> str:
    summaries = {
        "roles.md": {name: spec["main"]["short_description"] for name, spec in role_specs().items()},
        "modules.md": {name: doc["short_description"] for name, (doc, _) in documented("modules").items()},
        "plugins.md": {
            name: doc["short_description"] for folder in PLUGIN_KINDS for name, (doc, _) in documented(folder).items()
        },
    }
    lines = [GENERATED, "# Reference", "", "[The declaration of a box](../boxes.md) · [The command line](../cli.md)"]
    lines += ["", "## Playbooks", "", *table(("name", "what it does"), playbooks())]
    for page, parts in summaries.items():
        rows = [(f"[{name}]({page}#{name})", plain(summary)) for name, summary in sorted(parts.items())]
        lines += ["", f"## {page.removesuffix('.md').capitalize()}", "", *table(("name", "what it is"), rows)]
    return "\n".join([*lines, ""])


def playbooks() -> list[tuple[str, str]]:
    """Name and leading comment of those that are meant to be called."""
    files = sorted(path for path in (ROOT / "playbooks").glob("*.yml") if path.stem not in PARTS_OF_PLAYBOOKS)
    return [(f"`{NAMESPACE}.{path.stem}`", cell(leading_comment(path))) for path in files]


def leading_comment(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()[1:]  # the first is the document's start
    return " ".join(line.removeprefix("# ") for line in itertools.takewhile(lambda line: line.startswith("#"), lines))


def modules() -> str:
    shared = fragment(f"{NAMESPACE}.engine")["options"]
    lines = [
        GENERATED,
        "# Modules",
        "",
        f"Each is called `{NAMESPACE}.<name>`; `ansible-doc {NAMESPACE}.<name>` shows the same with examples.",
    ]
    for name, (documentation, returned) in documented("modules").items():
        options = documentation["options"]
        own = {key: option for key, option in options.items() if option != shared.get(key)}
        lines += ["", f"## {name}", "", *described(documentation), "", *promises(documentation)]
        lines += ["", *options_table(own)]
        lines += ["", "And the [options of the engine](#options-of-the-engine)."] if len(own) < len(options) else []
        lines += ["", "Returned:", "", *returned_table(returned)]
    lines += ["", "## Options of the engine", ""]
    lines += [
        f"The modules that take them are the action group `{NAMESPACE}.agentbox`, so that `module_defaults` can set",
        "them once.",
        "",
    ]
    return "\n".join([*lines, *options_table(shared), ""])


def plugins() -> str:
    lines = [GENERATED, "# Plugins", "", f"Each is called `{NAMESPACE}.<name>`."]
    for folder, title in PLUGIN_KINDS.items():
        found = documented(folder)
        lines += ["", f"## {title}"] if found else []
        for name, (documentation, returned) in found.items():
            lines += ["", f"### {name}", "", *described(documentation)]
            if documentation.get("options"):
                lines += ["", *options_table(documentation["options"])]
            foreign = ", ".join(f"`{name}`" for name in extended(documentation, ours=False))
            lines += ["", f"And the options of Ansible's {foreign}."] if foreign else []
            lines += [f"\nReturns: {sentences(value['description'])}" for value in returned.values()]
    return "\n".join([*lines, ""])


def roles() -> str:
    lines = [
        GENERATED,
        "# Roles",
        "",
        f"Each is called `{NAMESPACE}.<name>`. A default with `agentbox_*` in it follows that inventory variable.",
    ]
    for name, entry_points in role_specs().items():
        defaults = load(ROOT / "roles" / name / "defaults/main.yml")
        lines += ["", f"## {name}"]
        for entry_point, spec in entry_points.items():
            lines += ["", f"### {name}, {entry_point}"] if entry_point != "main" else []
            lines += ["", *described(spec)]
            rows = [
                (f"`{key}`", type_of(option), default(defaults.get(key)), sentences(option["description"]))
                for key, option in (spec.get("options") or {}).items()
            ]
            lines += ["", *table(("variable", "type", "default", "meaning"), rows)]
    return "\n".join([*lines, ""])


def role_specs() -> dict[str, dict[str, Any]]:
    """Role to its entry points."""
    files = sorted((ROOT / "roles").glob("*/meta/argument_specs.yml"))
    return {path.parents[1].name: load(path)["argument_specs"] for path in files}


def documented(folder: str) -> dict[str, tuple[Documentation, Documentation]]:
    """Name to documentation, with its fragments merged in, and description of what is returned.

    A plugin is documented by constants in its own file or, where one file holds several, by a YAML file each.
    """
    found = {}
    for path in sorted((PLUGINS / folder).glob("*.y*ml")):
        page = load(path)
        found[path.stem] = (page["DOCUMENTATION"], page.get("RETURN") or {})
    for path in sorted((PLUGINS / folder).glob("*.py")):
        texts = constants(ast.parse(path.read_text(encoding="utf-8")))
        if "DOCUMENTATION" in texts:
            found[path.stem] = (with_fragments(texts["DOCUMENTATION"]), texts.get("RETURN") or {})
    return dict(sorted(found.items()))


def with_fragments(documentation: Documentation) -> Documentation:
    """``documentation`` with options and attributes of our fragments that it extends; its own words win."""
    merged = dict(documentation)
    for key in ("options", "attributes"):
        merged[key] = {}
        for name in extended(documentation, ours=True):
            for entry, value in (fragment(name).get(key) or {}).items():
                merged[key][entry] = {**merged[key].get(entry, {}), **value}
        for entry, value in (documentation.get(key) or {}).items():
            merged[key][entry] = {**merged[key].get(entry, {}), **value}
    return merged


def extended(documentation: Documentation, *, ours: bool) -> list[str]:
    """Names of the fragments that a plugin extends: this collection's, or those of others."""
    names = documentation.get("extends_documentation_fragment") or ()
    every = [names] if isinstance(names, str) else list(names)
    return [name for name in every if name.startswith(f"{NAMESPACE}.") == ours]


def fragment(name: str) -> Documentation:
    """A documentation fragment of this collection or ansible-core: ``NAMESPACE.COLLECTION.FILE[.PART]``."""
    namespace, collection, file, *part = name.split(".")
    folder = PLUGINS if f"{namespace}.{collection}" == NAMESPACE else Path(ansible.plugins.__file__).parent
    tree = ast.parse((folder / "doc_fragments" / f"{file}.py").read_text(encoding="utf-8"))
    [body] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    found: Documentation = constants(body)[(part[0] if part else "documentation").upper()]
    return found


def constants(tree: ast.Module | ast.ClassDef) -> dict[str, Any]:
    """The YAML texts that a module or class assigns to names in capitals, parsed."""
    return {
        node.targets[0].id: yaml.safe_load(node.value.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.isupper()
        and node.targets[0].id != "EXAMPLES"
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def described(documentation: Documentation) -> list[str]:
    return [
        f"**{plain(documentation['short_description'])}.** {sentences(documentation.get('description') or ())}".strip()
    ]


def promises(documentation: Documentation) -> list[str]:
    """Support of check mode, diffs and repetition, with the reason where it is not full."""
    words = []
    for name, attribute in documentation["attributes"].items():
        if name == "action_group":
            continue
        details = sentences(attribute.get("details") or ())
        reason = f" ({details.removesuffix('.')})" if details and attribute["support"] != "full" else ""
        words.append(f"{name.replace('_', ' ')} {attribute['support']}{reason}")
    return [f"Support: {', '.join(words)}."]


def options_table(options: Documentation | None) -> list[str]:
    rows = [
        (
            f"`{name}`",
            type_of(option),
            "required" if option.get("required") else default(option.get("default")),
            sentences(option["description"])
            + keys("Keys", option.get("suboptions"))
            + keys("Environment", [place["name"] for place in option.get("env", ())])
            + keys("Variables", [place["name"] for place in option.get("vars", ())]),
        )
        for name, option in (options or {}).items()
    ]
    return table(("option", "type", "default", "meaning"), rows)


def returned_table(returned: Documentation) -> list[str]:
    rows = [
        (
            f"`{name}`",
            type_of(value),
            cell(str(value["returned"])),
            sentences(value["description"]) + keys("Holds", value.get("contains")),
        )
        for name, value in returned.items()
    ]
    return table(("key", "type", "when", "meaning"), rows)


def keys(word: str, names: Iterable[str] | None) -> str:
    shown = ", ".join(f"`{name}`" for name in names or ())
    return f" {word}: {shown}." if shown else ""


def type_of(option: Documentation) -> str:
    name = str(option.get("type", "str"))
    of = kind(option.get("elements", ""), tuple(option.get("choices", ())))
    if name == "list":
        return f"list of {of}" if of else name
    return of or name


def sentences(description: str | Iterable[str]) -> str:
    """A description, which is one text or a list of paragraphs, in one line."""
    return plain(description if isinstance(description, str) else " ".join(description))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = (head, tuple("---" for _ in head), *rows)
    return [f"| {' | '.join(line)} |" for line in lines]


def kind(name: str, choices: tuple[str, ...]) -> str:
    return " \\| ".join(f"`{choice}`" for choice in choices) if choices else name


def default(value: object) -> str:
    if value in (None, ""):
        return ""
    return cell(f"`{str(value).lower() if isinstance(value, bool) else value}`")


def plain(text: str) -> str:
    """Ansible's semantic markup as Markdown."""
    text = re.sub(r"[OP]\(ignore:([^)]*)\)", r"`\1`", text)
    text = re.sub(rf"[MP]\({re.escape(NAMESPACE)}\.([^)#]*)(?:#\w+)?\)", r"`\1`", text)
    return cell(re.sub(r"[CVOEIMP]\(([^)]*)\)", r"`\1`", text))


def cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
