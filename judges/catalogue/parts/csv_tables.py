"""Tables written as CSV, and what their cells say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal

from judges.errors import CannotJudge

Cell = Decimal | str | None

EXACT = Context(prec=1000)
"""Adds numbers without rounding: a cell's digits reach from the 400th before the point to the 342nd behind it."""

INTEGER = re.compile(r"[+-]?\d{1,400}")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|[+-]?inf(?:inity)?", re.IGNORECASE)
_NOTHING = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
     "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
)  # fmt: skip
"""What stands for a missing value, as pandas reads it."""

_WRITTEN = re.compile(
    r'(?:"(?P<quoted>[^"]*+(?:""[^"]*+)*+)(?P<closed>"?))?+(?P<plain>[^,\r\n]*+)(?P<end>,|\r\n?|\n|\Z)'
)
"""A cell and what ends it; `csv` tells no quoted blank from a blank line, and its limit is that of the process."""


@dataclass(frozen=True)
class Table:
    """A table: the names of its columns, and its rows as they were written; a short row ends with empty cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """Give the cells of a column."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def table_in(text: str, *, called: str) -> Table:
    """Read CSV with a header.

    Raises:
        CannotJudge: `invalid_output`, if it is no CSV, has no rows, or a row has more cells than the header.
    """
    lines = list(_lines(text, called=called))
    if len(lines) < 2:  # noqa: PLR2004 - header and one row
        raise CannotJudge("invalid_output", f"the {called} is no table: it has no rows")
    header, rows = lines[0], lines[1:]
    longest = max(map(len, rows))
    if longest > len(header):
        told = f"a row has {longest} cells, the header {len(header)}"
        raise CannotJudge("invalid_output", f"the {called} is no CSV: {told}")
    return Table(_distinct(header), tuple((*row, *[""] * (len(header) - len(row))) for row in rows))


def _lines(text: str, *, called: str) -> Iterator[list[str]]:
    """Give the cells of each line but those that are blank; a quoted blank is a cell."""
    line: list[str] = []
    for one in _WRITTEN.finditer(text):
        if one["closed"] == "":
            raise CannotJudge("invalid_output", f"the {called} is no CSV: it ends inside a quoted cell")
        line.append((one["quoted"] or "").replace('""', '"') + one["plain"])
        if one["end"] != ",":
            if len(line) > 1 or one[0].strip():
                yield line
            line = []


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Number the names that stand more than once, as pandas does: `a`, `a.1`."""
    seen: Counter[str] = Counter()
    found = []
    for one in names:
        found.append(f"{one}.{seen[one]}" if seen[one] else one)
        seen[one] += 1
    return tuple(found)


def cell(text: str) -> Cell:
    """Read what a cell says: a number, a missing value, or a text."""
    text = text.strip()
    if text in _NOTHING:
        return None
    return Decimal(str(number_in(text))) if is_number(text) else text


def is_number(text: str) -> bool:
    """Tell whether a cell is written as a number."""
    return bool(_NUMBER.fullmatch(text))


def is_missing(text: str) -> bool:
    """Tell whether a cell stands for a missing value."""
    return text in _NOTHING


def number_in(text: str) -> int | float:
    """Read a number: whole ones exactly."""
    return int(text) if INTEGER.fullmatch(text) else float(text)


def same_cell(one: Cell, other: Cell, *, tolerance: Decimal) -> bool:
    """Tell whether two cells say the same; numbers may differ by the tolerance."""
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return apart(one, other) <= tolerance
    return one == other


def apart(one: Decimal, other: Decimal) -> Decimal:
    """Give by how much two numbers differ."""
    return Decimal(0) if one == other else EXACT.subtract(one, other).copy_abs()
