"""From a URL to connections: SQLite in a file that only its owner reads, PostgreSQL by psycopg."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from judges import ConfigurationError

_BUSY_TIMEOUT_MS = 5_000
_POSTGRESQL = {
    "connect_timeout": 5,
    "application_name": "selfrefine record",
    "options": "-c statement_timeout=30000",
    "keepalives_idle": 30,
    "tcp_user_timeout": 30_000,
}
"""Settings of libpq that let a statement fail that a silent server would hold for ever; a URL may set others."""


def read_url(text: str) -> URL:
    """Return the URL of a database.

    Raises:
        ConfigurationError: If it is no URL of a SQLite file or of PostgreSQL; no password is shown.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "record is no URL that can be read; give sqlite:///file.db or postgresql://user@host/database"
        ) from None
    match url.drivername.partition("+")[0]:
        case "sqlite":
            return _sqlite_url(url)
        case "postgresql" | "postgres":
            return url.set(drivername="postgresql+psycopg")
        case other:
            raise ConfigurationError(
                f"a record in {other!r} is not supported; give sqlite:///file.db, "
                f"postgresql://user@host/database, or the path of a .jsonl file"
            )


def _sqlite_url(url: URL) -> URL:
    path = Path(url.database or "")
    if not url.database or url.database == ":memory:" or path.is_dir() or not path.parent.is_dir():
        raise ConfigurationError(
            f"a record in SQLite is a file in a folder that exists, such as sqlite:///record.db, "
            f"not {url.database or ':memory:'!r}"
        )
    return url.set(drivername="sqlite", database=str(path.absolute()))


def masked(url: URL) -> str:
    """Return a URL for people: without its password and settings."""
    return url.set(query={}).render_as_string(hide_password=True)


def make_engine(url: URL) -> Engine:
    """Return the connections to a database; a new file of SQLite can be read by its owner alone."""
    if url.get_backend_name() == "sqlite":
        _make_private(Path(url.database or ""))
        engine = create_engine(
            url,
            poolclass=NullPool,  # no descriptor outlives a fork, or the file itself
            connect_args={"check_same_thread": False},  # a stream of rows is read by several threads in turn
        )
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    settings = {name: value for name, value in _POSTGRESQL.items() if name not in url.query}
    return create_engine(
        url, pool_pre_ping=True, pool_size=5, max_overflow=0, pool_timeout=5, connect_args=settings
    )


def _make_private(path: Path) -> None:
    """Create a file for its owner alone, whatever the umask; SQLite gives its journals the same mode."""
    with suppress(OSError):  # it is there, or SQLite says what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin_sqlite`, not by the driver
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _begin_sqlite(connection: Any) -> None:
    """Begin a transaction; one that is going to write says so at once: SQLite lets no reader become a writer."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
