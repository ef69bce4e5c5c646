"""Pairing equal rows of two tables, wherever they stand."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate, pairwise

from judges.catalogue.parts.csv_tables import EXACT, Cell, gap
from judges.errors import CannotJudge

TableRow = tuple[Cell, ...]
RowPair = tuple[int, int]
_Numbers = tuple[Decimal, ...]

_STEPS = 4_000_000
"""Limit on comparisons of rows: about ten seconds."""


def match_rows(rows: Sequence[TableRow], others: Sequence[TableRow], *, tolerance: Decimal) -> list[RowPair]:
    """Pair as many rows as possible that are equal within the tolerance; exactly equal rows come first.

    Raises:
        CannotJudge: `undefined`, if too many rows are within the tolerance of one another.
    """
    equal = _equal(rows, others)
    if not tolerance or not all(unpaired_rows(equal, len(rows), len(others))):
        return equal
    pairing = _Pairing(_numbers(rows), _numbers(others), equal, tolerance)
    for group, other_group in _groups(rows, others, tolerance):
        pairing.extend(group, other_group)
    return pairing.pairs


def unpaired_rows(pairs: Iterable[RowPair], count: int, other_count: int) -> tuple[list[int], list[int]]:
    """Return the indices of the rows, and of the other rows, that have no partner."""
    paired = list(pairs)
    rows, others = {row for row, _ in paired}, {other for _, other in paired}
    return [n for n in range(count) if n not in rows], [n for n in range(other_count) if n not in others]


def sorted_by_value(rows: Sequence[TableRow], places: Iterable[int]) -> list[int]:
    """Sort rows by their cells: missing values, then numbers, then texts."""
    return sorted(places, key=lambda place: [_rank(value) for value in rows[place]])


def _rank(value: Cell) -> tuple[int, Decimal, str]:
    if isinstance(value, Decimal):
        return 1, value, ""
    return (0, Decimal(0), "") if value is None else (2, Decimal(0), value)


def _equal(rows: Sequence[TableRow], others: Sequence[TableRow]) -> list[RowPair]:
    waiting: dict[TableRow, list[int]] = defaultdict(list)
    for place in range(len(others) - 1, -1, -1):
        waiting[others[place]].append(place)
    return [(place, waiting[row].pop()) for place, row in enumerate(rows) if waiting.get(row)]


def _groups(
    rows: Sequence[TableRow], others: Sequence[TableRow], tolerance: Decimal
) -> Iterable[tuple[list[int], list[int]]]:
    """Group the rows of both tables that may be equal: the same texts, and numbers of the same run."""
    runs = [_runs(column, tolerance) for column in zip(*rows, *others, strict=True)]
    groups: Mapping[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, table in enumerate((rows, others)):
        for place, row in enumerate(table):
            groups[tuple(run.get(value, value) for run, value in zip(runs, row, strict=True))][side].append(place)
    return groups.values()


def _runs(column: Iterable[Cell], tolerance: Decimal) -> Mapping[Cell, int]:
    """Map numbers to the index of their run, in which each is within the tolerance of the next."""
    numbers = sorted({value for value in column if isinstance(value, Decimal)})
    gaps = (gap(number, following) > tolerance for number, following in pairwise(numbers))
    return dict(zip(numbers, accumulate(gaps, initial=0), strict=False))


def _numbers(rows: Iterable[TableRow]) -> list[_Numbers]:
    return [tuple(value for value in row if isinstance(value, Decimal)) for row in rows]


class _Pairing:
    """Pairs of rows, extended to as many as possible: rows may change partners, but none loses its partner.

    Args:
        rows: The numbers of each row.
        others: The numbers of each of the other rows.
        pairs: The rows that already have a partner.
        tolerance: By how much the numbers of a pair may differ.
    """

    def __init__(
        self, rows: Sequence[_Numbers], others: Sequence[_Numbers], pairs: Iterable[RowPair], tolerance: Decimal
    ) -> None:
        self._rows, self._others, self._tolerance = rows, others, tolerance
        self._other_of = dict(pairs)
        self._row_of = {other: row for row, other in self._other_of.items()}
        self._steps = 0

    @property
    def pairs(self) -> list[RowPair]:
        """The pairs, in the order of the rows."""
        return sorted(self._other_of.items())

    def extend(self, rows: Sequence[int], others: Sequence[int]) -> None:
        """Pair the rows of a group, sorted by the column with the widest range of numbers."""
        single = [row for row in rows if row not in self._other_of]
        if not single or all(other in self._row_of for other in others):
            return
        columns = zip(*(self._rows[row] for row in rows), *(self._others[other] for other in others), strict=True)
        spreads = [gap(min(column), max(column)) for column in columns]
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
        """Whether the numbers of the remaining columns are within the tolerance."""
        self._steps += 1
        if self._steps > _STEPS:
            raise CannotJudge("undefined", "too many rows are within the tolerance of one another")
        numbers, other_numbers = self._rows[row], self._others[other]
        return all(gap(numbers[n], other_numbers[n]) <= self._tolerance for n in self._checked)
