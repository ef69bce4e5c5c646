"""Cells that several sections have: figures with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from judges.offline.statistics.figure import Figure
from refine.report import wording
from refine.report.document import Cell, Range, Table

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
