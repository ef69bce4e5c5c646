"""Reading tables written as CSV, and the values of their cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal

from judges.errors import CannotJudge

Cell = Decimal | str | None

EXACT = Context(prec=1000)
"""Adds numbers without rounding: a cell has up to 400 digits before the point and 342 after it."""

INTEGER = re.compile(r"[+-]?\d{1,400}")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|[+-]?inf(?:inity)?", re.IGNORECASE)
_NOTHING = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
     "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
)  # fmt: skip
"""Texts that pandas reads as a missing value."""

_CELL = re.compile(
    r'(?:"(?P<quoted>[^"]*+(?:""[^"]*+)*+)(?P<closed>"?))?+(?P<plain>[^,\r\n]*+)(?P<end>,|\r\n?|\n|\Z)'
)
"""A cell and its end; `csv` cannot tell a quoted blank from a blank line, and its size limit is process-wide."""


@dataclass(frozen=True)
class Table:
    """A table: its column names, and its rows as texts; short rows are padded with empty cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """Return the cells of a column."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def table_in(text: str, *, called: str) -> Table:
    """Parse CSV with a header.

    Args:
        text: The CSV text.
        called: Name of the table in error messages.

    Raises:
        CannotJudge: `invalid_output`, if it is not CSV, or a row has more cells than the header. A header without
            rows is a table, the result of a query that finds nothing; a single sentence is none.
    """
    lines = list(_lines(text, called=called))
    if not lines:
        raise CannotJudge("invalid_output", f"the {called} is no table: it has no rows")
    if len(lines) == 1 and len(lines[0]) == 1 and _is_prose(lines[0][0]):
        raise CannotJudge("invalid_output", f"the {called} is no table: it has no rows")
    header, rows = lines[0], lines[1:]
    longest = max(map(len, rows), default=0)
    if longest > len(header):
        detail = f"a row has {longest} cells, the header {len(header)}"
        raise CannotJudge("invalid_output", f"the {called} is no CSV: {detail}")
    return Table(_distinct(header), tuple((*row, *[""] * (len(header) - len(row))) for row in rows))


def _is_prose(text: str) -> bool:
    """Whether a text of one cell is rather an answer in words than the name of a column."""
    return " " in text.strip() or text.strip().casefold() in {name.casefold() for name in _NOTHING}


def _lines(text: str, *, called: str) -> Iterator[list[str]]:
    """Yield the cells of each line that is not blank; a quoted blank is a cell."""
    line: list[str] = []
    for match in _CELL.finditer(text):
        if match["closed"] == "":
            raise CannotJudge("invalid_output", f"the {called} is no CSV: it ends inside a quoted cell")
        line.append((match["quoted"] or "").replace('""', '"') + match["plain"])
        if match["end"] != ",":
            if len(line) > 1 or match[0].strip():
                yield line
            line = []


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Number repeated names, as pandas does: `a`, `a.1`."""
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        distinct.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return tuple(distinct)


def cell(text: str) -> Cell:
    """Return the value of a cell: a number, None for a missing value, or a text."""
    text = text.strip()
    if text in _NOTHING:
        return None
    return Decimal(str(number_in(text))) if is_number(text) else text


def is_number(text: str) -> bool:
    """Whether a cell is written as a number."""
    return bool(_NUMBER.fullmatch(text))


def is_missing(text: str) -> bool:
    """Whether a cell stands for a missing value."""
    return text in _NOTHING


def number_in(text: str) -> int | float:
    """Parse a number, whole ones exactly."""
    return int(text) if INTEGER.fullmatch(text) else float(text)


def same_cell(a: Cell, b: Cell, *, tolerance: Decimal) -> bool:
    """Whether two cells are equal; numbers may differ by the tolerance."""
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return gap(a, b) <= tolerance
    return a == b


def gap(a: Decimal, b: Decimal) -> Decimal:
    """Return the absolute difference of two numbers."""
    return Decimal(0) if a == b else EXACT.subtract(a, b).copy_abs()
