"""Pictures of a blueprint: what runs where, on which image, and what waits for what; as Mermaid text and as SVG."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from modak_deploy.tosca.deployments import JOB, TARGET, Resolver
from modak_deploy.tosca.references import requirements_of, target_of
from modak_deploy.tosca.service import Service
from modak_deploy.tosca.sodalite_types import JOB as SODALITE_JOB

WIDTH, HEIGHT, GAP, MARGIN, LINE, LANE = 230, 84, 64, 24, 17, 16
_COLOURS = {"job": ("#eef4ff", "#2f5fa7"), "target": ("#eefaf0", "#2e7d4f"), "other": ("#f6f6f6", "#666666")}
_STYLE = "font-family: sans-serif; font-size: 12px"
_LONGEST = 34


@dataclass(frozen=True)
class Box:
    """One node template as it is drawn."""

    name: str
    kind: str
    """job, target or other."""
    lines: tuple[str, ...]
    """What is said of it, below its name."""


@dataclass(frozen=True)
class Edge:
    """One requirement: ``source`` needs ``target``."""

    source: str
    target: str
    label: str


@dataclass(frozen=True)
class Picture:
    """Boxes by name, edges between them, and the layers from top to bottom in which the boxes stand."""

    title: str
    boxes: Mapping[str, Box]
    edges: tuple[Edge, ...]
    layers: tuple[tuple[str, ...], ...]


def picture(service: Service, inputs: Mapping[str, Any] | None = None) -> Picture:
    """Return what there is to draw of a blueprint without faults."""
    resolver = Resolver(service, inputs or {})
    boxes = {name: _box(service, resolver, name) for name in service.templates()}
    edges = tuple(
        Edge(name, target, _LABELS.get(requirement.name, requirement.name))
        for name, template in service.templates().items()
        for requirement in requirements_of(template)
        if (target := target_of(requirement)) in boxes
    )
    path = service.root.document.path
    return Picture(path.stem, boxes, edges, _layers(boxes, edges))


_LABELS = {
    "host": "runs on",
    "other_target": "may run on",
    "feed": "needs results of",
    "dependency": "after",
    "image": "uses",
}


def _box(service: Service, resolver: Resolver, name: str) -> Box:
    template = service.templates()[name]
    nodes_here = service.type_of(template)
    kind = "other"
    if nodes_here and any(service.types.derives("node_types", nodes_here.name, job) for job in (JOB, SODALITE_JOB)):
        kind = "job"
    elif nodes_here and service.types.derives("node_types", nodes_here.name, TARGET):
        kind = "target"
    short = nodes_here.name.rpartition(".")[2] if nodes_here else ""
    facts = _FACTS[kind](resolver.properties(template))
    return Box(name, kind, tuple(_cut(line) for line in (short, *facts) if line))


def _of_job(properties: Mapping[str, Any]) -> list[str]:
    program = properties.get("script") or properties.get("executable") or ""
    job = properties.get("job") or {}
    layout = [f"{job[key]} {key}" for key in ("nodes", "ranks", "gpus") if job.get(key)]
    return [str(program), str(properties.get("image") or ""), ", ".join(layout)]


def _of_target(properties: Mapping[str, Any]) -> list[str]:
    partitions = [str(p.get("name")) for p in properties.get("partitions") or []]
    return [str(properties.get("hostname") or "this machine"), ", ".join(partitions)]


_FACTS: Mapping[str, Any] = {"job": _of_job, "target": _of_target, "other": lambda _: []}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _layers(boxes: Mapping[str, Box], edges: tuple[Edge, ...]) -> tuple[tuple[str, ...], ...]:
    """Put every box below all that need it, targets at the bottom, and each near those that it is joined to."""
    depth = dict.fromkeys(boxes, 0)
    for _ in boxes:
        for edge in edges:
            depth[edge.target] = max(depth[edge.target], depth[edge.source] + 1)
    lowest = max(depth.values(), default=0)
    for name, box in boxes.items():
        if box.kind == "target":
            depth[name] = lowest
    rows: list[list[str]] = []
    for level in sorted(set(depth.values())):
        above = {name: position for position, name in enumerate(rows[-1])} if rows else {}
        row = [name for name in boxes if depth[name] == level]
        row.sort(key=lambda name: min((above.get(e.source, 99) for e in edges if e.target == name), default=99))
        rows.append(row)
    return tuple(tuple(row) for row in rows)


def mermaid(shown: Picture) -> str:
    """Return the picture as a Mermaid flow chart."""
    shapes = {"job": ("[", "]"), "target": ("[(", ")]"), "other": ("([", "])")}
    names = {name: f"n{number}" for number, name in enumerate(shown.boxes)}
    lines = ["flowchart TD"]
    for name, box in shown.boxes.items():
        left, right = shapes[box.kind]
        text = "<br/>".join(_entity(line) for line in (name, *box.lines))
        lines.append(f'    {names[name]}{left}"{text}"{right}:::{box.kind}')
    for edge in shown.edges:
        lines.append(f'    {names[edge.source]} -->|"{_entity(edge.label)}"| {names[edge.target]}')
    for kind, (fill, stroke) in _COLOURS.items():
        lines.append(f"    classDef {kind} fill:{fill},stroke:{stroke}")
    return "\n".join(lines) + "\n"


def _entity(text: str) -> str:
    """Return text with what Mermaid would take for its own as entities."""
    return "".join(c if c.isalnum() or c in " .,_-/:=+~" else f"#{ord(c)};" for c in text)


def svg(shown: Picture) -> str:
    """Return the picture as an SVG document."""
    level_of = {name: level for level, row in enumerate(shown.layers) for name in row}
    far = [edge for edge in shown.edges if level_of[edge.target] - level_of[edge.source] != 1]
    widest = max((len(row) for row in shown.layers), default=1)
    inner = widest * WIDTH + (widest - 1) * GAP
    width = 2 * MARGIN + inner + LANE * len(far)
    height = 2 * MARGIN + len(shown.layers) * HEIGHT + (len(shown.layers) - 1) * GAP
    positions: dict[str, tuple[float, float]] = {}
    for level, row in enumerate(shown.layers):
        left = MARGIN + (inner - len(row) * WIDTH - (len(row) - 1) * GAP) / 2
        for column, name in enumerate(row):
            positions[name] = (left + column * (WIDTH + GAP), MARGIN + level * (HEIGHT + GAP))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" style="{_STYLE}">',
        f"<title>{escape(shown.title)}</title>",
        '<defs><marker id="end" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M 0 0 L 10 5 L 0 10 z" fill="#444444"/></marker></defs>',
    ]
    parts += [
        _line(edge, positions, far.index(edge) + 1 if edge in far else None, MARGIN + inner) for edge in shown.edges
    ]
    parts += [_rectangle(box, *positions[name]) for name, box in shown.boxes.items()]
    return "\n".join([*parts, "</svg>", ""])


def _line(edge: Edge, positions: Mapping[str, tuple[float, float]], lane: int | None, right: float) -> str:
    """Return an edge to the next layer as a straight line; a longer one goes around the boxes, right of ``right``."""
    (x1, y1), (x2, y2) = positions[edge.source], positions[edge.target]
    x1, y1, x2 = x1 + WIDTH / 2, y1 + HEIGHT, x2 + WIDTH / 2
    if lane is None:
        path, label = f"M {x1:g} {y1:g} L {x2:g} {y2:g}", ((x1 + x2) / 2 + 5, (y1 + y2) / 2 + 4)
    else:
        # Each leaves and arrives a little further from the middle, so that none covers another.
        step = lane % 7
        x1, x2, leave, arrive = x1 + 14 * step, x2 + 14 * step, y1 + 10 + 5 * step, y2 - 14 - 5 * step
        path = f"M {x1:g} {y1:g} V {leave:g} H {right + lane * LANE:g} V {arrive:g} H {x2:g} V {y2:g}"
        label = (x1 + 5, leave - 3)
    return (
        f'<path d="{path}" fill="none" stroke="#444444" marker-end="url(#end)"/>'
        f'<text x="{label[0]:g}" y="{label[1]:g}" fill="#444444">{escape(edge.label)}</text>'
    )


def _rectangle(box: Box, x: float, y: float) -> str:
    fill, stroke = _COLOURS[box.kind]
    radius = {"job": 4, "target": 18, "other": 30}[box.kind]
    rectangle = (
        f'<g id={quoteattr(box.name)}><rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="{radius}" '
        f'fill="{fill}" stroke="{stroke}"/>'
    )
    top = y + (HEIGHT - LINE * (len(box.lines) + 1)) / 2 + 13
    texts = [
        f'<text x="{x + WIDTH / 2:g}" y="{top:g}" text-anchor="middle" font-weight="bold">{escape(box.name)}</text>'
    ]
    for number, line in enumerate(box.lines, 1):
        texts.append(
            f'<text x="{x + WIDTH / 2:g}" y="{top + number * LINE:g}" text-anchor="middle">{escape(line)}</text>'
        )
    return rectangle + "".join(texts) + "</g>"
