"""What a report says, before it becomes a page or a table: plain values, no markup but that of the drawings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from markupsafe import Markup

from modak_deploy.evidence.marks import Mark, Scale, interval, scale_of

Tone = Literal["", "good", "bad"]
Emphasis = Literal["", "chosen", "default", "bad"]


@dataclass(frozen=True)
class Figure:
    """One number that a reader is to remember."""

    label: str
    value: str
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Row:
    """A row of a table of values with intervals."""

    label: str
    text: str
    """The value in words, such as ``2.5 s``."""
    between: str = ""
    """Its interval."""
    note: str = ""
    mark: Mark = field(default_factory=lambda: Mark(None))
    emphasis: Emphasis = ""


@dataclass(frozen=True)
class Intervals:
    """A table with a drawn interval in each row."""

    title: str
    summary: str
    heads: tuple[str, str, str, str]
    """Of the label, the value, the interval and the note."""
    rows: Sequence[Row]
    reference: float | None = None
    legend: str = ""
    """What the drawing's marks mean."""
    logarithmic: bool = False
    zero: bool = False

    @property
    def scale(self) -> Scale:
        """The scale of all drawings."""
        marks = [row.mark for row in self.rows]
        values = [v for m in marks for v in (m.value, m.low, m.high, m.other) if v is not None]
        values += [self.reference] if self.reference is not None else []
        return scale_of(values, zero=self.zero, logarithmic=self.logarithmic)

    def drawing(self, row: Row) -> Markup:
        """Return the drawing of one row."""
        return interval(row.mark, self.scale, self.reference)

    @property
    def draws(self) -> bool:
        """Whether any row has something to draw."""
        return any(row.mark.value is not None or row.mark.low is not None for row in self.rows)


@dataclass(frozen=True)
class Drawing:
    """A drawing with axes."""

    title: str
    summary: str
    svg: Markup
    key: Sequence[tuple[str, str]] = ()
    """Class and label of each series."""


@dataclass(frozen=True)
class Table:
    """A plain table; the first column names the row."""

    title: str
    summary: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Phase:
    """A part of a job's time."""

    label: str
    kind: str
    """A class of the style sheet."""
    share: float
    """Seconds."""
    text: str


@dataclass(frozen=True)
class Timeline:
    """How a job's time was spent."""

    title: str
    summary: str
    svg: Markup
    phases: Sequence[Phase]


@dataclass(frozen=True)
class Facts:
    """A list of terms and what they are; shown folded where ``folded``."""

    title: str
    items: Sequence[tuple[str, str]]
    folded: bool = False


Part = Intervals | Drawing | Table | Timeline | Facts


@dataclass(frozen=True)
class Section:
    """One job, workload or benchmark."""

    title: str
    answer: str
    """One sentence that says what matters."""
    figures: Sequence[Figure] = ()
    parts: Sequence[Part] = ()


@dataclass(frozen=True)
class Value:
    """A line of the CSV file."""

    section: str
    subject: str
    quantity: str
    value: float | str | None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    basis: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    summary: str
    sections: Sequence[Section]
    values: Sequence[Value] = field(default_factory=list)
    notes: Sequence[str] = ()
    """How numbers are to be read."""
