"""The commands `refine export` and `refine verify`: what is recorded, and whether it is as it was written."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from judges import ConfigurationError
from refine.cli.loops import is_database, open_database
from refine.cli.options import ExportOptions, VerifyOptions
from refine.record.seals import Verification, cells_of, seal_key_of, verify_rows

if TYPE_CHECKING:
    from refine.record import OutcomeFilter

_Row = Mapping[str, Any]
_SHOWN = 20


def run_export(options: ExportOptions) -> int:
    """Write the rows, and return the exit code: 0, or 1 if there are none.

    Raises:
        ConfigurationError: If the record cannot be read, has no texts, or an option is wrong.
    """
    write = _writer_of(options.out)
    with open_database(options.record) as record:
        count = _write_rows(record.export(_filter(options.where)), options.out, write)
    place = "" if options.out is None else f" in {options.out}"
    sys.stderr.write(f"{count} rows{place}\n")
    return 0 if count else 1


def _filter(where: Sequence[str]) -> OutcomeFilter:
    from refine.record import OutcomeFilter  # noqa: PLC0415 - loads pydantic

    pairs = [part.partition("=") for part in where]
    for key, equals, _ in pairs:
        if not equals:
            raise ConfigurationError(f"--where is KEY=VALUE, for instance passed=false, not {key!r}")
    return OutcomeFilter.read({key: value for key, _, value in pairs})


_Write = Callable[[Iterator[_Row], TextIO], int]


def _writer_of(out: Path | None) -> _Write:
    """Return what writes rows in the form that a name asks for; JSON lines for any other name."""
    suffix = "" if out is None else out.suffix.lower()
    return {".csv": _write_csv, ".parquet": _write_parquet}.get(suffix, _write_lines)


def _write_rows(rows: Iterator[_Row], out: Path | None, write: _Write) -> int:
    """Write the rows, and return how many there were; without any, no file is made."""
    first = list(islice(rows, 1))
    with nullcontext(sys.stdout) if out is None or not first else _new_file(out) as file:
        return write(chain(first, rows), file)


def _write_lines(rows: Iterator[_Row], file: TextIO) -> int:
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - the last one is the number of rows
        file.write(f"{json.dumps(row, ensure_ascii=False)}\n")
    return count


def _write_csv(rows: Iterator[_Row], file: TextIO) -> int:
    """Write a table: what is no text stands in its cell as JSON. All rows are held, to know their columns."""
    table = [cells_of(row) for row in rows]
    columns = list(dict.fromkeys(name for cells in table for name in cells))
    writer = csv.DictWriter(file, columns)
    writer.writeheader()
    writer.writerows(table)
    return len(table)


def _write_parquet(rows: Iterator[_Row], file: TextIO) -> int:
    """Write a table of texts: what is no text stands in its cell as JSON."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - likewise
    except ModuleNotFoundError:
        raise ConfigurationError("a .parquet file needs pyarrow; install the extra: selfrefine[parquet]") from None
    table = [cells_of(row) for row in rows]
    columns = list(dict.fromkeys(name for cells in table for name in cells))
    arrays = {name: pa.array([cells.get(name) for cells in table], pa.string()) for name in columns}
    parquet.write_table(pa.table(arrays), file.buffer)
    return len(table)


@contextmanager
def _new_file(out: Path) -> Iterator[TextIO]:
    """Open a new file that only its owner reads, as it holds what people asked."""
    try:
        descriptor = os.open(out, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise ConfigurationError(
            f"{str(out)!r} is there already; choose another --out, or delete it first"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="" if out.suffix == ".csv" else "\n") as file:
        yield file


def run_verify(options: VerifyOptions) -> int:
    """Look at every seal, and return the exit code: 0, or 1 if something is not as it was written.

    Raises:
        ConfigurationError: If the record cannot be read, or its seals are under another key.
    """
    sources = [str(source) for source in options.record]
    heads = None if options.heads is None else _read_heads(options.heads)
    if any(map(is_database, sources)):
        if len(sources) > 1:
            raise ConfigurationError("a database is verified by itself; name one record")
        with open_database(sources[0]) as record:
            result = record.verify(heads)
    else:
        if heads is not None:
            raise ConfigurationError("--heads is for a record in a database")
        result = verify_rows([Path(source) for source in sources], seal_key_of())
    what = "outcomes" if any(map(is_database, sources)) else "rows"
    sys.stdout.writelines(f"{line}\n" for line in _lines(result, what))
    if options.save_heads is not None and not result.faults:
        with _new_file(options.save_heads) as file:
            json.dump(result.heads, file)
    return 1 if result.faults else 0


def _lines(result: Verification, what: str) -> Iterator[str]:
    under = "under a key" if result.keyed else "without a key"
    chains = "1 chain" if result.chains == 1 else f"{result.chains} chains"
    yield f"{result.sealed:,} {what} sealed {under}, in {chains}"
    if result.removed:
        yield f"{result.removed:,} {what} were removed by retention or a review, and left sealed gaps"
    if result.unsealed:
        yield f"{result.unsealed:,} {what} have no seal: nothing can be said of them"
    for fault in result.faults[:_SHOWN]:
        yield f"fault: {fault}"
    if len(result.faults) > _SHOWN:
        yield f"... and {len(result.faults) - _SHOWN} faults more"
    yield (
        "not as it was written" if result.faults else "as it was written" if result.sealed else "nothing is sealed"
    )


def _read_heads(file: Path) -> dict[str, Any]:
    try:
        heads = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--heads {str(file)!r} cannot be read: {type(error).__name__}") from None
    if not isinstance(heads, dict):
        raise ConfigurationError(f"--heads {str(file)!r} is none that --save-heads wrote")
    return heads
