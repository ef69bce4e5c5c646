"""The command `refine export`: recorded attempts as a dataset."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from judges import ConfigurationError

if TYPE_CHECKING:
    from refine.record import OutcomeFilter


def run_export(record: str, *, out: Path | None, where: Sequence[str]) -> int:
    """Write the rows, and return the exit code: 0, or 1 if there are none.

    Raises:
        ConfigurationError: If the record cannot be read, has no texts, or an option is wrong.
    """
    if find_spec("sqlalchemy") is None:
        raise ConfigurationError("a record in a database needs SQLAlchemy; install the extra: selfrefine[record]")
    from refine.record import DatabaseRecord, open_record  # noqa: PLC0415 - loads the loop

    opened = open_record(record)
    if not isinstance(opened, DatabaseRecord):
        raise ConfigurationError(f"{record!r} is no database; a record of JSON lines is a dataset as it is")
    if opened.file is not None and not opened.file.exists():
        raise ConfigurationError(f"there is no record {str(opened.file)!r}")
    with opened:
        count = _write(opened.rows(_filter(where)), out)
    sys.stderr.write(f"{count} rows{'' if out is None else f' in {out}'}\n")
    return 0 if count else 1


def _filter(where: Sequence[str]) -> OutcomeFilter:
    from refine.record import OutcomeFilter  # noqa: PLC0415 - loads pydantic

    pairs = [part.partition("=") for part in where]
    for key, equals, _ in pairs:
        if not equals:
            raise ConfigurationError(f"--where is KEY=VALUE, for instance passed=false, not {key!r}")
    return OutcomeFilter.read({key: value for key, _, value in pairs})


def _write(rows: Iterator[dict[str, object]], out: Path | None) -> int:
    """Write the rows, and return how many there were; without any, no file is made."""
    first = list(islice(rows, 1))
    count = 0
    with nullcontext(sys.stdout) if out is None or not first else _new_file(out) as file:
        for count, row in enumerate(chain(first, rows), 1):  # noqa: B007 - the last one is the number of rows
            file.write(f"{json.dumps(row, ensure_ascii=False)}\n")
    return count


@contextmanager
def _new_file(out: Path) -> Iterator[TextIO]:
    """Open a new file that only its owner reads, as it holds what people asked."""
    try:
        descriptor = os.open(out, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise ConfigurationError(
            f"{str(out)!r} is there already; choose another --out, or delete it first"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        yield file
