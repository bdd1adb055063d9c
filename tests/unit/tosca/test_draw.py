"""Pictures of blueprints."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from modak_deploy.tosca.draw import mermaid, picture, svg
from modak_deploy.tosca.service import load

SPACE = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    """Return the root of an SVG document that was made here."""
    return ElementTree.fromstring(text)  # noqa: S314


def test_mermaid_tells_nodes_hosts_and_order(base: Path) -> None:
    assert mermaid(picture(load(base))) == (
        "flowchart TD\n"
        '    n0[("cluster<br/>Cluster<br/>login")]:::target\n'
        '    n1(["checked<br/>Checked"]):::other\n'
        '    n2["train<br/>AITraining<br/>train.py<br/>2 nodes"]:::job\n'
        '    n1 -->|"checks"| n0\n'
        '    n2 -->|"runs on"| n0\n'
        '    n2 -->|"after"| n1\n'
        "    classDef job fill:#eef4ff,stroke:#2f5fa7\n"
        "    classDef target fill:#eefaf0,stroke:#2e7d4f\n"
        "    classDef other fill:#f6f6f6,stroke:#666666\n"
    )


def test_inputs_are_shown_with_their_values(base: Path) -> None:
    assert 'n0[("cluster<br/>Cluster<br/>hpc.example.org' in mermaid(picture(load(base), {"host": "hpc.example.org"}))


@pytest.mark.parametrize("text", ['a"b', "x]--> y", "<script>", "ü; rm", "#quot;"])
def test_what_a_user_writes_stays_text(base: Path, text: str) -> None:
    shown = picture(load(base), {"host": text})
    (line,) = (line for line in mermaid(shown).splitlines() if "n0[(" in line)
    inner = line.split("<br/>")[2].removesuffix('")]:::target')
    assert not set(inner) & set('"<>[]|')
    told = [element.text for element in parsed(svg(shown)).iter(f"{SPACE}text")]
    assert text in told


def test_svg_has_each_node_and_edge_within_its_size(base: Path) -> None:
    root = parsed(svg(picture(load(base))))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert [group.get("id") for group in root.iter(f"{SPACE}g")] == ["cluster", "checked", "train"]
    assert len([path for path in root.iter(f"{SPACE}path") if path.get("marker-end")]) == 3
    for box in root.iter(f"{SPACE}rect"):
        x, y, wide, high = (float(box.get(key, -1)) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= width - wide
        assert 0 <= y <= height - high


def test_boxes_do_not_overlap_and_stand_below_what_needs_them(base: Path) -> None:
    root = parsed(svg(picture(load(base))))
    places = {}
    for group in root.iter(f"{SPACE}g"):
        rect = group.find(f"{SPACE}rect")
        assert rect is not None
        places[group.get("id")] = (float(rect.get("x", 0)), float(rect.get("y", 0)))
    assert len(set(places.values())) == len(places)
    assert places["train"][1] < places["checked"][1] < places["cluster"][1]
