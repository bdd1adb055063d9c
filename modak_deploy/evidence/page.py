"""The report as one HTML page without scripts, and as CSV."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from modak_deploy.evidence.view import Drawing, Facts, Intervals, Report, Section, Table, Timeline, Value
from modak_deploy.terminal import visible

_KINDS = {Intervals: "intervals", Drawing: "drawing", Table: "table", Timeline: "timeline", Facts: "facts"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet takes a text for a formula."""


def prepare() -> None:
    """Compile the page's template, which the first page would wait for."""
    _template("report.html.j2")


def render(report: Report) -> str:
    """Return the page; it needs nothing beside it, and its policy lets a browser load nothing."""
    report = replace(report, sections=_distinct(report.sections))
    return _template("report.html.j2").render(report=report, style=Markup(_text("report.css")))  # noqa: S704 - ours


def _distinct(sections: Sequence[Section]) -> list[Section]:
    """Return the sections with titles that tell them apart, as screen readers list them."""
    seen: Counter[str] = Counter()
    distinct = []
    for section in sections:
        seen[section.title] += 1
        number = seen[section.title]
        distinct.append(section if number == 1 else replace(section, title=f"{section.title} ({number})"))
    return distinct


def render_csv(report: Report) -> str:
    """Return the report's numbers, one a line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["section", "subject", "quantity", "value", "low", "high", "unit", "basis"])
    writer.writerows(_line(value) for value in report.values)
    return text.getvalue()


def _line(value: Value) -> list[str]:
    texts = [_cell(value.section), _cell(value.subject), _cell(value.quantity)]
    shown = _cell(value.value) if isinstance(value.value, str) else _number(value.value)
    return [*texts, shown, _number(value.low), _number(value.high), _cell(value.unit), _cell(value.basis)]


def _cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula (OWASP, "CSV Injection")."""
    shown = visible(text).replace("\n", " ")
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.9g}"


@cache
def _template(name: str) -> Template:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # What could reorder or hide text on a page is shown as an escape; HTML has no place for other controls either.
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    environment.tests["of_kind"] = lambda part, kind: _KINDS[type(part)] == kind
    return environment.from_string(_text(name))


def _text(name: str) -> str:
    return files("modak_deploy.evidence").joinpath("data", name).read_text(encoding="utf-8")
