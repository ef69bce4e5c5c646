"""The record: every outcome, with its attempts and verdicts, in a database or a file of JSON lines."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from graphs import Outcome
from judges import ConfigurationError
from judges.errors import shortened
from judges.first_guesses import names_of
from judges.runtime import faults
from refine.record.rows import Origin, Record

if TYPE_CHECKING:
    from refine.record.database import DatabaseRecord
    from refine.record.rows import Origin
    from refine.record.schema import OutcomeFilter
    from refine.record.writer import RecordStats

_HOMES = {
    "DatabaseRecord": "refine.record.database",
    "Origin": "refine.record.rows",
    "OutcomeFilter": "refine.record.schema",
    "RecordStats": "refine.record.writer",
}
"""The module of each public name, imported on first use: a file of JSON lines needs no database library."""

__all__ = ["DatabaseRecord", "Origin", "OutcomeFilter", "RecordStats", "Recorder", "open_record"]


__getattr__ = names_of(__name__, __all__, _HOMES)


def __dir__() -> list[str]:
    return __all__


_NO_ORIGIN = Origin()
_log = logging.getLogger("refine")
_SQLITE_SUFFIXES = {".db", ".sqlite", ".sqlite3"}


@runtime_checkable
class Recorder(Protocol):
    """Takes outcomes: a database, a file of JSON lines, or anything of your own with this method.

    Async code calls it in a thread, unless it has an attribute `blocks` that is False.
    """

    def add(self, outcome: Outcome, origin: Origin = ..., /) -> None:
        """Record an outcome; may be called by several threads at once. What it raises costs no answer."""
        ...


class _Careful:
    """A record of the user's own, whose errors are counted and logged instead of raised."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self.blocks = getattr(record, "blocks", True)

    def add(self, outcome: Outcome, origin: Origin = _NO_ORIGIN, /) -> None:
        try:
            self._record.add(outcome, origin)
        except Exception as error:  # noqa: BLE001 - an answer is worth more than its record
            faults.count("outcomes")
            with faults.logging_safely():
                name, kind = type(self._record).__name__, type(error).__name__
                _log.warning("an outcome could not be written to the record %s: %s", name, kind)


def open_record(record: object) -> Recorder:
    """Return a record from what a person writes.

    Args:
        record: `"sqlite:///file.db"`, or just the path of a file that ends in `.db`, `.sqlite` or `.sqlite3`;
            `"postgresql://user@host/database"`; the path of a file of JSON lines; or a record that is open.

    Raises:
        ConfigurationError: If it is none of these, or cannot be used.
    """
    if isinstance(record, str) and "://" in record:
        return _database(record)
    if isinstance(record, str | Path):
        if Path(record).suffix.lower() in _SQLITE_SUFFIXES:
            return _database(f"sqlite:///{record}")
        return Record(record)
    if isinstance(record, Recorder) and not isinstance(record, type):
        return _Careful(record) if getattr(record, "blocks", True) and not isinstance(record, Record) else record
    raise ConfigurationError(
        f"record is a path, a URL such as 'sqlite:///record.db' or 'postgresql://user@host/database', or an "
        f"object with add(outcome, origin), not {shortened(record)}"
    )


def _database(url: str) -> Recorder:
    if find_spec("sqlalchemy") is None:
        raise ConfigurationError("a record in a database needs SQLAlchemy; install the extra: selfrefine[record]")
    from refine.record.database import DatabaseRecord  # noqa: PLC0415 - an extra, opened on demand

    return DatabaseRecord(url)
