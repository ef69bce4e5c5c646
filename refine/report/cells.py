"""Cells that several sections have: figures with their intervals."""

from __future__ import annotations

from judges.offline.statistics.figure import Figure
from refine.report import wording
from refine.report.document import Cell, Range

UNKNOWN = Cell(wording.DASH, tone="soft")


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
