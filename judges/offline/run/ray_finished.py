"""The finished blocks of a run on Ray: which rows are there, and the rows that they make up together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.offline.run.ray_blocks import FAILED, KEY, ROW, START

if TYPE_CHECKING:
    from numpy import ndarray
    from pyarrow import Table
    from ray.data import Dataset

_ROWS_AT_ONCE = 1_024


@dataclass(frozen=True)
class Finished:
    """Which rows of a run are finished, each by its latest judging.

    Args:
        keys: By row, what its verdicts depend on; 0 where it is missing.
        failed: By row, whether judging it failed.
        latest: By row, the start of the run that judged it last.
        spans: Each block's file, with its first and its last row.
    """

    keys: ndarray[Any, Any]
    failed: ndarray[Any, Any]
    latest: ndarray[Any, Any]
    spans: tuple[tuple[Path, int, int], ...]

    @classmethod
    def read(cls, blocks: Path, rows: int) -> Finished:
        """Read which of some rows are in a folder of blocks."""
        import numpy as np  # noqa: PLC0415 - comes with Ray
        from pyarrow import parquet  # noqa: PLC0415 - likewise

        keys, failed = np.zeros(rows, "int64"), np.zeros(rows, "bool")
        latest = np.zeros(rows, "int32")
        spans = []
        for path in sorted(blocks.glob("*.parquet")):  # by start
            table = parquet.read_table(path, columns=[ROW, KEY, FAILED, START])
            numbers, *columns = (table.column(name).to_numpy() for name in (ROW, KEY, FAILED, START))
            keys[numbers], failed[numbers], latest[numbers] = columns
            spans.append((path, int(numbers.min()), int(numbers.max())))
        return cls(keys, failed, latest, tuple(spans))

    @property
    def starts(self) -> int:
        """Number of the last start that has judged anything."""
        return int(self.latest.max(initial=0))

    def keys_to_keep(self, *, retry_failed: bool) -> ndarray[Any, Any]:
        """Return the keys, without those of rows that are judged again."""
        return self.keys * ~self.failed if retry_failed else self.keys

    def tables(self) -> Iterator[Table]:
        """Yield the finished rows in their order, some at a time, each as it was judged last."""
        import pyarrow as pa  # noqa: PLC0415 - comes with Ray
        from pyarrow import parquet  # noqa: PLC0415 - likewise

        for first in range(0, len(self.keys), _ROWS_AT_ONCE):
            end = first + _ROWS_AT_ONCE
            parts = [
                _within(parquet.read_table(path), first, end)
                for path, low, high in self.spans
                if low < end and high >= first
            ]
            if parts:
                table = pa.concat_tables(parts, promote_options="permissive")
                yield _latest(table, self.latest).sort_by(ROW).drop_columns([KEY, FAILED, START])

    def dataset(self) -> Dataset:
        """Return the finished rows as a Ray dataset in their order, each as it was judged last."""
        import ray.data  # noqa: PLC0415 - an extra, checked before

        spans = sorted(self.spans, key=lambda span: span[1])
        dataset = ray.data.read_parquet([str(path) for path, _, _ in spans])
        if any(high >= low for (_, _, high), (_, low, _) in pairwise(spans)):  # some rows were judged again
            dataset = dataset.map_batches(_latest, fn_args=(self.latest,), batch_format="pyarrow").sort(ROW)
        dataset = dataset.drop_columns([KEY, FAILED, START])
        dataset.context.execution_options.preserve_order = True
        return dataset


def _within(table: Table, first: int, end: int) -> Table:
    numbers = table.column(ROW).to_numpy()
    return table.filter((numbers >= first) & (numbers < end))


def _latest(table: Table, latest: ndarray[Any, Any]) -> Table:
    return table.filter(table.column(START).to_numpy() == latest[table.column(ROW).to_numpy()])
