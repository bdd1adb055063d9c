"""Write docs/reference.md, the keys of a deployment document, from the models; --check tells whether it is current."""

import sys
from pathlib import Path
from typing import Any

from modak_deploy.model.deployment import Deployment

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"
HEAD = """# The keys of a deployment document

All keys that a document may contain; [Describing a deployment](deployment.md) explains how they are used. Unknown keys
are errors. Times are in seconds, or text such as `30m`, `1:30:00` or `2-00:00:00`; memory is in bytes, or text such as
`4G` or `512 MB`, in powers of 1024. This page is generated from the models by `python scripts/reference.py`.
"""


def name_of(schema: dict[str, Any]) -> str | None:
    """Return the model that a property's schema refers to, alone, optional, as a list's item or as a map's value."""
    values = schema.get("patternProperties", {}).values()
    for part in (schema, *schema.get("anyOf", []), schema.get("items", {}), *values):
        if "$ref" in part:
            return str(part["$ref"]).rsplit("/", 1)[1]
    return None


def type_of(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(part) for part in schema["anyOf"] if part.get("type") != "null"))
    if "$ref" in schema:
        return "section"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if schema.get("type") == "object":
        return "map"
    return {"string": "text", "integer": "whole number", "number": "number", "boolean": "yes or no"}[schema["type"]]


def default_of(name: str, schema: dict[str, Any], section: dict[str, Any]) -> str:
    if name in section.get("required", []):
        return "required"
    value = schema.get("default")
    if value in (None, [], {}) or isinstance(value, dict):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def sections(path: str, schema: dict[str, Any], models: dict[str, Any], shown: dict[str, str]) -> list[str]:
    """Return the lines for one model, then those for the models below it; ``shown`` names the heading of each model."""
    lines = [f"\n## {path or 'the document'}\n", "| key | type | default | meaning |", "|---|---|---|---|"]
    below: list[str] = []
    for name, entry in schema["properties"].items():
        meaning = " ".join(entry.get("description", "").split()).replace("|", "\\|").replace("``", "`")
        lines.append(f"| `{name}` | {type_of(entry)} | {default_of(name, entry, schema)} | {meaning} |")
        heading = f"{path}.{name}".strip(".")
        if (model := name_of(entry)) is None:
            continue
        if model in shown:
            anchor = shown[model].replace(".", "")
            below += [f"\n## {heading}\n", f"The keys are those of [{shown[model]}](#{anchor})."]
        else:
            shown[model] = heading
            below += sections(heading, models[model], models, shown)
    return lines + below


def page() -> str:
    schema = Deployment.model_json_schema()
    return HEAD + "\n".join(sections("", schema, schema["$defs"], {})) + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() == page():
            return 0
        print(f"{PAGE.name} differs from the models: run python scripts/reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
