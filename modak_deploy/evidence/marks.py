"""The drawings of a report as inline SVG.

Own code, and little of it: what a report needs is a mark with its interval beside each row of a table, a divided bar,
and lines over two axes. Of the libraries, matplotlib writes text as outlines that neither a screen reader nor a dark
theme can use, pygal draws no intervals and refers to a script on another host, and plotly and vega bring megabytes of
JavaScript. Colours are classes, which the page's style sheet sets for light, dark and print. ElementTree escapes
whatever is put into text and attributes.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from markupsafe import Markup

from modak_deploy.terminal import visible

WIDTH, HEIGHT = 440, 300
"""Of a drawing with axes, in its own units: text of 12 units can be read at 360 pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 14, 12, 44
_LEAST = 1e-100
"""Of what is drawn to a logarithmic scale, as is its reciprocal the most: a ratio that a target reports may be any."""


@dataclass(frozen=True)
class Scale:
    """From values to a share of the width, 0 to 1."""

    low: float
    high: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return where a value lies; one beyond an end lies at the end."""
        low, high, here = self.low, self.high, value
        if self.logarithmic:
            low, high, here = math.log(low), math.log(high), math.log(max(value, 1e-300))
        return 0.5 if high <= low else min(1.0, max(0.0, (here - low) / (high - low)))

    def ticks(self) -> list[float]:
        """Return about five round values between the ends."""
        if self.logarithmic and self.high / self.low >= 8:
            steps: Sequence[float] = (1, 2, 5) if self.high / self.low < 300 else (1,)
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            rounds = [step * 10.0**power for power in powers for step in steps]
            rounds = [value for value in rounds if self.low <= value <= self.high]
            return rounds[:: math.ceil(len(rounds) / 7)]
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _round_step(raw: float) -> float:
    if raw <= 0 or not math.isfinite(raw):
        return 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= raw * 0.999))


def scale_of(values: Sequence[float], *, zero: bool = False, logarithmic: bool = False) -> Scale:
    """Return a scale that holds all values, with a margin."""
    finite = [value for value in values if math.isfinite(value) and (value > 0 or not logarithmic)] or [1.0]
    low, high = min(finite), max(finite)
    if logarithmic:
        low, high = (min(max(end, _LEAST), 1 / _LEAST) for end in (low, high))
        margin = max((high / low) ** 0.04, 1.02)
        return Scale(low / margin, high * margin, True)
    low = min(low, 0.0) if zero else low
    margin = (high - low or abs(high) or 1.0) * 0.04
    return Scale(low if zero and low == 0 else low - margin, high + margin)


@dataclass(frozen=True)
class Mark:
    """One row's value with its interval; ``other`` is a second value, drawn as a bar across."""

    value: float | None
    low: float | None = None
    high: float | None = None
    other: float | None = None
    kind: str = ""
    """``chosen``, ``bad``, ``default`` or nothing."""


def interval(mark: Mark, scale: Scale, reference: float | None = None) -> Markup:
    """Return a drawing as wide as its column; it only repeats the row's numbers, and is hidden from screen readers."""
    svg = _svg("0 0 1000 24", {"preserveAspectRatio": "none", "aria-hidden": "true", "class": "interval"})
    line = _liner(svg)
    if reference is not None:
        x = scale.at(reference) * 1000
        line("reference", x, 0, x, 24)
    kind = f" {mark.kind}" if mark.kind else ""
    if mark.low is not None and mark.high is not None:
        line(f"whisker{kind}", scale.at(mark.low) * 1000, 12, scale.at(mark.high) * 1000, 12)
    if mark.other is not None:
        x = scale.at(mark.other) * 1000
        line("measured", x, 3, x, 21)
    if mark.value is not None:
        x = scale.at(mark.value) * 1000
        # A line without length and with round ends is a dot that the stretched drawing does not distort.
        line(f"dot{kind}", x, 12, x, 12)
    return _markup(svg)


def divided(parts: Sequence[tuple[str, float]]) -> Markup:
    """Return a bar divided into parts, each with its class."""
    svg = _svg("0 0 1000 30", {"preserveAspectRatio": "none", "aria-hidden": "true", "class": "divided"})
    total = sum(share for _, share in parts) or 1.0
    x = 0.0
    for name, share in parts:
        width = 1000 * share / total
        ET.SubElement(svg, "rect", {"class": name, "x": _n(x), "y": "0", "width": _n(width), "height": "30"})
        x += width
    return _markup(svg)


@dataclass(frozen=True)
class Line:
    """One series over two axes: dots, a line, or a band between ``low`` and ``high``."""

    label: str
    points: Sequence[tuple[float, float]]
    kind: str
    """A class of the style sheet: ``s1`` to ``s6``."""
    band: Sequence[tuple[float, float, float]] = ()
    dots: bool = False
    joined: bool = True


@dataclass(frozen=True)
class Axes:
    """What is written at the axes."""

    title: str
    x: str
    y: str
    x_text: Callable[[float], str] = "{:g}".format
    y_text: Callable[[float], str] = "{:g}".format
    x_log: bool = False
    y_log: bool = False


def lines(axes: Axes, series: Sequence[Line]) -> Markup:
    """Return a drawing with axes; its title says what it shows."""
    xs = [x for entry in series for x, _ in entry.points] + [x for entry in series for x, _, _ in entry.band]
    ys = [y for entry in series for _, y in entry.points] + [
        y for entry in series for _, a, b in entry.band for y in (a, b)
    ]
    horizontal, vertical = (
        scale_of(xs, logarithmic=axes.x_log),
        scale_of(ys, zero=not axes.y_log, logarithmic=axes.y_log),
    )
    svg = _svg(f"0 0 {WIDTH} {HEIGHT}", {"role": "img", "class": "axes"})
    ET.SubElement(svg, "title").text = visible(axes.title)
    line = _liner(svg)

    def across(value: float) -> float:
        return _LEFT + horizontal.at(value) * (WIDTH - _LEFT - _RIGHT)

    def up(value: float) -> float:
        return HEIGHT - _BOTTOM - vertical.at(value) * (HEIGHT - _TOP - _BOTTOM)

    for value in vertical.ticks():
        line("grid", _LEFT, up(value), WIDTH - _RIGHT, up(value))
        _text(svg, axes.y_text(value), _LEFT - 6, up(value) + 4, "end")
    for value in horizontal.ticks():
        line("grid", across(value), _TOP, across(value), HEIGHT - _BOTTOM)
        _text(svg, axes.x_text(value), across(value), HEIGHT - _BOTTOM + 16, "middle")
    _text(svg, axes.x, (WIDTH + _LEFT) / 2, HEIGHT - 6, "middle")
    label = _text(svg, axes.y, 0, 0, "middle")
    label.set("transform", f"translate(12 {(HEIGHT - _BOTTOM + _TOP) / 2:g}) rotate(-90)")
    for entry in series:
        _draw(svg, entry, across, up)
    return _markup(svg)


def _draw(svg: ET.Element, entry: Line, across: Callable[[float], float], up: Callable[[float], float]) -> None:
    if entry.band:
        there = [f"{_n(across(x))},{_n(up(high))}" for x, _, high in entry.band]
        back = [f"{_n(across(x))},{_n(up(low))}" for x, low, _ in reversed(entry.band)]
        ET.SubElement(svg, "polygon", {"class": f"band {entry.kind}", "points": " ".join([*there, *back])})
    if entry.joined and len(entry.points) > 1:
        points = " ".join(f"{_n(across(x))},{_n(up(y))}" for x, y in entry.points)
        ET.SubElement(svg, "polyline", {"class": f"line {entry.kind}", "points": points})
    if entry.dots:
        for x, y in entry.points:
            ET.SubElement(
                svg, "circle", {"class": f"point {entry.kind}", "cx": _n(across(x)), "cy": _n(up(y)), "r": "4"}
            )


def _svg(box: str, attributes: dict[str, str]) -> ET.Element:
    return ET.Element("svg", {"viewBox": box, "focusable": "false", **attributes})


def _liner(svg: ET.Element) -> Callable[[str, float, float, float, float], ET.Element]:
    def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> ET.Element:
        ends = {"x1": _n(x1), "y1": _n(y1), "x2": _n(x2), "y2": _n(y2)}
        return ET.SubElement(svg, "line", {"class": kind, **ends})

    return line


def _text(svg: ET.Element, text: str, x: float, y: float, anchor: str) -> ET.Element:
    element = ET.SubElement(svg, "text", {"x": _n(x), "y": _n(y), "text-anchor": anchor})
    element.text = visible(text)
    return element


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _markup(svg: ET.Element) -> Markup:
    return Markup(ET.tostring(svg, encoding="unicode"))  # noqa: S704 - ElementTree has escaped it
