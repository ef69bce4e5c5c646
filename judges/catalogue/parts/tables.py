"""Comparing two tables: which of their rows and columns are equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from judges.catalogue.parts.csv_tables import Table, cell, same_cell
from judges.catalogue.parts.table_rows import RowPair, TableRow, match_rows, sorted_by_value, unpaired_rows
from judges.catalogue.parts.typed_columns import column_comparison
from judges.errors import CannotJudge


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
    pairs: Sequence[RowPair]
    keys: Sequence[str] = ()

    @property
    def missing_columns(self) -> list[str]:
        """Expected columns that are missing."""
        return [name for name in self.expected.columns if name not in self.columns]

    @property
    def surplus_columns(self) -> list[str]:
        """Columns that are not expected."""
        return [name for name in self.actual.columns if name not in self.columns]

    def key(self, place: int) -> tuple[str, ...]:
        """Return the key of an expected row."""
        return tuple(self.expected.rows[place][self.expected.columns.index(name)] for name in self.keys)


def by_position(actual: Table, expected: Table) -> TableComparison:
    """Compare rows of the same position, as datacompy does when it joins on the index."""
    actual, expected = (_rename(table, [name.lower() for name in table.columns]) for table in (actual, expected))
    columns = [name for name in expected.columns if name in actual.columns]
    equal = [True] * min(len(actual.rows), len(expected.rows))
    different = []
    for name in columns:
        cells, expected_cells = actual.column(name), expected.column(name)
        same = column_comparison(cells, expected_cells)
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
    if absent := [name for name in keys if name not in expected.columns]:
        raise CannotJudge("undefined", f"the reference has no column {', '.join(map(repr, absent))}")
    columns = [name for name in expected.columns if name in actual.columns]
    if not columns:
        return TableComparison(actual=actual, expected=expected, columns=(), different=(), pairs=(), keys=keys)
    rows, others = (_cells(table, columns) for table in (actual, expected))
    within = Decimal(str(tolerance))
    equal = match_rows(rows, others, tolerance=within)
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
    """Pair rows of the same key; rows that share a key are paired in order."""
    waiting: dict[TableRow, list[int]] = {}
    for other in reversed(right):
        waiting.setdefault(_cells_at(others[other], places), []).append(other)
    return [(row, same_key.pop()) for row in left if (same_key := waiting.get(_cells_at(rows[row], places)))]


def _cells_at(row: TableRow, places: Sequence[int]) -> TableRow:
    return tuple(row[place] for place in places)


def _cells(table: Table, columns: Sequence[str]) -> list[TableRow]:
    return list(zip(*([cell(text) for text in table.column(name)] for name in columns), strict=True))


def _rename(table: Table, names: Sequence[str]) -> Table:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise CannotJudge("invalid_output", f"columns stand twice: {', '.join(twice)}")
    return Table(tuple(names), table.rows)


def _fold(name: str) -> str:
    return " ".join(name.split()).casefold()
