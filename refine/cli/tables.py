"""Text, JSON and tables in the terminal, in which no name is broken and no digit cut."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
