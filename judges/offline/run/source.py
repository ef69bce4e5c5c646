"""The rows of a run, numbered, which can be read twice: to judge them, and to write the results."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from pydantic_core import PydanticSerializationError

from judges.errors import BadSample, ConfigurationError
from judges.offline.dataset.reading import RowsFile
from judges.offline.dataset.unread import name_unread
from judges.offline.run.files import open_private
from judges.sample import Sample

SPOOL = "rows.jsonl"
RowInput = Sample | Mapping[str, object] | BadSample
"""A row of a dataset: a sample, a mapping that is read as one, or an error in place of a broken row."""


class NumberedRows(Protocol):
    """Rows with their numbers in the dataset, which can be read again."""

    def __iter__(self) -> Iterator[tuple[int, Sample | BadSample]]:
        """Yield the rows, numbered."""
        ...

    @property
    def size(self) -> int | None:
        """How many there are; None where that is unknown."""
        ...


class Source:
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

    def __len__(self) -> int:
        return len(range(self._first, self._total or 0, self._step))

    @property
    def step(self) -> int:
        """How far apart the numbers of two rows are."""
        return self._step

    @property
    def size(self) -> int | None:
        """How many rows this part has; None where that is unknown."""
        return None if self._total is None else len(self)


def file_source(file: RowsFile, *, limit: int | None, total: int | None, shard: tuple[int, int] | None) -> Source:
    """Return the rows of a file; those that cannot be read stand as errors in their place."""
    return Source(lambda: islice(file.rows(), limit), total=total, shard=shard)


async def spooled(
    samples: Iterable[RowInput] | AsyncIterable[RowInput], folder: Path
) -> Callable[[], Iterable[RowInput]]:
    """Return what reads rows from the beginning; rows that can be read only once are written to a file first."""
    if not isinstance(samples, AsyncIterable) and iter(samples) is not samples:
        return lambda: samples
    path = folder / SPOOL
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        async for row in _each(samples):
            file.write(row_json(read_sample(row)) + b"\n")
    return lambda: _unspooled(path)


def row_json(row: Sample | BadSample) -> bytes:
    """Return a row as JSON."""
    return sample_json(row) if isinstance(row, Sample) else json.dumps({"unreadable": str(row)}).encode()


def sample_json(sample: Sample) -> bytes:
    """Return a sample as JSON without the fields it does not have."""
    try:
        return sample.model_dump_json(exclude_defaults=True).encode()
    except PydanticSerializationError:  # half a surrogate pair is invalid in UTF-8, but can be escaped
        return json.dumps(sample.model_dump(mode="json", exclude_defaults=True), separators=(",", ":")).encode()


def digest_of(text: bytes) -> bytes:
    """Return a digest of what a row holds, given as JSON."""
    return blake2b(text, digest_size=16).digest()


def read_sample(row: RowInput) -> Sample | BadSample:
    """Return a row as a sample, or why it is none."""
    if isinstance(row, BadSample):
        return row
    try:
        sample = Sample.read(row)
    except BadSample as error:
        return error
    name_unread(sample, row)
    return sample


def checked_shard(shard: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the shard if it is one part of several: part and number of parts, counted from 1."""
    if shard is None:
        return None
    value: object = shard  # of users without types
    is_pair = isinstance(value, tuple | list) and [type(number) for number in value] == [int, int]
    if not is_pair or not 1 <= shard[0] <= shard[1]:
        raise ConfigurationError(f"a shard is one part of several, (1, 4) for the first of four, not {shard!r}")
    return shard


def _unspooled(path: Path) -> Iterator[RowInput]:
    with path.open("rb") as file:
        for line in file:
            yield read_again(json.loads(line))


def read_again(row: dict[str, Any]) -> Sample | BadSample:
    """Return the row whose `row_json` was parsed."""
    unreadable = row.get("unreadable")
    return BadSample(unreadable) if isinstance(unreadable, str) else Sample.model_validate(row)


async def _each(samples: Iterable[RowInput] | AsyncIterable[RowInput]) -> AsyncIterator[RowInput]:
    if isinstance(samples, AsyncIterable):
        async for row in samples:
            yield row
        return
    for row in samples:
        yield row
