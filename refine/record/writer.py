"""The queue in front of the database, and the thread that empties it."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Literal, Protocol

from sqlalchemy import Connection, Engine, Table, delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError, OperationalError, TimeoutError  # noqa: A004 - of a pool

from graphs import Outcome
from judges import ConfigurationError
from judges.errors import one_line
from judges.runtime import faults
from refine.record.rows import Entry, Row, Rows, now_ms
from refine.record.schema import ATTEMPT, LABEL, OUTCOME

_LARGEST_BATCH = 200
_LINGER_S = 0.1
"""Seconds in which outcomes gather into a batch."""
_SWEEP_S = 60.0
"""Longest time between two looks for outcomes that are too old."""
_AT_EXIT_S = 5.0
"""Seconds that the end of the process waits for outcomes to be written."""
_LAST_STEPS_S = 1.0
"""Seconds that closing waits for the thread to close its connections."""
_RETRY_S = (0.1, 0.2, 0.5, 1.0)
"""Seconds before each retry of a batch that the database did not take; the last one holds for all that follow."""
_log = logging.getLogger("refine")

_Loss = Literal["full", "refused", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStats:
    """What became of the outcomes that this process handed to a record: `offered` = `written` + `queued` + `lost`.

    Args:
        offered: Outcomes handed over.
        written: Outcomes that are in the database.
        queued: Outcomes that wait, or are being written.
        lost: Outcomes that are not recorded; the sum of the next three.
        lost_full: Lost because the queue was full.
        lost_refused: Lost because no row could be made of them, or the database refused it.
        lost_closed: Lost because the record was closed before they were written.
        without_texts: Outcomes written without their texts, since reading or redacting them failed.
        failing: The kind of error that the database fails with at present; empty while it works.
    """

    offered: int
    written: int
    queued: int
    lost: int
    lost_full: int
    lost_refused: int
    lost_closed: int
    without_texts: int
    failing: str


class Store(Protocol):
    """Where the outcomes go."""

    def prepare(self, entry: Entry) -> tuple[Rows, Exception | None]:
        """Return the rows of an outcome, and what kept its texts out of them, if anything did."""
        ...

    def insert(self, batch: Sequence[Rows]) -> list[Exception]:
        """Write outcomes, and return why some were refused; raise if the database failed."""
        ...

    def sweep(self) -> bool:
        """Delete some of what is too old; return whether there is more."""
        ...

    def dispose(self) -> None:
        """Close all connections."""
        ...


class Writer:
    """Takes outcomes at once, and writes them in batches from a thread of its own.

    Args:
        store: Where they go.
        name: What the record is called in the log.
        most: Longest queue, in outcomes.
        most_characters: Largest queue, in characters of the texts in it.
    """

    def __init__(self, store: Store, *, name: str, most: int, most_characters: int) -> None:
        self._store, self._name = store, name
        self._most, self._most_characters = most, most_characters
        self._changed = threading.Condition()
        self._wake = threading.Event()
        self._queue: deque[tuple[Entry, int]] = deque()
        self._characters = self._in_flight = self._offered = self._written = self._stripped = 0
        self._losses: Counter[_Loss] = Counter()
        self._failing = self._unswept = ""
        self._lost_before = 0
        self._deadline: float | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def add(self, entry: Entry) -> None:
        """Queue an outcome, or count it as lost; never waits for the database."""
        size = _size(entry.outcome)
        with self._changed:
            self._offered += 1
            loss = self._loss(size) or self._start()
            if loss is None:
                self._queue.append((entry, size))
                self._characters += size
            else:
                self._losses[loss] += 1
        if loss is not None:
            self._report_loss(loss, 1)
        elif not self._wake.is_set():
            self._wake.set()

    def start(self) -> None:
        """Start the thread, if it does not run."""
        with self._changed:
            self._start()

    def stats(self) -> RecordStats:
        """Return what became of the outcomes so far."""
        with self._changed:
            return RecordStats(
                offered=self._offered,
                written=self._written,
                queued=len(self._queue) + self._in_flight,
                lost=self._losses.total(),
                lost_full=self._losses["full"],
                lost_refused=self._losses["refused"],
                lost_closed=self._losses["closed"],
                without_texts=self._stripped,
                failing=self._failing or self._unswept,
            )

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything queued is written or lost; return whether it is, within `timeout_s` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._in_flight, timeout_s)

    def stop(self, timeout_s: float = _AT_EXIT_S) -> None:
        """Let the thread write what is queued, for at most `timeout_s` seconds, and end; does not wait for it."""
        with self._changed:
            self._deadline = time.monotonic() + timeout_s
            idle = self._thread is None
        self._wake.set()
        if idle:
            self._store.dispose()

    def close(self, timeout_s: float) -> None:
        """Write what is queued, for at most `timeout_s` seconds; what is left then is lost, and counted."""
        self.stop(timeout_s)
        self.flush(timeout_s)
        self._abandon()
        if self._thread is not None:
            self._thread.join(_LAST_STEPS_S)

    @property
    def _is_closing(self) -> bool:
        return self._deadline is not None

    def _loss(self, size: int) -> _Loss | None:
        if self._deadline is not None:
            return "closed"
        full = len(self._queue) >= self._most or self._characters + size > self._most_characters
        return "full" if full else None

    def _start(self) -> _Loss | None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, daemon=True, name="refine-record")
            try:
                thread.start()
            except RuntimeError:  # the interpreter is about to end, or there are too many threads
                return "closed"
            self._thread = thread
            atexit.register(self._at_exit)
        return None

    def _at_exit(self) -> None:
        if os.getpid() == self._process:  # a forked process has no such thread
            self.close(_AT_EXIT_S)

    def _run(self) -> None:
        more = True
        while not self._is_closing:
            self._wake.wait(0 if more else _SWEEP_S)
            if 0 < len(self._queue) < _LARGEST_BATCH and not self._is_closing:
                time.sleep(_LINGER_S)
            self._wake.clear()
            while batch := self._take():
                self._write(batch)
            more = self._sweep()
        while batch := self._take():
            self._write(batch)
        self._store.dispose()
        atexit.unregister(self._at_exit)

    def _take(self) -> list[Rows]:
        with self._changed:
            entries = [self._queue.popleft() for _ in range(min(len(self._queue), _LARGEST_BATCH))]
            self._characters -= sum(size for _, size in entries)
            self._in_flight = len(entries)
        batch: list[Rows] = []
        refused: list[Exception] = []
        for entry, _ in entries:
            try:
                rows, fault = self._store.prepare(entry)
            except Exception as error:  # noqa: BLE001 - an outcome of which no row can be made is counted
                refused.append(error)
                continue
            batch.append(rows)
            if fault is not None:
                self._report_stripped(fault)
        if refused:
            self._settle(0, refused, left=len(batch))
        return batch or (self._take() if entries else [])

    def _write(self, batch: Sequence[Rows]) -> None:
        """Write a batch, again and again while the database fails, unless the record is closed meanwhile."""
        for wait_s in self._waits():
            try:
                refused = self._store.insert(batch)
            except Exception as error:  # noqa: BLE001 - whatever raised, the thread goes on
                self._report_failure(_kind(error))
            else:
                failed, self._failing = self._failing, ""
                self._settle(len(batch) - len(refused), refused, left=0)
                if failed:
                    self._report_recovery()
                return
            time.sleep(wait_s)
        self._abandon()

    def _waits(self) -> Iterator[float]:
        """Yield the seconds to wait after each try that fails, until the record's time is over."""
        for wait_s in chain(_RETRY_S, repeat(_RETRY_S[-1])):
            deadline = self._deadline
            if self._in_flight == 0 or (deadline is not None and time.monotonic() > deadline):
                return
            yield wait_s

    def _sweep(self) -> bool:
        """Delete what is too old; return whether there is more. Outcomes do not wait for it."""
        try:
            more = self._store.sweep()
        except Exception as error:  # noqa: BLE001 - as above
            before, self._unswept = self._unswept, _kind(error)
            if not before:
                self._warn("old outcomes cannot be deleted (%s); it is tried again", self._unswept)
            return False
        self._unswept = ""
        return more

    def _settle(self, written: int, refused: Sequence[Exception], *, left: int) -> None:
        """Count a batch of which `left` outcomes are still to be written."""
        with self._changed:
            abandoned = self._in_flight == 0  # they were counted as lost when the record was closed
            if not abandoned:
                self._written += written
                self._losses["refused"] += len(refused)
                self._in_flight = left
            self._changed.notify_all()
        if refused and not abandoned:
            self._report_loss("refused", len(refused), _kind(refused[0]))

    def _abandon(self) -> None:
        """Count everything that is not written yet as lost."""
        with self._changed:
            left = len(self._queue) + self._in_flight
            self._queue.clear()
            self._characters = self._in_flight = 0
            self._losses["closed"] += left
            self._changed.notify_all()
        if left:
            self._report_loss("closed", left)

    def _report_loss(self, loss: _Loss, count: int, reason: str = "") -> None:
        """Count a loss for `refine.losses()`; the first, the tenth, the hundredth and so on are a warning."""
        faults.count("outcomes", count)
        total = self._losses[loss]
        if len(str(total)) > len(str(total - count)) or total == count:
            why = reason or {"full": "the queue is full", "closed": "the record was closed"}[loss]
            self._warn("%d outcomes so far could not be written: %s", total, why)

    def _report_stripped(self, fault: Exception) -> None:
        with self._changed:
            self._stripped += 1
        if self._stripped == 1:
            self._warn(
                "an outcome is written without texts, since reading or redacting these fails: %s", _kind(fault)
            )

    def _report_failure(self, kind: str) -> None:
        """Say once that the database fails."""
        if not self._failing:
            self._lost_before = self._losses.total()
            self._warn("the database fails (%s); outcomes wait for it", kind)
        self._failing = kind

    def _report_recovery(self) -> None:
        """Say that the database works again, and what its absence cost."""
        lost = self._losses.total() - self._lost_before
        self._warn("the database works again; %s lost meanwhile", f"{lost} outcomes were" if lost else "none was")

    def _warn(self, message: str, *values: object) -> None:
        with faults.logging_safely():
            _log.warning("record %s: " + message, self._name, *values)


def _kind(error: Exception) -> str:
    """Name a failure without its text, which may quote a row; what is set up wrongly says how to mend it."""
    if isinstance(error, ConfigurationError):
        return str(error)
    original = getattr(error, "orig", None) or error
    if isinstance(error, OperationalError) and error.statement is None:  # no connection, so no row either
        return one_line(original)
    code = getattr(original, "sqlstate", None) or getattr(original, "sqlite_errorname", None)
    return f"{type(original).__name__} {code}" if code else type(original).__name__


def _size(outcome: Outcome) -> int:
    """Return about how many characters the texts of an outcome have."""
    messages = [*outcome.conversation, *(attempt.answer for attempt in outcome.attempts)]
    return sum(_characters(message.content) for message in messages)


def _characters(content: object) -> int:
    match content:
        case str():
            return len(content)
        case list() | tuple():
            return sum(map(_characters, content))
        case Mapping():
            return sum(map(_characters, content.values()))
        case _:
            return 0


_OUTAGES = frozenset({"08", "25", "40", "42", "53", "55", "57", "58", "XX"})
"""Classes of PostgreSQL's error codes that say nothing against the rows: no connection, read only, deadlock,
missing table or permission, no resources, a lock, a shutdown, a broken disk."""


def _is_outage(error: Exception) -> bool:
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
        Exception: If the database failed, see `_is_outage`; what was written by then may be written again.
    """
    try:
        _write_together(engine, batch)
    except Exception as error:
        if _is_outage(error):
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


_DAY_MS = 24 * 60 * 60 * 1_000
_SLICE = 1_000
_PAUSE_S = 60.0


class Retention:
    """How long outcomes are kept.

    Args:
        days: Days after which an outcome is deleted, with its attempts and labels; None keeps all.
    """

    def __init__(self, days: float | None) -> None:
        self._days = days
        self._due_at = 0.0

    def is_due(self) -> bool:
        """Check whether it is time to look for what is too old."""
        return self._days is not None and time.monotonic() >= self._due_at

    def delete(self, connection: Connection) -> bool:
        """Delete the oldest outcomes of those that are too old, 1,000 at most, and return whether there are more.

        The next time is at once while there are, else in a minute.
        """
        before = now_ms() - int((self._days or 0) * _DAY_MS)
        oldest = select(OUTCOME.c.id).where(OUTCOME.c.at < before).order_by(OUTCOME.c.at).limit(_SLICE)
        identifiers = connection.execute(oldest).scalars().all()
        if identifiers:
            for table, column in ((ATTEMPT, ATTEMPT.c.outcome), (LABEL, LABEL.c.outcome), (OUTCOME, OUTCOME.c.id)):
                connection.execute(delete(table).where(column.in_(identifiers)))
        more = len(identifiers) == _SLICE
        self._due_at = 0.0 if more else time.monotonic() + _PAUSE_S
        return more
