"""Where recorded loops come from on the command line: a file of attempts, a run's folder, or a database."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from judges import ConfigurationError, Sample
from judges.errors import BadSample
from judges.offline.dataset.reading import read_rows
from judges.offline.run.loading import load_run

if TYPE_CHECKING:
    from refine.record import DatabaseRecord

SourceRow = Sample | Mapping[str, object] | BadSample

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


@contextmanager
def loop_rows(source: str, *, texts: bool = False) -> Iterator[Iterable[SourceRow]]:
    """Open a source, and give its rows: with the texts where these are needed, else also of a record without any.

    Raises:
        ConfigurationError: If it cannot be read, or texts are needed and a database has none.
    """
    if is_database(source):
        with open_database(source) as record:
            yield record.rows() if texts else record.attempts()
    elif Path(source).is_dir():
        rows = load_run(source).rows
        yield [BadSample(row.error) if row.sample is None else row.sample for row in rows]
    else:
        yield read_rows(source, errors="keep")


def labels_file(source: str) -> Path:
    """Return where `refine label` keeps the labels of a file, or of the folder of a run."""
    path = Path(source)
    return path / "labels.jsonl" if path.is_dir() else path.with_name(f"{path.stem}.labels.jsonl")


def labels_of(source: str, labels: Path | None) -> Path | None:
    """Return the file of labels that is named, or else the one beside the source, if there is one."""
    if labels is not None or is_database(source):
        return labels
    beside = labels_file(source)
    return beside if beside.is_file() and beside != Path(source) else None


def console() -> Console:
    """Return a console for tables on stdout."""
    own = Console(file=sys.stdout, highlight=False)
    if not own.is_terminal:
        own.width = _WIDTH
    return own
