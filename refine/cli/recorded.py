"""Recorded attempts on the command line: a file of rows, the folder of a run, or a database."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from judges import ConfigurationError

_DATABASES = {".db", ".sqlite", ".sqlite3"}


def recorded(source: str) -> tuple[str | list[dict[str, Any]], Path | None]:
    """Return rows, or where they are, and the file beside which a ledger may stand.

    Raises:
        ConfigurationError: If a database is meant, and there is none, or the extra `record` is not installed.
    """
    if "://" not in source and Path(source).suffix.lower() not in _DATABASES:
        return source, None
    if find_spec("sqlalchemy") is None:
        raise ConfigurationError("a record in a database needs SQLAlchemy; install the extra: selfrefine[record]")
    from refine.record import DatabaseRecord, open_record  # noqa: PLC0415 - loads the loop

    record = open_record(source)
    if not isinstance(record, DatabaseRecord):
        raise ConfigurationError(f"{source!r} is no database")
    with record:
        if record.file is not None and not record.file.exists():
            raise ConfigurationError(f"there is no record {str(record.file)!r}")
        return list(record.attempts()), record.file


def ledger_beside(file: Path | None, chosen: Path | None) -> Path | None:
    """Return the ledger to use: the chosen one, or one beside a database in a file."""
    return chosen if chosen is not None or file is None else file.with_name(f"{file.name}.ledger")
