"""Write roles/*/README.md from the roles' argument_specs; --check tells whether they are current."""

import re
import sys
from pathlib import Path
from typing import Any

import yaml

TOP = Path(__file__).resolve().parent.parent
USES = {
    "application": "application_definition: {name: hello, type: hpc, executable: hostname, outputs: []}",
    "batch_job": 'batch_job_plan: "{{ decided.plan }}" # of modak.deploy.optimise',
    "image": 'image_plan: "{{ decided.plan }}" # of modak.deploy.optimise',
}
"""Variables of the example, for roles that need one variable only."""


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
    shown = str(value).lower() if isinstance(value, bool) else value
    return f"`{shown}`".replace("|", "\\|")


def readme(role: Path) -> str:
    """Return the text of a role's README."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    about = yaml.safe_load((role / "meta" / "main.yml").read_text())["galaxy_info"]
    parts = [f"# modak.deploy.{role.name}\n", f"{about['description']}.\n"]
    if role.name in USES:
        parts.append(f"""```yaml
- hosts: all
  gather_facts: false
  roles:
    - role: modak.deploy.{role.name}
      vars:
        {USES[role.name]}
```
""")
    for name, spec in specs.items():
        parts.append(f"## {'Use' if name == 'main' else f'Entry point `{name}`'}\n")
        parts.append(f"{text_of(spec['short_description'])}.\n")
        parts += [f"{text_of(line)}\n" for line in spec.get("description", [])]
        if options := spec.get("options"):
            parts.append("| variable | type | default | meaning |\n|---|---|---|---|")
            parts += [
                f"| `{key}` | {o.get('type', 'str')} | {default_of(o)} | {text_of(o.get('description', ''))} |"
                for key, o in options.items()
            ]
            parts.append("")
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
