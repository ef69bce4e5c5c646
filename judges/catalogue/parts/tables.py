"""Two tables compared: which of their rows and columns are equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from judges.catalogue.parts.csv_tables import Table, cell, same_cell
from judges.catalogue.parts.table_rows import RowPair, TableRow, matched, sorted_by_value, unpaired
from judges.catalogue.parts.typed_columns import as_pandas
from judges.errors import CannotJudge


@dataclass(frozen=True, kw_only=True)
class TableComparison:
    """What a table has in common with the one wanted.

    Args:
        given: The table.
        wanted: The other.
        columns: The columns of both, in the order of the one wanted.
        different: Those whose values differ.
        pairs: The equal rows, as places in either table.
        keys: Columns that name a row.
    """

    given: Table
    wanted: Table
    columns: Sequence[str]
    different: Sequence[str]
    pairs: Sequence[RowPair]
    keys: Sequence[str] = ()

    @property
    def missing_columns(self) -> list[str]:
        """Columns wanted that are not there."""
        return [one for one in self.wanted.columns if one not in self.columns]

    @property
    def surplus_columns(self) -> list[str]:
        """Columns that are not wanted."""
        return [one for one in self.given.columns if one not in self.columns]

    def key(self, place: int) -> tuple[str, ...]:
        """Give what names a row that is wanted."""
        return tuple(self.wanted.rows[place][self.wanted.columns.index(one)] for one in self.keys)


def by_position(given: Table, wanted: Table) -> TableComparison:
    """Compare rows of the same position, as datacompy does when it joins on the index."""
    given, wanted = (_named(one, [name.lower() for name in one.columns]) for one in (given, wanted))
    columns = [one for one in wanted.columns if one in given.columns]
    equal = [True] * min(len(given.rows), len(wanted.rows))
    different = []
    for name in columns:
        mine, theirs = given.column(name), wanted.column(name)
        same = as_pandas(mine, theirs)
        alike = [same(one, other) for one, other in zip(mine, theirs, strict=False)]
        equal = [so_far and here for so_far, here in zip(equal, alike, strict=True)]
        if not all(alike):
            different.append(name)
    pairs = [(place, place) for place, one in enumerate(equal) if one]
    return TableComparison(given=given, wanted=wanted, columns=columns, different=different, pairs=pairs)


def by_value(given: Table, wanted: Table, *, keys: Sequence[str] = (), tolerance: float = 0.0) -> TableComparison:
    """Compare rows wherever they stand.

    Rows that are equal belong together; of the others those with the same key, or where there is no key, in the
    order of the tables or sorted, whichever leaves fewer columns different.

    Raises:
        CannotJudge: `undefined`, if the table that is wanted has no such key, or too many rows are near.
    """
    given, wanted = (_named(one, [_plain(name) for name in one.columns]) for one in (given, wanted))
    keys = [_plain(one) for one in keys]
    if absent := [one for one in keys if one not in wanted.columns]:
        raise CannotJudge("undefined", f"the reference has no column {', '.join(map(repr, absent))}")
    columns = [one for one in wanted.columns if one in given.columns]
    if not columns:
        return TableComparison(given=given, wanted=wanted, columns=(), different=(), pairs=(), keys=keys)
    rows, others = (_cells(one, columns) for one in (given, wanted))
    within = Decimal(str(tolerance))
    equal = matched(rows, others, tolerance=within)
    left, right = unpaired(equal, len(rows), len(others))
    places = [columns.index(one) for one in keys if one in columns]
    alternatives = [_by_key(rows, left, others, right, places)] if places else _in_turn(rows, left, others, right)
    different = min((_different(columns, rows, others, one, within) for one in alternatives), key=len)
    if not equal and not any(alternatives):
        different = columns
    return TableComparison(
        given=given, wanted=wanted, columns=columns, different=different, pairs=equal, keys=keys
    )


def _different(
    columns: Sequence[str],
    rows: Sequence[TableRow],
    others: Sequence[TableRow],
    pairs: Sequence[RowPair],
    tolerance: Decimal,
) -> Sequence[str]:
    return [
        name
        for place, name in enumerate(columns)
        if not all(same_cell(rows[a][place], others[b][place], tolerance=tolerance) for a, b in pairs)
    ]


def _in_turn(
    rows: Sequence[TableRow], left: Sequence[int], others: Sequence[TableRow], right: Sequence[int]
) -> list[list[RowPair]]:
    ordered = sorted_by_value(rows, left), sorted_by_value(others, right)
    return [list(zip(left, right, strict=False)), list(zip(*ordered, strict=False))]


def _by_key(
    rows: Sequence[TableRow],
    left: Sequence[int],
    others: Sequence[TableRow],
    right: Sequence[int],
    places: Sequence[int],
) -> list[RowPair]:
    """Pair rows of the same key; where a key stands several times, the first with the first."""
    waiting: dict[TableRow, list[int]] = {}
    for other in reversed(right):
        waiting.setdefault(_only(others[other], places), []).append(other)
    return [(one, found.pop()) for one in left if (found := waiting.get(_only(rows[one], places)))]


def _only(row: TableRow, places: Sequence[int]) -> TableRow:
    return tuple(row[place] for place in places)


def _cells(table: Table, columns: Sequence[str]) -> list[TableRow]:
    return list(zip(*([cell(one) for one in table.column(name)] for name in columns), strict=True))


def _named(table: Table, names: Sequence[str]) -> Table:
    twice = [one for one, count in Counter(names).items() if count > 1]
    if twice:
        raise CannotJudge("invalid_output", f"columns stand twice: {', '.join(twice)}")
    return Table(tuple(names), table.rows)


def _plain(name: str) -> str:
    return " ".join(name.split()).casefold()
