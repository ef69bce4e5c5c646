"""The rows of a run, numbered, which can be read twice: to judge them, and to write the results."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError

from judges.errors import BadSample
from judges.offline.dataset.reading import RowInput, read_sample
from judges.sample import Sample

_T = TypeVar("_T")
SPOOL = "rows.jsonl"


class RunRows:
    """Rows that can be read again; of a sharded run those of its part alone, with the numbers of the whole.

    Args:
        read: Returns the rows from the beginning.
        total: How many they are, all parts together; None where that is unknown.
        shard: Part and number of parts; None for all rows.
    """

    def __init__(
        self, read: Callable[[], Iterable[RowInput]], *, total: int | None, shard: tuple[int, int] | None = None
    ) -> None:
        self._read, self._total = read, total
        self._first, self._step = (shard[0] - 1, shard[1]) if shard is not None else (0, 1)

    def __iter__(self) -> Iterator[tuple[int, Sample | BadSample]]:
        for index, row in islice(enumerate(self._read()), self._first, None, self._step):
            yield index, read_sample(row)

    @property
    def step(self) -> int:
        """How far apart the numbers of two rows are."""
        return self._step

    @property
    def size(self) -> int | None:
        """How many rows this part has; None where that is unknown."""
        return None if self._total is None else len(range(self._first, self._total, self._step))


def row_json(row: Sample | BadSample) -> bytes:
    """Return a row as JSON."""
    return _sample_json(row) if isinstance(row, Sample) else json.dumps({"unreadable": str(row)}).encode()


def _sample_json(sample: Sample) -> bytes:
    """Return a sample as JSON without the fields it does not have."""
    try:
        return sample.model_dump_json(exclude_defaults=True).encode()
    except PydanticSerializationError:  # half a surrogate pair is invalid in UTF-8, but can be escaped
        return json.dumps(sample.model_dump(mode="json", exclude_defaults=True), separators=(",", ":")).encode()


def digest_of(text: bytes) -> bytes:
    """Return a digest of what a row holds, given as JSON."""
    return blake2b(text, digest_size=16).digest()


def read_again(row: dict[str, Any]) -> Sample | BadSample:
    """Return the row whose `row_json` was parsed."""
    unreadable = row.get("unreadable")
    return BadSample(unreadable) if isinstance(unreadable, str) else Sample.model_validate(row)


async def each(rows: Iterable[_T] | AsyncIterable[_T]) -> AsyncGenerator[_T, None]:
    """Yield rows, whether they come sync or async."""
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            yield row
        return
    for row in rows:
        yield row
