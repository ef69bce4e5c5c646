"""The one door to a record, whatever it is kept in."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, runtime_checkable

from graphs import Outcome
from judges import ConfigurationError
from judges.errors import shortened
from refine.record.origin import Origin
from refine.recording import Record

_URL = re.compile(r"[a-z][a-z0-9+]*:", re.IGNORECASE)
_SQLITE_SUFFIXES = {".db", ".sqlite", ".sqlite3"}


@runtime_checkable
class Recorder(Protocol):
    """Takes outcomes: a database, a file of JSON lines, or anything of your own with this method."""

    def add(self, outcome: Outcome, origin: Origin = ..., /) -> None:
        """Record an outcome; it may be called by several threads at once, and an error is only logged."""
        ...


def open_record(record: object) -> Recorder:
    """Return a record from what a person writes.

    Args:
        record: `"sqlite:///file.db"`, or just the path of a file that ends in `.db`, `.sqlite` or `.sqlite3`;
            `"postgresql://user@host/database"`; the path of a file of JSON lines; or a record that is there already.

    Raises:
        ConfigurationError: If it is none of these, or cannot be used.
    """
    if isinstance(record, str) and len(_URL.match(record + " ") and record.split(":")[0] or "") > 1:
        return _database(record)
    if isinstance(record, str | Path):
        if Path(record).suffix.lower() in _SQLITE_SUFFIXES:
            return _database(f"sqlite:///{record}")
        return Record(record)
    if isinstance(record, Recorder) and not isinstance(record, type):
        return record
    raise ConfigurationError(
        f"record is a path, a URL such as 'sqlite:///record.db' or 'postgresql://user@host/database', or an object "
        f"with add(outcome, origin), not {shortened(record)}"
    )


def _database(url: str) -> Recorder:
    if find_spec("sqlalchemy") is None:
        raise ConfigurationError("a record in a database needs SQLAlchemy; install the extra: selfrefine[record]")
    from refine.record.database import DatabaseRecord  # noqa: PLC0415 - an extra, opened on demand

    return DatabaseRecord(url)
