"""Write roles/*/README.md from the roles' argument_specs; --check tells whether they are current."""

import re
import sys
from pathlib import Path
from typing import Any

import yaml

TOP = Path(__file__).resolve().parent.parent
PLAN = '{}_plan: "{{{{ decided.plan }}}}" # of modak.deploy.optimise'
USES = {
    "application": ["application_definition: {name: hello, type: hpc, executable: hostname}"],
    "batch_job": [PLAN.format("batch_job")],
    "benchmark": [
        "benchmark_application: {name: solver, type: hpc, executable: /opt/solver/bin/solver}",
        "benchmark_levers: [malloc-hugepages] # besides the default and modak's choice",
    ],
    "cloud": [PLAN.format("cloud")],
    "image": [PLAN.format("image")],
    "inference": [
        "inference_document: convert.yml # which models are converted, and how",
        "inference_input: test.npz",
    ],
    "tune": [
        "tune_application:",
        "  name: solver",
        "  type: hpc",
        "  executable: /opt/solver/bin/solver",
        "  progress: 'step (\\d+)'",
        "  workload: {model: my-solver, unit: iteration, units: 1500}",
    ],
}
"""Variables of the example; the role tosca has none, since only the library's playbooks use it."""


def text_of(value: Any) -> str:
    """Return a description as one line of Markdown."""
    lines = value if isinstance(value, list) else [value]
    joined = " ".join(" ".join(str(line).split()) for line in lines)
    return re.sub(r"[A-Z]{1,2}\(([^)]*)\)", r"`\1`", joined).replace("|", "\\|")


def default_of(option: dict[str, Any]) -> str:
    if option.get("required"):
        return "required"
    value = option.get("default")
    if value in (None, {}, [], ""):
        return ""
    shown = yaml.safe_dump(value, default_flow_style=True).removesuffix("\n").removesuffix("\n...")
    return f"`{shown}`".replace("|", "\\|")


def type_of(option: dict[str, Any]) -> str:
    """Return the type of a variable, with that of a list's elements, or its choices."""
    if choices := option.get("choices"):
        return ", ".join(f"`{choice}`" for choice in choices if choice != "")
    kind = option.get("type", "str")
    return f"{kind} of {option['elements']}" if "elements" in option else str(kind)


def variables(options: dict[str, Any], main: str, shown: dict[str, Any]) -> list[str]:
    """Return the table of an entry point's variables, without those that ``main``, the first one, has ``shown``."""
    repeated = len(shown) > 0 and all(options.get(key) == value for key, value in shown.items())
    own = {key: value for key, value in options.items() if not (repeated and key in shown)}
    lines = [f"Its variables are those of `{main}`{', and:' if own else '.'}\n"] if repeated else []
    if own:
        lines.append("| variable | type | default | meaning |\n|---|---|---|---|")
        for key, option in own.items():
            meaning = text_of(option.get("description", ""))
            lines.append(f"| `{key}` | {type_of(option)} | {default_of(option)} | {meaning} |")
        lines.append("")
    return lines


def readme(role: Path) -> str:
    """Return the text of a role's README."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    about = yaml.safe_load((role / "meta" / "main.yml").read_text())["galaxy_info"]
    parts = [f"# modak.deploy.{role.name}\n", f"{about['description']}.\n"]
    if role.name in USES:
        lines = "\n".join(f"        {line}" for line in USES[role.name])
        where = "localhost" if role.name == "cloud" else "localhost # or hosts of your inventory"
        parts.append(f"""```yaml
- hosts: {where}
  gather_facts: false
  roles:
    - role: modak.deploy.{role.name}
      vars:
{lines}
```
""")
    first: tuple[str, dict[str, Any]] = ("", {})
    for name, spec in specs.items():
        parts.append(f"## {'Use' if name == 'main' else f'Entry point `{name}`'}\n")
        parts.append(f"{text_of(spec['short_description'])}.\n")
        parts += [f"{text_of(line)}\n" for line in spec.get("description", [])]
        if options := spec.get("options"):
            parts += variables(options, *first)
            first = (first[0] or name, first[1] or options)
    parts.append(f"""## More

`ansible-doc -t role modak.deploy.{role.name}` shows the same. Made by `python scripts/role_readmes.py`.
License: {about["license"]}.
""")
    return "\n".join(parts)


def main() -> int:
    outdated = []
    for role in sorted((TOP / "roles").iterdir()):
        path, text = role / "README.md", readme(role)
        if not path.exists() or path.read_text() != text:
            outdated.append(path.relative_to(TOP))
            if "--check" not in sys.argv[1:]:
                path.write_text(text)
    if outdated and "--check" in sys.argv[1:]:
        print(f"run python scripts/role_readmes.py: {', '.join(map(str, outdated))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
