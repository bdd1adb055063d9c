"""List what users read: messages of errors, help of the commands, descriptions of modules and roles, names of tasks.

strings.py            # every string with its file and line, then the counts
strings.py --count    # the counts alone
strings.py --old      # identifiers of the old vocabulary, by package
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

TOP = Path(__file__).resolve().parent.parent
ERRORS = re.compile(r"(\w+Error|AnsibleActionFail|BadParameter|Diagnostic)$")
MAKERS = frozenset({"diagnostic", "refused"})
"""Functions whose arguments are messages."""
OLD = frozenset(
    {
        "bring",
        "bringing",
        "brought",
        "found",
        "known",
        "one",
        "patience",
        "place",
        "placed",
        "places",
        "some",
        "spot",
        "told",
        "verdict",
        "word",
        "words",
    }
)
"""The vocabulary that CONTRIBUTING.md replaces."""
PERMITTED = frozenset({"known_hosts", "known_hosts_command", "one_time", "one_thread", "onethread"})
"""Options of OpenSSH; one-time costs; the levers 'one-thread'."""
KEYS = frozenset(
    {
        ("modak_deploy/model/measurement.py", "place"),
        ("modak_deploy/model/cloud.py", "spot"),
        ("modak_deploy/catalogue/instances.py", "spot"),
    }
)
"""Keys of published formats: where in a publication a measurement of modak.measurement/1 stands; spot instances, as
clouds call them."""


class Text(NamedTuple):
    """A string that users read."""

    kind: str
    file: Path
    line: int
    text: str


def python_files(*folders: str) -> Iterator[Path]:
    """Yield the modules in folders, or the module that a name stands for, sorted."""
    for name in folders:
        path = TOP / name
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def texts() -> Iterator[Text]:
    """Yield every string that users read."""
    for file in python_files("modak_deploy", "plugins"):
        if "data" not in file.relative_to(TOP).parts:
            yield from _of_python(file)
    for file in sorted([*TOP.glob("roles/**/*.yml"), *TOP.glob("playbooks/**/*.yml")]):
        yield from _of_yaml(file)


def _of_python(file: Path) -> Iterator[Text]:
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if ERRORS.match(name) or name in MAKERS:
                arguments = [*node.args, *(k.value for k in node.keywords if k.arg in ("hint", "hint_text"))]
                yield from (Text("message", file, a.lineno, t) for a in arguments if (t := _text(a)) and " " in t)
            elif name in ("Option", "Argument", "Typer"):
                helps = [k.value for k in node.keywords if k.arg == "help"]
                yield from (Text("help", file, h.lineno, t) for h in helps if (t := _text(h)))
        elif isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(d) for d in node.decorator_list):
            if summary := ast.get_docstring(node):
                yield Text("help", file, node.lineno, summary)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DOCUMENTATION":
            data = yaml.safe_load(str(ast.literal_eval(node.value)))
            yield from (Text("module", file, node.lineno, text) for text in _descriptions(data))


def _text(node: ast.expr) -> str:
    """Return the text of a literal, with ``{}`` for what is put in; empty where it is none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return "".join(map(_text, node.elts)) if isinstance(node, ast.Tuple) else ""


def _descriptions(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            if key in ("description", "short_description"):
                yield from value if isinstance(value, list) else [str(value)]
            else:
                yield from _descriptions(value)
    elif isinstance(data, list):
        for item in data:
            yield from _descriptions(item)


def _of_yaml(file: Path) -> Iterator[Text]:
    text = file.read_text()
    if file.name == "argument_specs.yml":
        yield from (Text("role", file, 1, description) for description in _descriptions(yaml.safe_load(text)))
        return
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*(?:- )?name: (.*[ ].*)", line):
            yield Text("task", file, number, match[1].strip("'\""))


def old_names(file: Path) -> Counter[str]:
    """Return how often a module binds each name of the old vocabulary, its own name included."""
    bound = [file.stem]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.append(node.name)
        elif isinstance(node, ast.arg):
            bound.append(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.append(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            bound.append(node.attr)
    of_formats = {name for path, name in KEYS if file == TOP / path}
    permitted = PERMITTED | of_formats
    return Counter(name for name in bound if name.lower().lstrip("_") not in permitted and OLD & set(_parts_of(name)))


def _parts_of(name: str) -> list[str]:
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def main() -> int:
    """Print what was asked for."""
    if "--old" in sys.argv:
        totals: Counter[str] = Counter()
        for file in python_files("modak_deploy", "plugins"):
            parts = file.relative_to(TOP).parts
            totals["/".join(parts[:2])] += sum(old_names(file).values())
        for package, count in sorted(totals.items()):
            print(f"{count:5} {package}")
        print(f"{sum(totals.values()):5} in all")
        return 0
    every = list(texts())
    if "--count" not in sys.argv:
        for kind, file, line, text in every:
            print(f"{file.relative_to(TOP)}:{line}: {kind}: {' '.join(text.split())}")
    for kind, count in sorted(Counter(text.kind for text in every).items()):
        print(f"{count:5} {kind}")
    print(f"{len(every):5} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
