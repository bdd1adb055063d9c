"""Write the pictures of the documentation and the page of TOSCA types; --check tells whether they are current."""

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.evidence.benchmarked import memory_drawing
from modak_deploy.evidence.finished import read_finished
from modak_deploy.evidence.marks import HEIGHT, WIDTH

DOCS = Path(__file__).resolve().parent.parent / "docs"
TYPES = DOCS.parent / "tosca" / "blueprints" / "modak" / "types"
STUDY = DOCS.parent / "benchmarks" / "measured" / "study-amd-epyc-2-cores" / "snn-inference"
FILES = ("applications", "targets", "images", "ensembles", "policies", "artifacts", "relationships")
FLOW = (
    ("Describe", "application, target,", "request: YAML,", "TOSCA, Ansible"),
    ("Discover", "one query of the", "target: cores, GPUs,", "scheduler, containers"),
    ("Decide", "measurements and", "models choose;", "the Plan says why"),
    ("Run", "submitted once,", "followed to its end,", "results fetched"),
    ("Learn", "times become", "measurements for", "the next Plan"),
)
LAYERS = (
    ("Front ends", "modak deploy", "ansible-playbook modak.deploy.deploy", "opera deploy blueprint.yaml"),
    ("documents", "Application, Target, Request, JobOptions"),
    ("optimiser", "with facts (discovery), levers and images (catalogue), measurements (performance)"),
    ("Plan", "the decision and its reasons: the contract between the parts"),
    ("jobs", "stage, submit once, watch, fetch results; text in and out by schedulers"),
    ("transport", "this machine, ssh, or Ansible's connection"),
)
KEYS = {
    "Framework": "applicationframework",
    "Service": "applicationservice",
    "Objects": "applicationobjects",
    "Request": "request",
    "JobOptions": "job",
    "Node": "targetnode",
    "Polling": "targetpolling",
    "Cloud": "targetcloud",
    "Kubernetes": "targetkubernetes",
}
"""Where docs/reference.md has the keys of a data type."""
STYLE = "<style>text{font-family:sans-serif;fill:#1b2a3a}.h{font-size:17px;font-weight:bold}.t{font-size:13px}</style>"


def svg(width: int, height: int, title: str, parts: Sequence[str], scale: float = 1) -> str:
    """Return an SVG on a light ground, so that it can be read on dark pages as well.

    It is drawn at ``scale``, or smaller where a page is narrower; on a phone it keeps its size and scrolls.
    """
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * scale:g}" height="{height * scale:g}" '
        f'viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{STYLE}'
        f'<rect width="{width}" height="{height}" rx="12" fill="#f7f9fc"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def box(x: float, y: float, width: float, height: float, lines: Sequence[str]) -> str:
    """Return a box with a title and lines below it."""
    parts = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="#ffffff" stroke="#2f5fa7"/>',
        f'<text class="h" x="{x + width / 2}" y="{y + 26}" text-anchor="middle">{escape(lines[0])}</text>',
    ]
    parts += [
        f'<text class="t" x="{x + width / 2}" y="{y + 50 + 19 * n}" text-anchor="middle">{escape(line)}</text>'
        for n, line in enumerate(lines[1:])
    ]
    return "\n".join(parts)


def arrow(points: Sequence[tuple[float, float]]) -> str:
    """Return a line that ends in an arrow's head."""
    (x, y), (x0, y0) = points[-1], points[-2]
    path = " ".join(f"{a},{b}" for a, b in points)
    down = abs(x - x0) < abs(y - y0)
    sign = 1 if (y > y0 if down else x > x0) else -1
    back = 9 * sign
    head = (
        f"{x},{y} {x - 5},{y - back} {x + 5},{y - back}" if down else f"{x},{y} {x - back},{y - 5} {x - back},{y + 5}"
    )
    line = f'<polyline points="{path}" fill="none" stroke="#2f5fa7" stroke-width="2"/>'
    return f'{line}<polygon points="{head}" fill="#2f5fa7"/>'


def flow() -> str:
    width, gap = 164, 30
    parts = [box(16 + n * (width + gap), 20, width, 112, lines) for n, lines in enumerate(FLOW)]
    parts += [arrow([(16 + n * (width + gap) - gap, 76), (16 + n * (width + gap), 76)]) for n in range(1, len(FLOW))]
    last, decide = 16 + 4 * (width + gap) + width / 2, 16 + 2 * (width + gap) + width / 2
    parts.append(arrow([(last, 132), (last, 158), (decide, 158), (decide, 132)]))
    return svg(32 + 5 * width + 4 * gap, 176, "describe, discover, decide, run, learn", parts, scale=0.75)


def layers() -> str:
    parts, y = [], 16
    for n, (title, *lines) in enumerate(LAYERS):
        height = 38 + 19 * len(lines)
        parts.append(box(16, y, 568, height, (title, *lines)))
        if n:
            parts.append(arrow([(300, y - 22), (300, y)]))
        y += height + 22
    return svg(600, y - 6, "data flow through modak's packages", parts)


def definitions() -> dict[str, dict[str, Any]]:
    """Return modak's own types: node, policy, artifact and relationship types by name, each with its kind."""
    result: dict[str, dict[str, Any]] = {}
    for name in FILES:
        data = yaml.safe_load((TYPES / f"{name}.yaml").read_text())
        for kind in ("node_types", "policy_types", "artifact_types", "relationship_types"):
            for key, value in (data.get(kind) or {}).items():
                result[key] = {**value, "kind": kind}
    return result


def tree(types: dict[str, dict[str, Any]]) -> str:
    """Return the picture of the node types, each below the one that it is derived from."""
    nodes = {key: value["derived_from"] for key, value in types.items() if value["kind"] == "node_types"}
    parts: list[str] = []
    row = 0

    def draw(name: str, depth: int) -> float:
        nonlocal row
        x, y = 16 + depth * 40, 16 + row * 34
        row += 1
        parts.append(f'<rect x="{x}" y="{y}" width="360" height="26" rx="6" fill="#ffffff" stroke="#2f5fa7"/>')
        parts.append(f'<text class="t" x="{x + 10}" y="{y + 18}">{escape(name)}</text>')
        for child in sorted(key for key, parent in nodes.items() if parent == name):
            middle = draw(child, depth + 1)
            points = f"{x + 18},{y + 26} {x + 18},{middle} {x + 40},{middle}"
            parts.append(f'<polyline points="{points}" fill="none" stroke="#2f5fa7"/>')
        return y + 13

    for root in sorted(set(nodes.values()) - set(nodes)):
        draw(root, 0)
    return svg(480, 16 + row * 34, "node types and what they are derived from", parts)


def page(types: dict[str, dict[str, Any]]) -> str:
    """Return the page of all types with their own properties."""
    text = """# TOSCA types

The types that a blueprint can use after `imports: [modak/modak.yaml]`. [Blueprints](blueprints.md) explains how to use
them, and the [tutorial](tutorials/tosca.md) starts with a first blueprint. This page is generated from the type library
by `python scripts/pictures.py`.

![Node types and what they are derived from](pictures/types.svg)
"""
    titles = {
        "node_types": "Node",
        "policy_types": "Policy",
        "artifact_types": "Artifact",
        "relationship_types": "Relationship",
    }
    for kind, title in titles.items():
        text += f"\n## {title} types\n"
        for name, value in types.items():
            if value["kind"] == kind:
                text += f"\n### {name}\n\n{' '.join(str(value.get('description', '')).split())}\n\n"
                text += f"Derived from `{value['derived_from']}`.\n"
                text += properties(value.get("properties") or {})
    return text


def type_of(name: str) -> str:
    """Return the name of a type; for a data type of modak a link to its keys, which are those of a document."""
    short = name.removeprefix("modak.datatypes.")
    return f"[{short}](reference.md#{KEYS[short]})" if short != name else name


def default_of(declared: dict[str, Any]) -> str:
    """Return the default, "required" where there is none, or nothing where the default means "not given"."""
    if "default" not in declared:
        return "required" if declared.get("required", True) else ""
    value = declared["default"]
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if value else ""


def properties(declared: dict[str, Any]) -> str:
    if not declared:
        return ""
    rows = []
    for name, value in declared.items():
        meaning = " ".join(str(value.get("description", "")).split()).replace("|", "\\|").replace("``", "`")
        rows.append(f"| `{name}` | {type_of(value['type'])} | {default_of(value)} | {meaning} |")
    return "\n| property | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def memory(folder: Path) -> str:
    """Return the drawing of memory in a study's report, with its legend, as a picture that needs no style sheet."""
    drawing = memory_drawing(read_finished(folder))
    if drawing is None:
        raise SystemExit(f"{folder}: no memory was sampled")
    colours = ("#1f6fb2", "#d1661c", "#2f855a", "#8b3fa8", "#a0303a", "#6b6b1f")
    style = ".grid{stroke:#d5dbe3}.line{fill:none;stroke-width:2}.band{opacity:.2}"
    style += "".join(f".line.s{n}{{stroke:{c}}}.band.s{n}{{fill:{c}}}" for n, c in enumerate(colours, start=1))
    parts = [
        f"<style>{style}</style>",
        str(drawing.svg).replace("<svg ", f'<svg x="8" y="8" width="{WIDTH}" height="{HEIGHT}" font-size="11" ', 1),
    ]
    for number, (kind, label) in enumerate(drawing.key):
        x = 70 + 150 * number
        parts.append(f'<line class="line {kind}" x1="{x}" y1="{HEIGHT + 22}" x2="{x + 24}" y2="{HEIGHT + 22}"/>')
        parts.append(f'<text class="t" x="{x + 30}" y="{HEIGHT + 26}">{escape(label)}</text>')
    return svg(WIDTH + 16, HEIGHT + 38, drawing.title, parts)


def main() -> int:
    types = definitions()
    texts = {
        "pictures/flow.svg": flow(),
        "pictures/layers.svg": layers(),
        "pictures/types.svg": tree(types),
        "pictures/study-memory.svg": memory(STUDY),
        "types.md": page(types),
    }
    outdated = [name for name, text in texts.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text]
    if "--check" in sys.argv[1:]:
        if outdated:
            print(f"run python scripts/pictures.py: {', '.join(outdated)}", file=sys.stderr)
        return 1 if outdated else 0
    for name in outdated:
        (DOCS / name).write_text(texts[name])
    return 0


if __name__ == "__main__":
    sys.exit(main())
