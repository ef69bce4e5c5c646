"""Rows of two tables paired with those that say the same, wherever they stand."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate, pairwise

from judges.catalogue.parts.csv_tables import EXACT, Cell, apart
from judges.errors import CannotJudge

TableRow = tuple[Cell, ...]
RowPair = tuple[int, int]
_Numbers = tuple[Decimal, ...]

_STEPS = 4_000_000
"""Comparisons of rows that may be made: about ten seconds."""


def matched(rows: Sequence[TableRow], others: Sequence[TableRow], *, tolerance: Decimal) -> list[RowPair]:
    """Pair as many rows as can be with one that says the same; equal rows in any case.

    Raises:
        CannotJudge: `undefined`, if too many rows are within the tolerance of one another.
    """
    equal = _equal(rows, others)
    if not tolerance or not all(unpaired(equal, len(rows), len(others))):
        return equal
    pairing = _Pairing(_numbers(rows), _numbers(others), equal, tolerance)
    for mine, theirs in _groups(rows, others, tolerance):
        pairing.extend(mine, theirs)
    return pairing.pairs


def unpaired(pairs: Iterable[RowPair], count: int, of_others: int) -> tuple[list[int], list[int]]:
    """List the rows, and the other rows, that have no partner."""
    known = list(pairs)
    mine, theirs = {one for one, _ in known}, {one for _, one in known}
    return [n for n in range(count) if n not in mine], [n for n in range(of_others) if n not in theirs]


def sorted_by_value(rows: Sequence[TableRow], places: Iterable[int]) -> list[int]:
    """Sort rows by their cells: missing values, then numbers, then texts."""
    return sorted(places, key=lambda place: [_rank(one) for one in rows[place]])


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
    """Part both tables into the rows that may say the same: the same texts, and numbers of the same run."""
    runs = [_runs(column, tolerance) for column in zip(*rows, *others, strict=True)]
    groups: Mapping[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, table in enumerate((rows, others)):
        for place, row in enumerate(table):
            groups[tuple(run.get(one, one) for run, one in zip(runs, row, strict=True))][side].append(place)
    return groups.values()


def _runs(column: Iterable[Cell], tolerance: Decimal) -> Mapping[Cell, int]:
    """Count runs of numbers, each within the tolerance of the next."""
    numbers = sorted({one for one in column if isinstance(one, Decimal)})
    gaps = (apart(one, other) > tolerance for one, other in pairwise(numbers))
    return dict(zip(numbers, accumulate(gaps, initial=0), strict=False))


def _numbers(rows: Iterable[TableRow]) -> list[_Numbers]:
    return [tuple(one for one in row if isinstance(one, Decimal)) for row in rows]


class _Pairing:
    """Pairs of rows, grown to as many as can be: rows may change partners, but none is left without.

    Args:
        rows: The numbers of each row.
        others: Those of the other rows.
        pairs: The rows that have a partner.
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

    def extend(self, mine: Sequence[int], theirs: Sequence[int]) -> None:
        """Pair the rows of a group, sorted by the column whose numbers are the furthest apart."""
        single = [row for row in mine if row not in self._other_of]
        if not single or all(other in self._row_of for other in theirs):
            return
        columns = zip(*(self._rows[row] for row in mine), *(self._others[other] for other in theirs), strict=True)
        spreads = [apart(min(column), max(column)) for column in columns]
        self._column = spreads.index(max(spreads))
        self._checked = [n for n, one in enumerate(spreads) if one > self._tolerance and n != self._column]
        ordered = sorted(theirs, key=self._number)
        self._free = [other for other in ordered if other not in self._row_of]
        self._taken = [other for other in ordered if other in self._row_of]
        for row in sorted(single, key=lambda row: self._rows[row][self._column]):
            self._pair(row)

    def _pair(self, start: int) -> None:
        """Search from row to row, over the partners each could take, for one that is free.

        What is reached in vain leads to none in later searches either, and is left out of them.
        """
        reached_by: dict[int, int] = {}
        queue, asked, rest = [start], set[_Numbers](), self._taken.copy()
        for row in queue:
            if self._rows[row] in asked:
                continue
            asked.add(self._rows[row])
            free = self._free_near(row)
            if free is not None:
                self._change(free, {**reached_by, free: row})
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

    def _change(self, free: int, reached_by: Mapping[int, int]) -> None:
        """Give the free one to the row that reached it, and what that row had to the one that reached that."""
        self._free.remove(free)
        insort(self._taken, free, key=self._number)
        other: int | None = free
        while other is not None:
            row = self._row_of[other] = reached_by[other]
            last = self._other_of.get(row)
            self._other_of[row] = other
            other = last

    def _window(self, row: int, others: Sequence[int]) -> slice:
        """Give where the others stand whose number in the column sorted by is within the tolerance."""
        number = self._rows[row][self._column]
        least, most = EXACT.subtract(number, self._tolerance), EXACT.add(number, self._tolerance)
        return slice(bisect_left(others, least, key=self._number), bisect_right(others, most, key=self._number))

    def _number(self, other: int) -> Decimal:
        return self._others[other][self._column]

    def _fits(self, row: int, other: int) -> bool:
        """Tell whether the numbers of the remaining columns are within the tolerance."""
        self._steps += 1
        if self._steps > _STEPS:
            raise CannotJudge("undefined", "too many rows are within the tolerance of one another")
        one, another = self._rows[row], self._others[other]
        return all(apart(one[n], another[n]) <= self._tolerance for n in self._checked)
