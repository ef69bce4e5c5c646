"""Figures by the values of a column: `--slice COLUMN` of `refine evaluate` and `refine show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from judges import ConfigurationError, Sample
from judges.errors import shortened
from judges.offline import Evaluation, Summary, load_run, read_rows

Slices = Mapping[str, Mapping[str, Mapping[str, Summary]]]

_WIDTH = 100
"""Columns of the tables if stdout is not a terminal."""


def check_columns(rows: Path, columns: Sequence[str], limit: int | None) -> None:
    """Check, before any model is asked, that each column is in the metadata of some row.

    Raises:
        ConfigurationError: If one is in none.
    """
    missing, known = set(columns), set[str]()
    for row in islice(read_rows(rows, errors="keep"), limit) if columns else ():
        if isinstance(row, Sample):
            known |= row.metadata.keys()
            missing -= row.metadata.keys()
        if not missing:
            return
    for column in columns:
        if column in missing:
            near = get_close_matches(column, known, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"there are {sorted(known)}" if known else "add it"
            raise ConfigurationError(
                f"--slice {shortened(column)}: no row has such a column in its metadata; {remedy}"
            )


def show_slices_of(folder: Path, columns: Sequence[str]) -> None:
    """Print the figures of a finished run by the values of each column.

    Raises:
        ConfigurationError: If no row has one of them.
    """
    if columns:
        show_slices(slices_of(load_run(folder), columns))


def slices_of(evaluation: Evaluation, columns: Sequence[str]) -> Slices:
    """Return the figures of an evaluation by column, value and judge.

    Raises:
        ConfigurationError: If no row has one of the columns.
    """
    return {column: evaluation.slices(column) for column in columns}


def show_slices(slices: Slices) -> None:
    """Print a table for each column."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    for column, groups in slices.items():
        console.print(_table(column, groups))


def slices_as_json(slices: Slices) -> dict[str, object]:
    """Return the same figures as plain data."""
    return {
        column: {
            value: {name: summary.model_dump(mode="json") for name, summary in judges.items()}
            for value, judges in groups.items()
        }
        for column, groups in slices.items()
    }


def _table(column: str, groups: Mapping[str, Mapping[str, Summary]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    for name in (column, "judge"):
        table.add_column(name, overflow="fold")
    for name in ("rows", "scored", "mean", "95 %", "passed", "95 %"):
        table.add_column(name, justify="right")
    for value, judges in groups.items():
        for place, (name, summary) in enumerate(judges.items()):
            first = (value or "(none)") if place == 0 else ""
            table.add_row(first, name, f"{summary.n:,}", f"{summary.scored:,}", *_figures(summary))
    return table


def _figures(summary: Summary) -> list[str]:
    mean = "-" if summary.mean is None else f"{summary.mean:.3f}"
    passed = "-" if summary.passed is None else f"{summary.passed:.1%}"
    return [mean, _span(summary.mean_interval, ".3f"), passed, _span(summary.passed_interval, ".1%")]


def _span(interval: tuple[float, float] | None, form: str) -> str:
    return "-" if interval is None else f"{interval[0]:{form}} to {interval[1]:{form}}"


def refuse_json(columns: Sequence[str], folder: Path) -> None:
    """Refuse a table where only JSON is printed.

    Raises:
        ConfigurationError: If there are columns.
    """
    if columns:
        raise ConfigurationError(
            f"--slice prints tables; leave out --json, or add `refine show {folder} --json --slice {columns[0]}`"
        )
