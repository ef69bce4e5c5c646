"""Writing a batch of rows: in one piece; one by one if some are there already; halved if some are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError, OperationalError, TimeoutError  # noqa: A004 - of a pool

from judges import ConfigurationError
from refine.record.rows import Row, Rows
from refine.record.schema import ATTEMPT, OUTCOME

_OUTAGES = frozenset({"08", "25", "40", "42", "53", "55", "57", "58", "XX"})
"""Classes of PostgreSQL's error codes that say nothing against the rows: no connection, read only, deadlock,
missing table or permission, no resources, a lock, a shutdown, a broken disk."""


def is_outage(error: Exception) -> bool:
    """Check whether a failure is the database's, so that the rows are worth trying again."""
    if not isinstance(error, DBAPIError):
        return isinstance(error, OSError | TimeoutError | ConfigurationError)
    if error.connection_invalidated:
        return True
    code = getattr(error.orig, "sqlstate", None)
    if code is not None:
        return code[:2] in _OUTAGES
    return isinstance(error, OperationalError) or type(error) is DatabaseError


def write(engine: Engine, batch: Sequence[Rows]) -> list[Exception]:
    """Write outcomes, and return why some were refused; a refused one never takes others along.

    Raises:
        Exception: If the database failed, see `is_outage`; what was written by then may be written again.
    """
    try:
        _write_together(engine, batch)
    except Exception as error:
        if is_outage(error):
            raise
        if len(batch) == 1:
            return [error]
        middle = len(batch) // 2
        return write(engine, batch[:middle]) + write(engine, batch[middle:])
    return []


def _write_together(engine: Engine, batch: Sequence[Rows]) -> None:
    try:
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            _append(connection, batch)
    except IntegrityError:
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            _merge(connection, batch)


def _append(connection: Connection, batch: Sequence[Rows]) -> None:
    """Write rows of which none is there yet."""
    attempts = [row for rows in batch for row in rows.attempts]
    for table, rows in ((OUTCOME, [rows.outcome for rows in batch]), (ATTEMPT, attempts)):
        if rows and connection.dialect.name == "postgresql":
            _copy(connection, table, rows)
        elif rows:
            names, marks = _columns(table), ", ".join("?" * len(table.columns))
            values = [tuple(row.get(name) for name in table.columns.keys()) for row in rows]  # noqa: SIM118 - not a dict
            connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", values)  # noqa: S608 - our own names


def _copy(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    names = table.columns.keys()
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({_columns(table)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row([row.get(name) for name in names])
    except Exception as error:
        raise _as_sqlalchemy(connection, error) from error


def _columns(table: Table) -> str:
    return ", ".join(f'"{name}"' for name in table.columns.keys())  # noqa: SIM118 - not a dict


def _as_sqlalchemy(connection: Connection, error: Exception) -> BaseException:
    """Return a driver's error in the form in which SQLAlchemy raises those of statements."""
    base = connection.dialect.loaded_dbapi.Error
    lost = bool(getattr(connection.connection.driver_connection, "closed", False))
    if lost:
        connection.invalidate(error)
    dialect = connection.dialect
    return DBAPIError.instance("COPY", None, error, base, connection_invalidated=lost, dialect=dialect)


def _merge(connection: Connection, batch: Sequence[Rows]) -> None:
    """Write rows of which some are there already: those stay, but for turns that waited for a review."""
    latest: dict[str, Rows] = {}
    for rows in batch:
        known = latest.get(rows.outcome["id"])
        if known is None or known.outcome["stop_reason"] == "interrupted":
            latest[rows.outcome["id"]] = rows
    for part in latest.values():
        _merge_one(connection, part)


def _merge_one(connection: Connection, rows: Rows) -> None:
    identifier = rows.outcome["id"]
    waiting = select(OUTCOME.c.id).where(OUTCOME.c.id == identifier, OUTCOME.c.stop_reason == "interrupted")
    connection.execute(delete(ATTEMPT).where(ATTEMPT.c.outcome.in_(waiting)))
    connection.execute(delete(OUTCOME).where(OUTCOME.c.id.in_(waiting)))
    insert = postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert
    added = connection.execute(
        insert(OUTCOME).on_conflict_do_nothing().returning(OUTCOME.c.id), _filled(OUTCOME, [rows.outcome])
    ).all()
    if added and rows.attempts:
        connection.execute(insert(ATTEMPT).on_conflict_do_nothing(), _filled(ATTEMPT, rows.attempts))


def _filled(table: Table, rows: Sequence[Row]) -> list[Row]:
    """Return rows with every column of the table, so that one statement serves them all."""
    names = table.columns.keys()
    return [{name: row.get(name) for name in names} for row in rows]
