"""Seals of rows: each carries a hash of itself and of the one before, so that a change in a file shows later.

What is sealed are the rows of an export, and those of a record of JSON lines. `refine.record.chains` seals what is
in a database.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

from judges import ConfigurationError

KEY_VARIABLE = "REFINE_RECORD_SEAL_KEY"
"""Environment variable with the key of seals; without one anybody can seal anew what they have changed."""
_BYTES = 20
_SHORTEST_KEY = 16
"""In bytes."""
_LONGEST_KEY = 64
"""In bytes; what BLAKE2b takes."""


def seal_key_of(environment: Mapping[str, str] = os.environ) -> bytes:
    """Return the key of seals that the environment sets; empty without one.

    Raises:
        ConfigurationError: If it is too short or too long.
    """
    key = environment.get(KEY_VARIABLE, "").encode()
    if key and not _SHORTEST_KEY <= len(key) <= _LONGEST_KEY:
        raise ConfigurationError(
            f"{KEY_VARIABLE} has {len(key)} bytes; give {_SHORTEST_KEY} to {_LONGEST_KEY}, for instance those of "
            f"`openssl rand -hex 32`"
        )
    return key


_encode = json.JSONEncoder(default=repr).encode


def digest_of(key: bytes, *parts: object) -> str:
    """Return the hash of plain data, under a key if there is one."""
    return digest_of_bytes(key, _encode(parts).encode())


def digest_of_bytes(key: bytes, data: bytes) -> str:
    """Return the hash of bytes, under a key if there is one."""
    return blake2b(data, digest_size=_BYTES, key=key).hexdigest()


_MOST_FAULTS = 1_000

Row = dict[str, Any]
"""A row, by column."""


@dataclass(slots=True)
class Verification:
    """What a look at the seals came to.

    Args:
        sealed: Outcomes, or rows of a file, with a seal.
        older: Those of them whose seals have the form of versions before 0.10.
        unsealed: Those without, from before there were seals.
        removed: Outcomes that were removed on purpose, by retention or a review.
        chains: Number of chains.
        keyed: Whether the seals are under a key.
        unkeyed: Those of the sealed ones that are not, from before there was a key.
        changed: Those of the sealed ones that are not what was sealed.
        faults: A line for each fault.
        heads: Position and hash of the last outcome of each chain; kept elsewhere, they show what is cut later.
    """

    sealed: int = 0
    older: int = 0
    unsealed: int = 0
    removed: int = 0
    chains: int = 0
    keyed: bool = False
    unkeyed: int = 0
    changed: int = 0
    faults: list[str] = field(default_factory=list)
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, fault: str) -> None:
        """Note a fault; of very many the first are enough."""
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(fault)


_SEAL = "seal"
_REMEMBERED = 200


class RowSeals:
    """Seals rows of a file, one after the other.

    Args:
        key: Key of the seals.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._file = uuid4().hex
        self._links: list[tuple[int, str]] = [(0, "")]

    def seal(self, row: Mapping[str, Any], *, last: bool | None = None) -> Row:
        """Return a row with its seal in its metadata; `last` says whether it is the last, where that is known."""
        number, previous = self._links[-1]
        link: Row = {"file": self._file, "number": number + 1, "previous": previous, "keyed": bool(self._key)}
        if last is not None:
            link["last"] = last
        row_hash = _row_hash(self._key, row, link)
        self._links = [*self._links[-_REMEMBERED:], (number + 1, row_hash)]
        return {**row, "metadata": {**row.get("metadata", {}), _SEAL: {**link, "hash": row_hash}}}

    def take_back(self, count: int) -> None:
        """Forget the last seals, whose rows could not be written."""
        if count > 0:
            self._links = self._links[:-count] or [(0, "")]


def sealed_rows(rows: Iterable[Mapping[str, Any]], key: bytes) -> Generator[Row, None, None]:
    """Yield rows with seals, of which the last one says that it is the last."""
    seals, iterator = RowSeals(key), iter(rows)
    held = next(iterator, None)
    while held is not None:
        following = next(iterator, None)
        yield seals.seal(held, last=following is None)
        held = following


def cells_of(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a row as cells of text: what is no text is JSON; what is empty is left out."""
    cells = {
        name: value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
        for name, value in row.items()
        if value is not None
    }
    return {name: cell for name, cell in cells.items() if cell}


def _row_hash(key: bytes, row: Mapping[str, Any], link: Mapping[str, Any]) -> str:
    metadata = {name: value for name, value in row.get("metadata", {}).items() if name != _SEAL}
    return digest_of(key, sorted(cells_of({**row, "metadata": metadata}).items()), sorted(link.items()))


def verify_rows(files: Iterable[Path], key: bytes) -> Verification:
    """Return whether the rows of files are as they were written, and none is missing.

    Args:
        files: An export as .jsonl, .csv or .parquet, or the parts, in order, of a record of JSON lines.
        key: Key of the seals.

    Raises:
        ConfigurationError: If a file cannot be read, or the seals are under a key, and none is given.
    """
    look = _LookAtRows(key)
    for number, row in enumerate((row for file in files for row in _rows_in(file)), 1):
        look.at(number, row)
    return look.end()


class _LookAtRows:
    """Looks at the rows of files, one after the other.

    Args:
        key: Key of the seals.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._result = Verification()
        self._ends: dict[str, tuple[int, str, bool | None]] = {}

    def at(self, number: int, row: Row | None) -> None:
        """Look at one row; None is one that cannot be read."""
        result = self._result
        metadata = {} if row is None else row.get("metadata")
        link = metadata.get(_SEAL) if isinstance(metadata, dict) else None
        if row is not None and isinstance(link, dict):
            result.sealed += 1
            self._look(
                number, row, {name: value for name, value in link.items() if name != "hash"}, link.get("hash")
            )
            return
        result.unsealed += 1
        if row is None:
            result.add(f"row {number} cannot be read")
        elif self._ends:
            result.add(f"row {number} has no seal, though rows before it have")

    def end(self) -> Verification:
        """Return what it came to."""
        result = self._result
        for file, (number, row_hash, is_last) in self._ends.items():
            result.heads[file] = (number, row_hash)
            if is_last is False:
                result.add(f"the end of the export, after its row {number}, is missing")
        result.chains = len(self._ends)
        if self._key and result.unkeyed:
            result.add(f"{result.unkeyed} rows are sealed without the key: anybody could have written them")
        if self._key and result.unsealed:
            result.add(f"{result.unsealed} rows have no seal under the key: anybody could have written them")
        if not result.sealed and not result.unsealed:
            result.add("there are no rows")  # nobody writes a file without any
        return result

    def _look(self, number: int, row: Row, link: Row, row_hash: object) -> None:
        result, is_keyed, file = self._result, bool(link.get("keyed")), str(link.get("file"))
        result.keyed, result.unkeyed = result.keyed or is_keyed, result.unkeyed + (not is_keyed)
        if is_keyed and not self._key:
            raise ConfigurationError(f"the rows are sealed under a key: set {KEY_VARIABLE} to it")
        if _row_hash(self._key if is_keyed else b"", row, link) != row_hash:
            result.changed += 1
            result.add(f"row {number} was changed")
        place, before, _ = self._ends.get(file, (0, "", None))
        own_place = link.get("number")
        if not isinstance(own_place, int) or own_place <= place:
            result.add(f"row {number} is not at its place")
            return
        if own_place > place + 1:
            result.add(f"{own_place - place - 1} rows before row {number} are missing")
        elif link.get("previous") != before:
            result.add(f"row {number} does not follow the one before it")
        self._ends[file] = (own_place, str(row_hash), link.get("last"))


def _parsed(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _rows_in(file: Path) -> Iterator[Row | None]:
    """Yield the rows of a file as they stand there, the metadata as data; None for one that cannot be read."""
    if file.suffix.lower() not in {".jsonl", ".ndjson", ".csv", ".parquet"}:
        raise ConfigurationError(f"rows are verified in .jsonl, .csv and .parquet, not in {str(file)!r}")
    try:
        match file.suffix.lower():
            case ".jsonl" | ".ndjson":
                with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
                    yield from (_parsed(line) for line in lines if line.strip())
            case ".csv":
                csv.field_size_limit(2**31 - 1)
                with file.open(encoding="utf-8", newline="") as cells:
                    yield from map(_of_cells, csv.DictReader(cells))
            case _:
                yield from map(_of_cells, _parquet_rows(file))
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(
            f"{str(file)!r} holds a row that cannot be read: {type(error).__name__}"
        ) from None


def _of_cells(cells: Mapping[str, Any]) -> Row | None:
    row: Row = {name: cell for name, cell in cells.items() if cell}
    if "metadata" not in row:
        return row
    metadata = _parsed(row["metadata"])
    return None if metadata is None else {**row, "metadata": metadata}


def _parquet_rows(file: Path) -> Iterator[Row]:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise ConfigurationError("a .parquet file needs pyarrow; install the extra: selfrefine[parquet]") from None
    with parquet.ParquetFile(file) as opened:
        for batch in opened.iter_batches(batch_size=1024):
            yield from batch.to_pylist()
