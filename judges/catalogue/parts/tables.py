"""Tables: read from CSV, their columns typed, their rows paired and compared."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from itertools import accumulate, pairwise

from judges.errors import CannotJudge

_Cell = Decimal | str | None

EXACT = Context(prec=1000)
"""Adds numbers without rounding: a cell has up to 400 digits before the point and 342 after it."""

_INTEGER = re.compile(r"[+-]?\d{1,400}")
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
        place = self.places[name]
        return [row[place] for row in self.rows]

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where each column stands; a text that is no table may have as many as it has commas."""
        return {name: place for place, name in enumerate(self.columns)}


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
    """Return whether a text of one cell is rather an answer in words than the name of a column."""
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
    name_counts: Counter[str] = Counter()
    distinct = []
    for name in names:
        distinct.append(f"{name}.{name_counts[name]}" if name_counts[name] else name)
        name_counts[name] += 1
    return tuple(distinct)


def _read_cell(text: str) -> _Cell:
    """Return the value of a cell: a number, None for a missing value, or a text."""
    text = text.strip()
    if text in _NOTHING:
        return None
    return Decimal(str(_number_in(text))) if _is_number(text) else text


def _is_number(text: str) -> bool:
    """Return whether a cell is written as a number."""
    return bool(_NUMBER.fullmatch(text))


def _is_missing(text: str) -> bool:
    """Return whether a cell stands for a missing value."""
    return text in _NOTHING


def _number_in(text: str) -> int | float:
    """Parse a number, whole ones exactly."""
    return int(text) if _INTEGER.fullmatch(text) else float(text)


def _same_cell(a: _Cell, b: _Cell, *, tolerance: Decimal) -> bool:
    """Return whether two cells are equal; numbers may differ by the tolerance."""
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return _gap(a, b) <= tolerance
    return a == b


def _gap(a: Decimal, b: Decimal) -> Decimal:
    """Return the absolute difference of two numbers."""
    return Decimal(0) if a == b else EXACT.subtract(a, b).copy_abs()


_TableRow = tuple[_Cell, ...]
_RowPair = tuple[int, int]
_Numbers = tuple[Decimal, ...]

_STEPS = 4_000_000
"""Limit on comparisons of rows: about ten seconds."""


def _match_rows(rows: Sequence[_TableRow], others: Sequence[_TableRow], *, tolerance: Decimal) -> list[_RowPair]:
    """Pair as many rows as possible that are equal within the tolerance; exactly equal rows come first.

    Raises:
        CannotJudge: `undefined`, if too many rows are within the tolerance of one another.
    """
    equal = _equal(rows, others)
    if not tolerance or not all(unpaired_rows(equal, len(rows), len(others))):
        return equal
    pairing = _RowPairing(_numbers(rows), _numbers(others), equal, tolerance)
    for group, other_group in _groups(rows, others, tolerance):
        pairing.extend(group, other_group)
    return pairing.pairs


def unpaired_rows(pairs: Iterable[_RowPair], count: int, other_count: int) -> tuple[list[int], list[int]]:
    """Return the indices of the rows, and of the other rows, that have no partner."""
    paired = list(pairs)
    rows, others = {row for row, _ in paired}, {other for _, other in paired}
    return [n for n in range(count) if n not in rows], [n for n in range(other_count) if n not in others]


def _sorted_by_value(rows: Sequence[_TableRow], places: Iterable[int]) -> list[int]:
    """Sort rows by their cells: missing values, then numbers, then texts."""
    return sorted(places, key=lambda place: [_rank(value) for value in rows[place]])


def _rank(value: _Cell) -> tuple[int, Decimal, str]:
    if isinstance(value, Decimal):
        return 1, value, ""
    return (0, Decimal(0), "") if value is None else (2, Decimal(0), value)


def _equal(rows: Sequence[_TableRow], others: Sequence[_TableRow]) -> list[_RowPair]:
    waiting: dict[_TableRow, list[int]] = defaultdict(list)
    for place in range(len(others) - 1, -1, -1):
        waiting[others[place]].append(place)
    return [(place, waiting[row].pop()) for place, row in enumerate(rows) if waiting.get(row)]


def _groups(
    rows: Sequence[_TableRow], others: Sequence[_TableRow], tolerance: Decimal
) -> Iterable[tuple[list[int], list[int]]]:
    """Group the rows of both tables that may be equal: the same texts, and numbers of the same run."""
    runs = [_runs(column, tolerance) for column in zip(*rows, *others, strict=True)]
    groups: Mapping[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, table in enumerate((rows, others)):
        for place, row in enumerate(table):
            groups[tuple(run.get(value, value) for run, value in zip(runs, row, strict=True))][side].append(place)
    return groups.values()


def _runs(column: Iterable[_Cell], tolerance: Decimal) -> Mapping[_Cell, int]:
    """Map numbers to the index of their run, in which each is within the tolerance of the next."""
    numbers = sorted({value for value in column if isinstance(value, Decimal)})
    gaps = (_gap(number, following) > tolerance for number, following in pairwise(numbers))
    return dict(zip(numbers, accumulate(gaps, initial=0), strict=False))


def _numbers(rows: Iterable[_TableRow]) -> list[_Numbers]:
    return [tuple(value for value in row if isinstance(value, Decimal)) for row in rows]


class _RowPairing:
    """Pairs of rows, extended to as many as possible: rows may change partners, but none loses its partner.

    Args:
        rows: The numbers of each row.
        others: The numbers of each of the other rows.
        pairs: The rows that already have a partner.
        tolerance: By how much the numbers of a pair may differ.
    """

    def __init__(
        self, rows: Sequence[_Numbers], others: Sequence[_Numbers], pairs: Iterable[_RowPair], tolerance: Decimal
    ) -> None:
        self._rows, self._others, self._tolerance = rows, others, tolerance
        self._other_of = dict(pairs)
        self._row_of = {other: row for row, other in self._other_of.items()}
        self._steps = 0

    @property
    def pairs(self) -> list[_RowPair]:
        """The pairs, in the order of the rows."""
        return sorted(self._other_of.items())

    def extend(self, rows: Sequence[int], others: Sequence[int]) -> None:
        """Pair the rows of a group, sorted by the column with the widest range of numbers."""
        single = [row for row in rows if row not in self._other_of]
        if not single or all(other in self._row_of for other in others):
            return
        columns = zip(*(self._rows[row] for row in rows), *(self._others[other] for other in others), strict=True)
        spreads = [_gap(min(column), max(column)) for column in columns]
        self._column = spreads.index(max(spreads))
        self._checked = [n for n, spread in enumerate(spreads) if spread > self._tolerance and n != self._column]
        ordered = sorted(others, key=self._number)
        self._free = [other for other in ordered if other not in self._row_of]
        self._taken = [other for other in ordered if other in self._row_of]
        for row in sorted(single, key=lambda row: self._rows[row][self._column]):
            self._pair(row)

    def _pair(self, start: int) -> None:
        """Search from row to row, over the partners each could take, for a free one.

        Rows reached without success lead to no free one in later searches either, and are skipped there.
        """
        reached_by: dict[int, int] = {}
        queue, visited, rest = [start], set[_Numbers](), self._taken.copy()
        for row in queue:
            if self._rows[row] in visited:
                continue
            visited.add(self._rows[row])
            free = self._free_near(row)
            if free is not None:
                self._reassign(free, {**reached_by, free: row})
                return
            window = self._window(row, rest)
            near = [other for other in rest[window] if self._fits(row, other)]
            reached_by.update(dict.fromkeys(near, row))
            queue += [self._row_of[other] for other in near]
            rest[window] = [other for other in rest[window] if other not in reached_by]
        self._taken = rest

    def _free_near(self, row: int) -> int | None:
        window = self._window(row, self._free)
        places = range(window.start, window.stop)
        return next((self._free[place] for place in places if self._fits(row, self._free[place])), None)

    def _reassign(self, free: int, reached_by: Mapping[int, int]) -> None:
        """Assign the free partner to the row that reached it, that row's former partner to the next, etc."""
        self._free.remove(free)
        insort(self._taken, free, key=self._number)
        other: int | None = free
        while other is not None:
            row = self._row_of[other] = reached_by[other]
            former = self._other_of.get(row)
            self._other_of[row] = other
            other = former

    def _window(self, row: int, others: Sequence[int]) -> slice:
        """Return the slice of the others whose number in the sorting column is within the tolerance."""
        number = self._rows[row][self._column]
        least, most = EXACT.subtract(number, self._tolerance), EXACT.add(number, self._tolerance)
        return slice(bisect_left(others, least, key=self._number), bisect_right(others, most, key=self._number))

    def _number(self, other: int) -> Decimal:
        return self._others[other][self._column]

    def _fits(self, row: int, other: int) -> bool:
        """Return whether the numbers of the remaining columns are within the tolerance."""
        self._steps += 1
        if self._steps > _STEPS:
            raise CannotJudge("undefined", "too many rows are within the tolerance of one another")
        numbers, other_numbers = self._rows[row], self._others[other]
        return all(_gap(numbers[n], other_numbers[n]) <= self._tolerance for n in self._checked)


_TRUTHS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
_Same = Callable[[str, str], bool]


def _column_comparison(first: Sequence[str], second: Sequence[str]) -> _Same:
    """Return how datacompy compares two columns read by pandas: as numbers, or as texts if one has texts."""
    shared = min(len(first), len(second))
    kinds = _kind(first, joined_with=len(second)), _kind(second, joined_with=len(first))
    if (
        kinds != ("text", "text")
        and _is_numeric(first[:shared], kinds[0])
        and _is_numeric(second[:shared], kinds[1])
    ):
        return lambda a, b: _number(a) == _number(b)
    if kinds == ("text", "text"):
        return lambda a, b: (None if _is_missing(a) else a) == (None if _is_missing(b) else b)
    return lambda a, b: _as_text(a, kinds[0]) == _as_text(b, kinds[1])


def _kind(cells: Sequence[str], *, joined_with: int) -> str:
    """Return the kind of a column; whole numbers become fractions when joined with a longer column."""
    present = [cell for cell in cells if not _is_missing(cell)]
    if all(_is_number(cell.strip()) for cell in present):
        complete = len(present) == len(cells) >= joined_with
        whole = complete and all(_INTEGER.fullmatch(cell.strip()) for cell in present)
        return "whole" if whole else "number"
    return "truth" if all(cell in _TRUTHS for cell in present) else "text"


def _is_numeric(cells: Sequence[str], kind: str) -> bool:
    """Return whether cells can be read as numbers, although others of their column may be texts."""
    return kind != "text" or all(_is_missing(cell) or _is_number(cell.strip()) for cell in cells)


def _number(text: str) -> float | None:
    if _is_missing(text):
        return None
    return _TRUTHS[text] if text in _TRUTHS else _number_in(text.strip())


def _as_text(text: str, kind: str) -> str:
    """Return a cell as pandas writes the value of a column of this kind."""
    if _is_missing(text):
        return "nan"
    match kind:
        case "whole":
            return str(int(text))
        case "number":
            return str(float(text))
        case "truth":
            return str(bool(_TRUTHS[text]))
        case _:
            return text


@dataclass(frozen=True, kw_only=True)
class TableComparison:
    """What a table has in common with the expected one.

    Args:
        actual: The table.
        expected: The expected table.
        columns: The columns of both, in the order of the expected table.
        different: Those whose values differ.
        pairs: The equal rows, as indices in either table.
        keys: Columns that identify a row.
    """

    actual: Table
    expected: Table
    columns: Sequence[str]
    different: Sequence[str]
    pairs: Sequence[_RowPair]
    keys: Sequence[str] = ()

    @property
    def missing_columns(self) -> list[str]:
        """Expected columns that are missing."""
        return [name for name in self.expected.columns if name not in self.actual.places]

    @property
    def surplus_columns(self) -> list[str]:
        """Columns that are not expected."""
        return [name for name in self.actual.columns if name not in self.expected.places]

    def key(self, place: int) -> tuple[str, ...]:
        """Return the key of an expected row."""
        return tuple(self.expected.rows[place][self.expected.places[name]] for name in self.keys)


def by_position(actual: Table, expected: Table) -> TableComparison:
    """Compare rows of the same position, as datacompy does when it joins on the index."""
    actual, expected = (_rename(table, [name.lower() for name in table.columns]) for table in (actual, expected))
    columns = [name for name in expected.columns if name in actual.places]
    equal = [True] * min(len(actual.rows), len(expected.rows))
    different = []
    for name in columns:
        cells, expected_cells = actual.column(name), expected.column(name)
        same = _column_comparison(cells, expected_cells)
        column_equal = [same(a, b) for a, b in zip(cells, expected_cells, strict=False)]
        equal = [so_far and here for so_far, here in zip(equal, column_equal, strict=True)]
        if not all(column_equal):
            different.append(name)
    pairs = [(place, place) for place, is_equal in enumerate(equal) if is_equal]
    return TableComparison(actual=actual, expected=expected, columns=columns, different=different, pairs=pairs)


def by_value(
    actual: Table, expected: Table, *, keys: Sequence[str] = (), tolerance: float = 0.0
) -> TableComparison:
    """Compare rows wherever they stand.

    Equal rows are paired; the others by key or, without keys, in the order of the tables or sorted, whichever
    leaves fewer columns different.

    Raises:
        CannotJudge: `undefined`, if the expected table lacks a key column, or too many rows are near.
    """
    actual, expected = (_rename(table, [_fold(name) for name in table.columns]) for table in (actual, expected))
    keys = [_fold(name) for name in keys]
    if absent := [name for name in keys if name not in expected.places]:
        raise CannotJudge("undefined", f"the reference has no column {', '.join(map(repr, absent))}")
    columns = [name for name in expected.columns if name in actual.places]
    if not columns:
        return TableComparison(actual=actual, expected=expected, columns=(), different=(), pairs=(), keys=keys)
    rows, others = (_cells(table, columns) for table in (actual, expected))
    within = Decimal(str(tolerance))
    equal = _match_rows(rows, others, tolerance=within)
    left, right = unpaired_rows(equal, len(rows), len(others))
    places = [columns.index(name) for name in keys if name in columns]
    alternatives = [_by_key(rows, left, others, right, places)] if places else _in_turn(rows, left, others, right)
    different = min((_different(columns, rows, others, pairs, within) for pairs in alternatives), key=len)
    if not equal and not any(alternatives) and (rows or others):
        different = columns
    return TableComparison(
        actual=actual, expected=expected, columns=columns, different=different, pairs=equal, keys=keys
    )


def _different(
    columns: Sequence[str],
    rows: Sequence[_TableRow],
    others: Sequence[_TableRow],
    pairs: Sequence[_RowPair],
    tolerance: Decimal,
) -> Sequence[str]:
    return [
        name
        for place, name in enumerate(columns)
        if not all(_same_cell(rows[a][place], others[b][place], tolerance=tolerance) for a, b in pairs)
    ]


def _in_turn(
    rows: Sequence[_TableRow], left: Sequence[int], others: Sequence[_TableRow], right: Sequence[int]
) -> list[list[_RowPair]]:
    ordered = _sorted_by_value(rows, left), _sorted_by_value(others, right)
    return [list(zip(left, right, strict=False)), list(zip(*ordered, strict=False))]


def _by_key(
    rows: Sequence[_TableRow],
    left: Sequence[int],
    others: Sequence[_TableRow],
    right: Sequence[int],
    places: Sequence[int],
) -> list[_RowPair]:
    """Pair rows of the same key; rows that share a key are paired in order."""
    waiting: dict[_TableRow, list[int]] = {}
    for other in reversed(right):
        waiting.setdefault(_cells_at(others[other], places), []).append(other)
    return [(row, same_key.pop()) for row in left if (same_key := waiting.get(_cells_at(rows[row], places)))]


def _cells_at(row: _TableRow, places: Sequence[int]) -> _TableRow:
    return tuple(row[place] for place in places)


def _cells(table: Table, columns: Sequence[str]) -> list[_TableRow]:
    return list(zip(*([_read_cell(text) for text in table.column(name)] for name in columns), strict=True))


def _rename(table: Table, names: Sequence[str]) -> Table:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise CannotJudge("invalid_output", f"columns stand twice: {', '.join(twice)}")
    return Table(tuple(names), table.rows)


def _fold(name: str) -> str:
    return " ".join(name.split()).casefold()


_Weights = Sequence[Sequence[float | None]]
"""How well each row fits each column; None where the two cannot be paired."""

_PAIR_BONUS = 1e-9
"""Bonus for each pair, so that of two pairings of equal weight the one with more pairs wins."""

_Matching = list[tuple[int, int]]


def ordered_matching(weights: _Weights) -> _Matching:
    """Pair rows and columns without crossing, for the greatest sum of weights: O(rows * columns).

    With weights of 1 this is the longest common subsequence.
    """
    if not weights:
        return []
    best = [[0.0] * (len(weights[0]) + 1) for _ in range(len(weights) + 1)]
    for row in reversed(range(len(weights))):
        below, here = best[row + 1], best[row]
        for column in reversed(range(len(weights[0]))):
            most = max(below[column], here[column + 1])
            weight = weights[row][column]
            if weight is not None:
                most = max(most, _with_pair(weight, below[column + 1]))
            here[column] = most
    return _traceback(weights, best)


def _with_pair(weight: float, rest: float) -> float:
    return rest + weight + _PAIR_BONUS


def _traceback(weights: _Weights, best: Sequence[Sequence[float]]) -> _Matching:
    """Follow the best sums from the beginning, pairing as early as possible."""
    row = column = 0
    pairs: _Matching = []
    while row < len(weights) and column < len(weights[0]):
        weight, most = weights[row][column], best[row][column]
        if weight is not None and _with_pair(weight, best[row + 1][column + 1]) == most:
            pairs.append((row, column))
            row, column = row + 1, column + 1
        elif best[row + 1][column] == most:
            row += 1
        else:
            column += 1
    return pairs


def matching(weights: Sequence[Sequence[float]]) -> _Matching:
    """Pair as many rows and columns as possible, for the greatest sum of weights.

    The Hungarian method with potentials: O(k^2 * l) for k of the shorter and l of the longer side.
    """
    if not weights or not weights[0]:
        return []
    if len(weights) <= len(weights[0]):
        return sorted((row, column) for column, row in _assignment(weights).items())
    transposed = list(zip(*weights, strict=True))
    return sorted(_assignment(transposed).items())


def _assignment(weights: Sequence[Sequence[float]]) -> dict[int, int]:
    """Assign every row a column, row by row along the shortest augmenting path; return rows by column."""
    rows, columns = len(weights), len(weights[0])
    of_row, of_column = [0.0] * rows, [0.0] * (columns + 1)
    assigned = [-1] * (columns + 1)  # the last column is where each path begins
    for row in range(rows):
        assigned[columns] = row
        column = columns
        least, before = [float("inf")] * columns, [columns] * columns
        free, passed = list(range(columns)), [columns]
        while assigned[column] >= 0:
            here = assigned[column]
            line, base = weights[here], of_row[here]
            for other in free:
                slack = -line[other] - base - of_column[other]
                if slack < least[other]:
                    least[other], before[other] = slack, column
            step = min(least[other] for other in free)
            nearest = [other for other in free if least[other] == step]
            column = next((other for other in nearest if assigned[other] < 0), nearest[0])
            for other in passed:
                of_row[assigned[other]] += step
                of_column[other] -= step
            for other in free:
                least[other] -= step
            free.remove(column)
            passed.append(column)
        while column != columns:
            assigned[column] = assigned[before[column]]
            column = before[column]
    return {column: row for column, row in enumerate(assigned[:columns]) if row >= 0}
