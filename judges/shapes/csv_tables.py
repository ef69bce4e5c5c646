"""Tables written as CSV: read, and their rows matched with those of another table."""

from __future__ import annotations

import csv
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from threading import Lock

from judges.errors import CannotJudge
from judges.shapes.pairing import fullest

Cell = int | float | str | None
Row = tuple[Cell, ...]
Pair = tuple[int, int]

INTEGER = re.compile(r"[+-]?\d{1,400}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?inf(?:inity)?", re.IGNORECASE)
_NOTHING = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
     "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
)  # fmt: skip
"""What stands for a missing value, as pandas reads it."""

_END = "\x1e end"
"""Put behind a table: inside quotes it would not become a row of its own."""

_LIMIT = Lock()
_SLACK = 1 + 1e-6
"""By how much of itself a tolerance is exceeded without harm: 1.1 - 1.0 is a little more than 0.1."""

_MOST_LOOKS = 2_000_000
"""The most pairs of rows that are looked at one by one."""


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
    try:
        lines = _lines(text)
    except csv.Error as error:
        raise CannotJudge("invalid_output", f"the {called} is no CSV: {error}") from error
    if len(lines) < 2:  # noqa: PLR2004 - header and one row
        raise CannotJudge("invalid_output", f"the {called} is no table: it has no rows")
    header, rows = lines[0], lines[1:]
    longest = max(map(len, rows))
    if longest > len(header):
        told = f"a row has {longest} cells, the header {len(header)}"
        raise CannotJudge("invalid_output", f"the {called} is no CSV: {told}")
    return Table(_distinct(header), tuple((*row, *[""] * (len(header) - len(row))) for row in rows))


def _lines(text: str) -> list[list[str]]:
    """Read the rows but blank ones; a cell that is quoted and empty is not blank.

    Raises:
        csv.Error: If the text ends inside quotes.
    """
    source = [*StringIO(text, newline=""), "\n", _END]
    with _cells_of(len(text)):
        reader = csv.reader(source)
        rows = [row for row in reader if len(row) > 1 or source[reader.line_num - 1].strip()]
    if rows.pop() != [_END]:
        raise csv.Error("it ends inside a quoted cell")
    return rows


@contextmanager
def _cells_of(length: int) -> Iterator[None]:
    """Let cells be this long; the limit is one of the whole process, so it is put back."""
    with _LIMIT:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, length + len(_END) + 1))
        try:
            yield
        finally:
            csv.field_size_limit(before)


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
    return number_in(text) if is_number(text) else text


def is_number(text: str) -> bool:
    """Tell whether a cell is written as a number."""
    return bool(_NUMBER.fullmatch(text))


def is_missing(text: str) -> bool:
    """Tell whether a cell stands for a missing value."""
    return text in _NOTHING


def number_in(text: str) -> int | float:
    """Read a number: whole ones exactly."""
    return int(text) if INTEGER.fullmatch(text) else float(text)


def same_cell(one: Cell, other: Cell, *, tolerance: float = 0.0) -> bool:
    """Tell whether two cells say the same; numbers may differ by the tolerance."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other or _close(one, other, tolerance)
    return one == other


def _close(one: float, other: float, tolerance: float) -> bool:
    try:
        return abs(one - other) <= tolerance * _SLACK
    except OverflowError:  # a whole number of hundreds of digits against a fraction
        return False


def matched(rows: Sequence[Row], others: Sequence[Row], *, tolerance: float = 0.0) -> list[Pair]:
    """Pair rows that say the same, each with one, whatever their order.

    With a tolerance, as many as can be are paired; where too many could be, they are gone through by size.
    """
    exact = _paired(rows, others)
    if not tolerance:
        return exact
    left, right = unpaired(exact, len(rows), len(others))
    groups: Mapping[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, places, table in ((0, left, rows), (1, right, others)):
        for place in places:
            groups[tuple("#" if _is_size(one) else (one,) for one in table[place])][side].append(place)
    return exact + [
        pair for mine, theirs in groups.values() for pair in _near(rows, mine, others, theirs, tolerance)
    ]


def unpaired(pairs: Iterable[Pair], count: int, of_others: int) -> tuple[list[int], list[int]]:
    """List the rows, and the other rows, that have no partner."""
    known = list(pairs)
    mine, theirs = {one for one, _ in known}, {one for _, one in known}
    return [n for n in range(count) if n not in mine], [n for n in range(of_others) if n not in theirs]


def sorted_by_value(rows: Sequence[Row], places: Iterable[int]) -> list[int]:
    """Sort rows by their cells: missing values, then numbers, then texts."""
    return sorted(places, key=lambda place: [_rank(one) for one in rows[place]])


def _paired(rows: Sequence[Row], others: Sequence[Row]) -> list[Pair]:
    waiting: dict[Row, list[int]] = defaultdict(list)
    for place in range(len(others) - 1, -1, -1):
        waiting[others[place]].append(place)
    return [(place, waiting[row].pop()) for place, row in enumerate(rows) if waiting.get(row)]


def _near(
    rows: Sequence[Row], mine: Sequence[int], others: Sequence[Row], theirs: Sequence[int], tolerance: float
) -> Iterable[Pair]:
    """Pair rows of the same texts by their numbers."""
    candidates = _candidates([rows[one] for one in mine], [others[one] for one in theirs], tolerance)
    if candidates is None:
        return _by_size(rows, mine, others, theirs, tolerance)
    return ((mine[row], theirs[other]) for row, other in fullest(candidates))


def _candidates(rows: Sequence[Row], others: Sequence[Row], tolerance: float) -> list[list[int]] | None:
    """List the rows that each row may be paired with; None if they are too many to be looked at."""
    places = range(len(rows[0])) if rows else ()
    sizes = {place: [row[place] for row in others] for place in places if others and _is_size(others[0][place])}
    if not sizes:
        return [list(range(len(others))) for _ in rows] if len(rows) * len(others) <= _MOST_LOOKS else None
    place = max(sizes, key=lambda one: len(set(sizes[one])))  # the column that leaves the fewest
    ordered = sorted(range(len(others)), key=lambda other: _rank(others[other][place]))
    ranks = [_rank(others[other][place]) for other in ordered]
    found: list[list[int]] = []
    looks = 0
    for row in rows:
        least, most = _around(row[place], tolerance * _SLACK)
        begin, end = bisect_left(ranks, _rank(least)), bisect_right(ranks, _rank(most))
        looks += end - begin
        if looks > _MOST_LOOKS:
            return None
        found.append([one for one in ordered[begin:end] if _alike(row, others[one], tolerance)])
    return found


def _around(value: Cell, reach: float) -> tuple[Cell, Cell]:
    try:
        return (value - reach, value + reach) if isinstance(value, int | float) else (value, value)
    except OverflowError:  # no fraction makes a difference to so large a number
        return value, value


def _alike(row: Row, other: Row, tolerance: float) -> bool:
    return all(same_cell(a, b, tolerance=tolerance) for a, b in zip(row, other, strict=True))


def _by_size(
    rows: Sequence[Row], mine: Sequence[int], others: Sequence[Row], theirs: Sequence[int], tolerance: float
) -> Iterable[Pair]:
    left, right = sorted_by_value(rows, mine), sorted_by_value(others, theirs)
    here = there = 0
    while here < len(left) and there < len(right):
        one, other = rows[left[here]], others[right[there]]
        if _alike(one, other, tolerance):
            yield left[here], right[there]
            here, there = here + 1, there + 1
        elif [_rank(a) for a in one] < [_rank(b) for b in other]:
            here += 1
        else:
            there += 1


def _is_size(value: Cell) -> bool:
    return isinstance(value, int | float)


def _rank(value: Cell) -> tuple[int, float, str]:
    if value is None:
        return 0, 0.0, ""
    return (2, 0.0, value) if isinstance(value, str) else (1, value, "")
