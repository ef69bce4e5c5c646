"""The table printed after an evaluation: one line per judge, and below it what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from judges.offline import Row, Summary

_COLOURS = {1: "red", 2: "yellow", 3: "green", 4: "bright_green"}
_BARS = " ▁▂▃▄▅▆▇█"
_MOST = len(_BARS) - 1


class Faults:
    """The first fault of each kind and how often that kind occurred, to be printed below the table."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], tuple[int, str]] = {}
        self._times: dict[tuple[str, str], int] = {}

    def note(self, row: Row) -> None:
        """Count the unscored verdicts of a row, or the row itself if it could not be read."""
        if row.error:
            self._count("", "unreadable", row.index, row.error)
            return
        for name, verdict in row.verdicts.items():
            if verdict.unscored is not None:
                self._count(name, verdict.unscored, row.index, verdict.detail)

    def lines(self) -> list[str]:
        """Return a line for each kind of fault: how often, at which index of the results first, and why."""
        return [
            f"{self._times[kind]} x {' '.join(filter(None, kind))}, first at index {index}: {detail}"
            for kind, (index, detail) in self._first.items()
        ]

    def _count(self, judge: str, reason: str, index: int, detail: str) -> None:
        kind = (judge, reason)
        self._first.setdefault(kind, (index, detail))
        self._times[kind] = self._times.get(kind, 0) + 1


def show(console: Console, summary: Mapping[str, Summary], faults: Faults, *, place: Path, seconds: float) -> None:
    """Print the table, the faults, and where the results are."""
    console.print(_table(summary, bars=not console.options.ascii_only))
    for line in faults.lines():
        console.print(Text(f" ! {line}", style="yellow"), soft_wrap=True)
    rows = next(iter(summary.values())).n
    console.print(Text(f" {rows:,} rows in {seconds:.1f} s, written to {place}", style="dim"), soft_wrap=True)


def _table(summary: Mapping[str, Summary], *, bars: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("judge", overflow="fold")
    table.add_column("mean", justify="right")
    for rating, colour in _COLOURS.items():
        table.add_column(
            f"rated {rating}" if rating == 1 else f"{rating}",
            justify="right",
            style=colour,
            header_style=f"bold {colour}",
        )
    table.add_column("passed", justify="right")
    table.add_column("unscored", no_wrap=True)
    table.add_column("tokens", justify="right")
    table.add_column("s/row", justify="right")
    digits = max(len(f"{number:,}") for figures in summary.values() for number in figures.ratings.values())
    for name, figures in summary.items():
        table.add_row(name, *_cells(figures, digits, bars=bars))
    return table


def _cells(summary: Summary, digits: int, *, bars: bool) -> list[str | Text]:
    most = max(summary.ratings.values())
    ratings = [_count(number, most, digits, bars=bars) for number in summary.ratings.values()]
    unscored = "\n".join(f"{number:,} {reason}" for reason, number in summary.unscored.items())
    return [
        Text(_number(summary.mean, ".3f"), style="bold"),
        *ratings,
        _number(summary.passed, ".1%"),
        Text(unscored or "-", style="yellow" if unscored else "dim"),
        f"{summary.usage.tokens:,}",
        _number(summary.latency_s, ".2f"),
    ]


def _count(number: int, most: int, digits: int, *, bars: bool) -> Text:
    """Return a count, with a bar as high as its share of the highest."""
    bar = _BARS[max(1, round(_MOST * number / most))] if bars and number else ""
    return Text(f"{bar} {number:>{digits},}", style="" if number else "dim")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
