"""Tables in the terminal, and the one after an evaluation: a line for each judge, and below it what went wrong."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from judges.errors import plural
from judges.offline import Evaluation, Row, Summary

_COLOURS = {1: "red", 2: "yellow", 3: "green", 4: "bright_green"}
_BARS = " ▁▂▃▄▅▆▇█"
_MOST = len(_BARS) - 1
_PIPED_WIDTH = 100
"""Columns of sentences that are piped."""

_LEAST_WIDTH = 40
_INDENT = "  "
_GAP = "   "


def text_console(piped_width: int = _PIPED_WIDTH, *, stderr: bool = False) -> Console:
    """Return a console on stdout: as wide as the terminal or, of what is piped, as many columns as asked for."""
    console = Console(file=sys.stderr if stderr else sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = piped_width
    console.width = max(console.width, _LEAST_WIDTH)
    return console


def print_json(value: object) -> None:
    """Print a value as JSON, whatever the terminal."""
    sys.stdout.write(f"{json.dumps(value, ensure_ascii=False, indent=2, default=dict)}\n")


def print_result(text: object, value: object, *, as_json: bool) -> None:
    """Print what came of a command: as text, or as JSON."""
    if as_json:
        print_json(value)
    else:
        print_text(str(text))


def print_text(text: str, *, style: str = "", stderr: bool = False) -> None:
    """Print text: in a terminal no word is broken where a line ends, and what is piped stays as it is."""
    console = text_console(stderr=stderr)
    if not console.is_terminal:
        console.file.write(f"{text}\n")
        return
    lines = (line for part in text.split("\n") for line in _wrapped(part, console.width))
    console.print(Text("\n".join(lines), style=style), soft_wrap=True)


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line as lines that fit; words, paths, `p = 0.02`, `95 %` and `0.1 to 0.2` stay whole."""
    if cell_len(line) <= width:
        return [line]
    label = _LABEL.match(line)
    indent = len(line) - len(line.lstrip())
    hanging = indent + len(_INDENT) * bool(indent)
    if label is not None and len(label[0]) <= width // 2:
        hanging = len(label[0])
    parts = wrap(
        _TOGETHER.sub("\u00a0", line[indent:]),
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace("\u00a0", " ") for part in parts]


_LABEL = re.compile(r"\s*\S+(?: \S+)*\s{2,}(?=\S)")
_TOGETHER = re.compile(r"(?<==) | (?=[=%])|(?<=\d) (?=to [-+]?\d)|(?<=\d to) (?=[-+]?\d)")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Args:
        header: Its heading.
        label: What its values are called where they stand beside each other; empty is the heading.
        is_number: Whether its values are aligned to the right.
        style: Their colour.
    """

    header: str
    label: str = ""
    is_number: bool = False
    style: str = ""


def print_table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print a table; where it is wider than the terminal, each row as some lines, the first column as their title.

    No name is broken and no digit cut, however narrow the terminal is: a reader could not see that. What is piped
    is as wide as it needs to be.
    """
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in columns:
        table.add_column(
            column.header,
            justify="right" if column.is_number else "left",
            no_wrap=True,
            style=column.style,
            header_style=f"bold {column.style}".strip(),
        )
    for row in cells:
        table.add_row(*row)
    needed = console.measure(table, options=console.options.update(width=sys.maxsize)).maximum
    if not console.is_terminal:
        console.width = max(console.width, needed)
    if needed <= console.width:
        console.print(table)
        return
    for row in cells:
        for line in _stacked_lines(columns, row, console.width):
            console.print(line, soft_wrap=True)
    console.print()


def _stacked_lines(columns: Sequence[Column], row: Sequence[Text], width: int) -> Iterator[Text]:
    """Yield a row as lines of pairs of label and value; a pair is never divided."""
    title, *values = row
    if title.plain:
        label = f"{columns[0].label} " if columns[0].label else ""
        yield Text.assemble(label, title, style=columns[0].style or "bold")
    line = Text()
    for column, value in zip(columns[1:], values, strict=True):
        label = column.label or column.header
        text = ", ".join(" ".join(part.split()) for part in value.plain.splitlines())
        if not (label and text):
            continue
        pair = Text.assemble((f"{label} ", "dim"), (text, value.style))
        if line and line.cell_len + len(_GAP) + pair.cell_len > width:
            yield line
            line = Text()
        line = Text.assemble(line, _GAP if line else _INDENT, pair)
    yield line


class Faults:
    """The first fault of each kind and how often that kind occurred, to be printed below the table."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], tuple[int, str]] = {}
        self._times: dict[tuple[str, str], int] = {}
        self._contradicted: dict[str, list[int]] = {}

    def note(self, row: Row) -> None:
        """Count what is wrong with a row: it cannot be read, lacks verdicts, or has contradicted claims."""
        if row.error:
            self._count("", "unreadable", row.index, row.error)
            return
        for name, verdict in row.verdicts.items():
            if verdict.unscored is not None:
                self._count(name, verdict.unscored, row.index, verdict.detail)
            for part in verdict.failed_parts() if verdict.unscored is None else ():
                self._count(name, f"without {part.judge or 'a part'} ({part.unscored})", row.index, part.detail)
            if verdict.contradicted:
                self._contradicted.setdefault(name, []).append(row.index)

    def lines(self) -> list[str]:
        """Return a line for each kind of fault: how often, at which index of the results first, and why."""
        faults = [
            f"{self._times[kind]} x {' '.join(filter(None, kind))}, first at index {index}: {detail}".rstrip(": ")
            for kind, (index, detail) in self._first.items()
        ]
        return [*faults, *(_contradicted_line(name, rows) for name, rows in self._contradicted.items())]

    def _count(self, judge: str, reason: str, index: int, detail: str) -> None:
        kind = (judge, reason)
        self._first.setdefault(kind, (index, detail))
        self._times[kind] = self._times.get(kind, 0) + 1


_MOST_NAMED = 50
"""Most rows that a line names."""


def _contradicted_line(judge: str, rows: Sequence[int]) -> str:
    named = ", ".join(map(str, rows[:_MOST_NAMED])) + (", ..." if len(rows) > _MOST_NAMED else "")
    have = "has a claim that its" if len(rows) == 1 else "have claims that their"
    return f"{plural(len(rows), 'row')} {have} evidence contradicts ({judge}), at index {named}"


def print_results(summary: Mapping[str, Summary], faults: Faults, *, place: Path, seconds: float) -> None:
    """Print a line for each judge, the faults, and where the results are."""
    console = text_console()
    columns = (
        Column("judge"),
        Column("mean", is_number=True),
        *(
            Column("rated 1" if rating == 1 else f"{rating}", f"rated {rating}", is_number=True, style=colour)
            for rating, colour in _COLOURS.items()
        ),
        Column("passed", is_number=True),
        Column("unscored"),
        Column("tokens", is_number=True),
        Column("s/row", is_number=True),
    )
    digits = max(len(f"{number:,}") for figures in summary.values() for number in figures.ratings.values())
    bars = not console.options.ascii_only
    rows = [(Text(name), *_result_cells(figures, digits, bars=bars)) for name, figures in summary.items()]
    print_table(console, columns, rows)
    means = [f"{name} {_interval(one.mean_interval, '.3f')}" for name, one in summary.items() if one.mean_interval]
    if means:
        print_text(f" 95 % of means, over questions: {', '.join(means)}", style="dim")
    for line in faults.lines():
        print_text(f" ! {line}", style="yellow")
    total = next(iter(summary.values())).n
    print_text(f" {plural(total, 'row')} in {seconds:.1f} s, written to {place}", style="dim")


def _result_cells(summary: Summary, digits: int, *, bars: bool) -> list[str | Text]:
    most = max(summary.ratings.values())
    ratings = [_bar_and_count(number, most, digits, bars=bars) for number in summary.ratings.values()]
    unscored = "\n".join(f"{number:,} {reason}" for reason, number in summary.unscored.items())
    return [
        Text(_number(summary.mean, ".3f"), style="bold"),
        *ratings,
        _number(summary.passed, ".1%"),
        Text(unscored or "-", style="yellow" if unscored else "dim"),
        f"{summary.usage.tokens:,}",
        _number(summary.latency_s, ".2f"),
    ]


def _bar_and_count(number: int, most: int, digits: int, *, bars: bool) -> Text:
    """Return a count, with a bar as high as its share of the highest."""
    bar = _BARS[max(1, round(_MOST * number / most))] if bars and number else ""
    return Text(f"{bar} {number:>{digits},}", style="" if number else "dim")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


_SLICE_COLUMNS = (
    Column("judge"),
    Column("rows", is_number=True),
    Column("scored", is_number=True),
    Column("mean", is_number=True),
    Column("95 %", "95 % of means", is_number=True),
    Column("passed", is_number=True),
    Column("95 %", "95 % of passes", is_number=True),
)

_Slices = Mapping[str, Mapping[str, Mapping[str, Summary]]]


def slices_of(evaluation: Evaluation, columns: Sequence[str]) -> _Slices:
    """Return the figures of an evaluation by column, value and judge.

    Raises:
        ConfigurationError: If no row has one of the columns.
    """
    return {column: evaluation.slices(column) for column in columns}


def print_slices(slices: _Slices) -> None:
    """Print a table for each column."""
    for column, groups in slices.items():
        rows = [
            ((value or "(none)") if place == 0 else "", name, *_slice_cells(summary))
            for value, judges in groups.items()
            for place, (name, summary) in enumerate(judges.items())
        ]
        print_table(text_console(), [Column(column), *_SLICE_COLUMNS], rows)


def slices_as_json(slices: _Slices) -> dict[str, object]:
    """Return the same figures as plain data."""
    return {
        column: {
            value: {name: summary.model_dump(mode="json") for name, summary in judges.items()}
            for value, judges in groups.items()
        }
        for column, groups in slices.items()
    }


def _slice_cells(summary: Summary) -> tuple[str, ...]:
    return (
        f"{summary.n:,}",
        f"{summary.scored:,}",
        _number(summary.mean, ".3f"),
        _interval(summary.mean_interval, ".3f"),
        _number(summary.passed, ".1%"),
        _interval(summary.passed_interval, ".1%"),
    )


def _interval(ends: tuple[float, float] | None, form: str) -> str:
    return "-" if ends is None else f"{ends[0]:{form}} to {ends[1]:{form}}"
