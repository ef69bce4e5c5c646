"""Columns under the names of a sample's fields, where a dataset calls them otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sized
from difflib import get_close_matches
from typing import Any

from judges.errors import BadSample, ConfigurationError, one_line, shortened
from judges.offline.dataset.tables import Rows
from judges.rows.objects import row_of
from judges.sample import FIELD_NAMES, Sample, canonical_field

_MISSING = object()


def checked_columns(columns: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return which column holds which field, checked.

    Raises:
        ConfigurationError: If a field is not one of a sample.
    """
    if columns is None:
        return {}
    if not isinstance(columns, Mapping) or not all(  # type: ignore[redundant-expr]  # of users without types
        isinstance(part, str) for pair in columns.items() for part in pair
    ):
        raise ConfigurationError(
            f'map is {{"field": "column"}}, such as {{"answer": "text"}}, not {shortened(columns)}'
        )
    for field, column in columns.items():
        if canonical_field(field) is None:
            swapped = canonical_field(column) is not None
            near = get_close_matches(field, FIELD_NAMES, n=1)
            remedy = f"did you mean {column}={field}?" if swapped else f"did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(
                f"map: {one_line(field, longest=60)!r} is no field of a sample; "
                f"{remedy or 'known are ' + ', '.join(Sample.model_fields)}"
            )
    return columns


def renamed(row: object, columns: Mapping[str, str]) -> Any:
    """Return a row with its columns under the names of fields; a dotted name leads into nested columns.

    Raises:
        BadSample: If the row does not have such a column.
    """
    source = row.model_dump(exclude_defaults=True) if isinstance(row, Sample) else row_of(row)
    if not columns or source is None:
        return row
    others = dict(source)
    values = {field: _value(others, column) for field, column in columns.items()}
    for column in columns.values():
        others.pop(column, None)
    replaced = {canonical_field(field) for field in columns}
    return {**{name: value for name, value in others.items() if canonical_field(name) not in replaced}, **values}


def rename_rows(samples: Any, columns: Mapping[str, str]) -> Any:
    """Return rows with their columns renamed, sync or async, as often as they can be read."""
    if not columns:
        return samples
    if isinstance(samples, AsyncIterable):
        return _arenamed(samples, columns)
    if isinstance(samples, Sized):
        return Rows(samples, len(samples), lambda rows: (_renamed_or_error(row, columns) for row in rows))
    return (_renamed_or_error(row, columns) for row in samples)


async def _arenamed(samples: AsyncIterable[Any], columns: Mapping[str, str]) -> AsyncIterator[Any]:
    async for row in samples:
        yield _renamed_or_error(row, columns)


def _renamed_or_error(row: object, columns: Mapping[str, str]) -> Any:
    try:
        return row if isinstance(row, BadSample) else renamed(row, columns)
    except BadSample as error:
        return error


def _value(row: Mapping[str, Any], column: str) -> Any:
    if column in row:
        return row[column]
    value: Any = row
    for name in column.split("."):
        value = value.get(name, _MISSING) if isinstance(value, Mapping) else _MISSING
    if value is _MISSING:
        raise BadSample(f"there is no column {column!r}; the columns are {shortened(list(row))[1:-1]}")
    return value
