"""Tables as rows: data frames, dicts of lists, and the datasets of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from judges.errors import ConfigurationError, shortened
from judges.offline.dataset.cells import frame_value
from judges.rows.replies import is_messages


def rows_in(samples: Any) -> Any:
    """Return the rows of a table; what is no table is returned as it is.

    Raises:
        ConfigurationError: If a table cannot be read row by row.
    """
    if isinstance(samples, Mapping):
        return _of_lists(samples)
    library, kind = type(samples).__module__.partition(".")[0], type(samples).__name__
    match library, kind:
        case "pandas", "DataFrame":
            return Rows(samples, len(samples), _of_pandas)
        case "polars", "DataFrame":
            return Rows(samples, len(samples), lambda frame: map(_plain, frame.iter_rows(named=True)))
        case "polars", "LazyFrame":
            raise ConfigurationError("a LazyFrame has no rows yet; give frame.collect()")
        case "pandas" | "polars", _:
            raise ConfigurationError(f"a {kind} has no named columns; give a DataFrame")
        case "pyarrow", "Table" | "RecordBatch":
            return Rows(samples, samples.num_rows, _of_arrow)
        case "deepeval", "EvaluationDataset":
            return _of_deepeval(samples)
        case "inspect_ai", "EvalLog":
            return list(samples.samples or ())
        case _:
            return samples


class Rows:
    """The rows of a table, which can be read as often as one likes."""

    def __init__(self, table: Any, size: int, read: Callable[[Any], Iterable[Any]]) -> None:
        self._table, self._size, self._read = table, size, read

    def __iter__(self) -> Iterator[Any]:
        yield from self._read(self._table)

    def __len__(self) -> int:
        return self._size


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): frame_value(str(name), value) for name, value in row.items()}


def _of_pandas(frame: Any) -> Iterator[dict[str, Any]]:
    names = [str(name) for name in frame.columns]
    for values in frame.itertuples(index=False, name=None):
        yield _plain(dict(zip(names, values, strict=True)))


def _of_arrow(table: Any) -> Iterator[dict[str, Any]]:
    batches = table.to_batches() if hasattr(table, "to_batches") else [table]
    return map(_plain, chain.from_iterable(batch.to_pylist() for batch in batches))


def _of_deepeval(dataset: Any) -> list[Any]:
    if not dataset.test_cases and dataset.goldens:
        raise ConfigurationError("the dataset has goldens alone, without answers; give its test cases")
    return list(dataset.test_cases)


def is_table(columns: Mapping[Any, Any]) -> bool:
    """Whether a mapping is a dict of lists, and no single row."""
    lists = [_listed(value) for value in columns.values()]
    return bool(lists) and None not in lists and not all(is_messages(values) for values in lists)


def _of_lists(columns: Mapping[Any, Any]) -> Rows:
    """Return the rows of a dict of lists; a single row, and a dict of datasets, are refused."""
    if not is_table(columns):
        remedy = "give [sample], or a dict of lists of one length"
        if columns and all(_is_dataset(value) for value in columns.values()):
            remedy = f"give one of its datasets, {shortened(list(map(str, columns)))[1:-1]}"
        raise ConfigurationError(f"samples are several rows, not one {type(columns).__name__}; {remedy}")
    lists = {str(name): _listed(value) or [] for name, value in columns.items()}
    if len({len(values) for values in lists.values()}) > 1:
        lengths = ", ".join(f"{name!r} {len(values)}" for name, values in islice(lists.items(), 8))
        raise ConfigurationError(f"the columns of a dict of lists are of one length; here they are {lengths}")
    return Rows(lists, max(map(len, lists.values())), _of_columns)


def _is_dataset(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | list | tuple)


def _listed(values: Any) -> list[Any] | None:
    """Return a column as a list, an array and a series among them, or None where a value is no column."""
    if isinstance(values, list | tuple):
        return list(values)
    convert = getattr(values, "to_list", None) or getattr(values, "tolist", None)
    column = convert() if callable(convert) else None
    return column if isinstance(column, list) else None


def _of_columns(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield _plain(dict(zip(columns, values, strict=True)))
