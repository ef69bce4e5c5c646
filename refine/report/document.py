"""The parts that a report is made of, before it is known whether it becomes a page or Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from judges import Verdict

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
