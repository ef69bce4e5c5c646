"""The parts that a report is made of, before it is known whether it becomes a page or Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element, tostring

from judges import Verdict
from judges.offline.statistics.intervals import Figure
from refine.report import wording

Tone = Literal["plain", "soft", "good", "bad", "unsure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
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
class Part:
    """A part of a whole: its kind, which is its colour, how many, and what they are."""

    kind: str
    size: float
    name: str


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a whole, side by side in one bar."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """How many there are of each, as columns."""

    parts: tuple[Part, ...]


Mark = Range | Parts | Columns


@dataclass(frozen=True, slots=True)
class Cell:
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
class Table:
    """A table; the first column names its rows, and columns of numbers are aligned to the right.

    Args:
        columns: Names of the columns.
        rows: Its rows.
        numeric: Numbers of the columns with numbers, from 0.
        caption: What the table shows.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
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
class JudgedRow:
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


Block = Table | Paragraph | Charts | JudgedRow | RowList


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


_Child = Element | str | None | Iterable["Element | str | None"]

_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def h(tag: str, /, *children: _Child, **attributes: str | float | None) -> Element:
    """Return an element.

    Args:
        tag: Its name.
        children: Texts, elements, or several of them; None is nothing.
        attributes: Its attributes. `class_` is `class`, and `aria_label` is `aria-label`; None leaves one out.
    """
    element = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            element.set(name.rstrip("_").replace("_", "-"), clean(_attribute(value)))
    for child in children:
        for part in [child] if child is None or isinstance(child, str | Element) else child:
            _append(element, part)
    return element


def _attribute(value: str | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _append(element: Element, part: Element | str | None) -> None:
    if part is None:
        return
    if not isinstance(part, str):
        element.append(part)
    elif len(element):
        element[-1].tail = (element[-1].tail or "") + clean(part)
    else:
        element.text = (element.text or "") + clean(part)


def clean(text: str) -> str:
    """Return a text without characters that a page cannot hold."""
    return _NOT_TEXT.sub("\ufffd", text)


def html(element: Element) -> str:
    """Return an element as HTML. The texts of `script` and `style` are written as they are."""
    return tostring(element, encoding="unicode", method="html")


UNKNOWN = Cell(wording.DASH, tone="soft")


_ENDS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""Where a scale of small shares may end."""


def scale_end(shares: Sequence[float]) -> float:
    """Return where a scale ends that has room for all of some shares."""
    return next((end for end in _ENDS if end >= max(shares, default=1.0)), 1.0)


def filled_table(
    columns: tuple[str, ...], rows: tuple[tuple[Cell, ...], ...], numeric: frozenset[int], caption: str
) -> Table:
    """Return a table without the columns that say nothing in any row."""
    kept = [place for place in range(len(columns)) if place == 0 or any(row[place] != UNKNOWN for row in rows)]
    return Table(
        tuple(columns[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in rows),
        frozenset(kept.index(place) for place in kept if place in numeric),
        caption,
    )


def score_cell(figure: Figure) -> Cell:
    """Return a cell for a mean score from 0 to 1."""
    if figure.value is None:
        return UNKNOWN
    return Cell(
        wording.number(figure.value),
        wording.span(figure.low, figure.high),
        Range(value=figure.value, low=figure.low, high=figure.high),
    )


def share_cell(figure: Figure, *, reference: float | None = None) -> Cell:
    """Return a cell for a share."""
    if figure.value is None:
        return Cell(wording.why(figure), tone="soft") if figure.reason else UNKNOWN
    return Cell(
        wording.percent(figure.value),
        wording.span_percent(figure.low, figure.high),
        Range(value=figure.value, low=figure.low, high=figure.high, reference=reference),
    )
