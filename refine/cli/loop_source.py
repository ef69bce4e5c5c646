"""Where recorded loops come from on the command line: a file of attempts, a run's folder, or a database."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from judges import ConfigurationError, Sample

if TYPE_CHECKING:
    from refine.record import DatabaseRecord

SourceRow = Sample | Mapping[str, object]

_DATABASES = {".db", ".sqlite", ".sqlite3"}
_WIDTH = 100
"""Columns of a table if stdout is not a terminal."""


def is_database(source: str) -> bool:
    """Check whether a person means a database: a URL, or the file of one."""
    return "://" in source or Path(source).suffix.lower() in _DATABASES


def open_database(source: str) -> DatabaseRecord:
    """Return the record in a database that is there.

    Raises:
        ConfigurationError: If there is none, or the extra `record` is not installed.
    """
    if find_spec("sqlalchemy") is None:
        raise ConfigurationError("a record in a database needs SQLAlchemy; install the extra: selfrefine[record]")
    from refine.record import DatabaseRecord, open_record  # noqa: PLC0415 - loads the loop

    record = open_record(source)
    if not isinstance(record, DatabaseRecord):
        raise ConfigurationError(f"{source!r} is no database")
    if record.file is not None and not record.file.exists():
        raise ConfigurationError(f"there is no record {str(record.file)!r}")
    return record


@dataclass(frozen=True, slots=True)
class LoopSource:
    """Recorded loops that a person named.

    Args:
        rows: The file or the folder, or the rows of a database.
        ledger: Where the use of labels of a database in a file is written down; None elsewhere, where the ledger
            lies beside the labels.
    """

    rows: str | Iterable[SourceRow]
    ledger: Path | None = None


@contextmanager
def loop_source(source: str, *, texts: bool = False) -> Iterator[LoopSource]:
    """Open recorded loops: with the texts where these are needed, else also of a record without any.

    Raises:
        ConfigurationError: If a database is meant, and there is none, or it holds no texts where they are needed.
    """
    if not is_database(source):
        yield LoopSource(source)
        return
    with open_database(source) as record:
        ledger = None if record.file is None else record.file.with_name(f"{record.file.name}.ledger")
        yield LoopSource(record.rows() if texts else record.attempts(), ledger)


def console() -> Console:
    """Return a console for tables on stdout."""
    own = Console(file=sys.stdout, highlight=False)
    if not own.is_terminal:
        own.width = _WIDTH
    return own
