"""What a report is made of, before it is known whether it becomes a page, Markdown or a table of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from judges import Verdict
from judges.offline import Row
from judges.offline.statistics.intervals import Figure

DASH = "–"

_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")

_REASONS = {
    "too_few": "too few rows",
    "one_class": "all rows are of one kind",
    "zero_variance": "nothing varies",
    "no_overlap": "no row has both",
    "not_identified": "the data cannot tell",
}


def clean(text: str) -> str:
    """Return a text without characters that a page cannot hold."""
    return _NOT_TEXT.sub("\ufffd", text)


def number(value: float | None, form: str = ".3f") -> str:
    """Return a number in a format of Python's."""
    return DASH if value is None else format(value, form)


def percent(value: float | None) -> str:
    """Return a share as a percentage; one that is not 0 or 100 % never reads as if it were."""
    if value is None:
        return DASH
    text = f"{value:.1%}"
    if text == "100.0%" and value < 1 - _ROUNDING:
        return "> 99.9%"
    return "< 0.1%" if text == "0.0%" and value > _ROUNDING else text


_ROUNDING = 1e-9
"""By how much an end of an interval that is 0 or 1 may miss it."""


def count(value: float) -> str:
    """Return a count with its thousands apart."""
    return f"{value:,.0f}"


def dollars(value: float | None) -> str:
    """Return US dollars, with as many digits as a small sum needs."""
    if value is None:
        return "unknown"
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.2g}" if value < 0.001 else f"${value:.4f}"  # noqa: PLR2004 - a tenth of a cent


def seconds(value: float | None) -> str:
    """Return a duration."""
    if value is None:
        return DASH
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def span(low: float | None, high: float | None, form: str = ".3f") -> str:
    """Return an interval in words; empty where there is none."""
    return "" if low is None or high is None else f"{format(low, form)} to {format(high, form)}"


def span_percent(low: float | None, high: float | None) -> str:
    """Return an interval of a share in words; empty where there is none."""
    return "" if low is None or high is None else f"{percent(low)} to {percent(high)}"


def why(figure: Figure) -> str:
    """Return why a figure has no value, and over how many rows."""
    reason = "" if figure.reason is None else _REASONS[figure.reason]
    return f"undefined: {reason} (n = {figure.n:,})" if reason else DASH


def reason(code: str) -> str:
    """Return a code such as `no_contexts` as words."""
    return code.replace("_", " ")


def p_value(p: float | None) -> str:
    """Return a p-value; a tiny one never reads as if it were 0."""
    return "< 0.001" if p is not None and p < 0.001 else number(p)  # noqa: PLR2004 - three digits are shown


def moment(time: str | None) -> str:
    """Return a time of ISO 8601 as a reader writes it."""
    if time is None:
        return "at an unknown time"
    when = datetime.fromisoformat(time)
    return f"{when.day} {when:%B %Y, %H:%M} {when.tzname() or ''}".strip()


Tone = Literal["plain", "soft", "good", "bad", "unsure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A value and its interval on a scale.

    Args:
        value: The value.
        low: Lower end of its interval; None without one.
        high: Upper end.
        least: Where the scale begins.
        most: Where it ends.
        reference: A value to compare with, drawn as a line: nothing changed, the largest tolerated share.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    least: float = 0.0
    most: float = 1.0
    reference: float | None = None


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a whole: its kind, which is its colour, how many, and what they are."""

    kind: str
    size: float
    name: str


@dataclass(frozen=True, slots=True)
class Bars:
    """How many there are of each: as shares of a whole, side by side in one bar, or as columns."""

    parts: tuple[BarPart, ...]
    are_columns: bool = False


@dataclass(frozen=True, slots=True)
class DiagramPoint:
    """A point of a reliability diagram: what was said, what is true with its interval, and of how many."""

    said: float
    true: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class ReliabilityDiagram:
    """How often what was said to be likely is true; on the diagonal it is as likely as was said."""

    points: tuple[DiagramPoint, ...]


@dataclass(frozen=True, slots=True)
class ScatterPlot:
    """Scores of the same answers in two runs, each from 0 to 1: the earlier, the later, and of how many rows."""

    points: tuple[tuple[float, float, int], ...]


Mark = Scale | Bars | ReliabilityDiagram | ScatterPlot


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table.

    Args:
        text: What it says.
        more: What it says in smaller letters below.
        mark: A drawing of the same.
        tone: How it is meant.
    """

    text: str
    more: str = ""
    mark: Mark | None = None
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table; the first column names its rows, and columns of numbers are aligned to the right.

    Args:
        columns: Names of the columns.
        rows: Its rows.
        numeric: Numbers of the columns with numbers, from 0.
        caption: What the table shows.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    numeric: frozenset[int] = frozenset()
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A few sentences."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Chart:
    """A larger drawing with a caption; `text` says the same in words."""

    caption: str
    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class Charts:
    """Charts beside each other."""

    charts: tuple[Chart, ...]


@dataclass(frozen=True, slots=True)
class WorstRow:
    """A row with what was asked, what was answered, and each judge's verdict."""

    index: int
    question: str
    answer: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class RowList:
    """Indexes of rows that belong together, with what happened to each."""

    title: str
    rows: tuple[tuple[int, str], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A long text that is shown on demand."""

    title: str
    text: str


Block = ReportTable | Paragraph | Charts | WorstRow | RowList | FoldedText


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the report.

    Args:
        key: What it is called in addresses.
        title: Its heading.
        blocks: What is in it.
    """

    key: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPair:
    """A row of the table of all rows.

    Args:
        index: Its index in the dataset.
        sides: The row in each run; None where a run does not have it.
        label: "good" or "bad", as people call the answer of the last run; empty where nobody did.
    """

    index: int
    sides: tuple[Row | None, ...]
    label: str = ""

    @property
    def row(self) -> Row:
        """The row in the last run that has it."""
        return next(row for row in reversed(self.sides) if row is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNames:
    """What a run and its judges are called."""

    name: str
    judges: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """All that a report says.

    Args:
        title: What it is called.
        headline: In one sentence, what was judged, with what, and when.
        sections: Its sections, in order.
        runs: One run, or two that are compared, the earlier one first.
        rows: All rows; none where there is nothing to list.
        columns: Columns of the metadata by which rows are grouped.
    """

    title: str
    headline: str
    sections: tuple[Section, ...]
    runs: tuple[RunNames, ...]
    rows: tuple[RowPair, ...]
    columns: tuple[str, ...] = ()


UNKNOWN = TableCell(DASH, tone="soft")


_ENDS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Where a scale of small shares may end."""


def scale_end(shares: Sequence[float]) -> float:
    """Return where a scale ends that has room for all of some shares."""
    return next((end for end in _ENDS if end >= max(shares, default=1.0)), 1.0)


def filled_table(
    columns: tuple[str, ...], rows: tuple[tuple[TableCell, ...], ...], numeric: frozenset[int], caption: str
) -> ReportTable:
    """Return a table without the columns that say nothing in any row."""
    filled_columns = [
        place for place in range(len(columns)) if place == 0 or any(row[place] != UNKNOWN for row in rows)
    ]
    return ReportTable(
        tuple(columns[place] for place in filled_columns),
        tuple(tuple(row[place] for place in filled_columns) for row in rows),
        frozenset(filled_columns.index(place) for place in filled_columns if place in numeric),
        caption,
    )


def share_cell(figure: Figure, *, reference: float | None = None) -> TableCell:
    """Return a cell for a share."""
    if figure.value is None:
        return TableCell(why(figure), tone="soft") if figure.reason else UNKNOWN
    return TableCell(
        percent(figure.value),
        span_percent(figure.low, figure.high),
        Scale(value=figure.value, low=figure.low, high=figure.high, reference=reference),
    )
