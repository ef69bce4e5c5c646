"""The tables of one process: connected when first used, made if they are missing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from judges import ConfigurationError
from judges.errors import one_line
from refine.record import inserting
from refine.record.engine import make_engine, masked
from refine.record.retention import Retention
from refine.record.rows import Entry, Redact, Rows, rows_of
from refine.record.schema import migrate


class Tables:
    """Connections to the tables; opened and made on first use.

    Args:
        url: The database.
        texts: Whether texts are stored.
        redact: What is applied to each text.
        retention: What is deleted, and when.
    """

    def __init__(self, url: URL, *, texts: bool, redact: Sequence[Redact], retention: Retention) -> None:
        self._url, self._texts, self._redact, self._retention = url, texts, tuple(redact), retention
        self._lock = threading.Lock()
        self._ready = False

    def prepare(self, entry: Entry) -> tuple[Rows, Exception | None]:
        """Return the rows of an outcome; without texts, and why, where these cannot be read or redacted."""
        try:
            return rows_of(entry, texts=self._texts, redact=self._redact), None
        except Exception as error:
            if not self._texts:
                raise
            return rows_of(entry, texts=False), error

    def insert(self, batch: Sequence[Rows]) -> list[Exception]:
        """Write outcomes, and return why some were refused; raise if the database failed."""
        try:
            return inserting.write(self._connected(), batch)
        except Exception:
            self._ready = False  # whatever happened to the database, its tables are looked for again
            raise

    def sweep(self) -> bool:
        """Delete some of what is too old, if it is time; return whether there is more."""
        if not self._retention.is_due():
            return False
        with self.writing() as connection:
            return self._retention.delete(connection)

    def check(self) -> None:
        """Connect; raise a `ConfigurationError` that says why it cannot be done."""
        try:
            self._connected()
        except (SQLAlchemyError, OSError) as error:
            original = getattr(error, "orig", None) or error
            raise ConfigurationError(
                f"the record {masked(self._url)} cannot be used: {one_line(original)}; check the "
                f"URL, and that the "
                f"database runs"
            ) from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect for reading."""
        self.check()
        with self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Connect for a transaction that writes."""
        self.check()
        with self._transaction() as connection:
            yield connection

    def dispose(self) -> None:
        """Close all connections; those of a later use are new ones."""
        self._engine.dispose()

    def _connected(self) -> Engine:
        if not self._ready:
            with self._lock, self._transaction() as connection:
                migrate(connection)
            self._ready = True
        return self._engine

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection

    @cached_property
    def _engine(self) -> Engine:
        return make_engine(self._url)
