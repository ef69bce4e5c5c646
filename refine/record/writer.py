"""The queue in front of the database, the thread that empties it, and how a batch is written."""

from __future__ import annotations

import atexit
import logging
import os
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Engine, create_engine, delete, event, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import (
    DatabaseError,
    DBAPIError,
    IntegrityError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError,  # noqa: A004 - of a pool
)
from sqlalchemy.pool import NullPool

from graphs import Outcome
from judges import ConfigurationError
from judges.errors import one_line
from judges.runtime import faults
from refine.record.chains import Chain, Links, leave_gaps
from refine.record.rows import Origin, OutcomeRows, PendingOutcome, Redact, now_ms, rows_of
from refine.record.schema import ATTEMPT, LABEL, OUTCOME, insert_into, migrate, version_of
from refine.record.seals import seal_key_of
from refine.record.sums import Sums, adopt_older, is_summed, sum_up_older, take_away

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

_DropReason = Literal["full", "refused", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStats:
    """Counts of the outcomes that this process handed to a record: `offered` = `written` + `queued` + `lost`.

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


class RecordWriter:
    """Takes outcomes at once, and writes them in batches from a thread of its own.

    Args:
        tables: Where they go.
        name: What the record is called in the log.
        most: Longest queue, in outcomes.
        most_characters: Largest queue, in characters of the texts in it.
    """

    def __init__(self, tables: Tables, *, name: str, most: int, most_characters: int) -> None:
        self._tables, self._name = tables, name
        self._most, self._most_characters = most, most_characters
        self._changed = threading.Condition()
        self._wake = threading.Event()
        self._queue: deque[tuple[PendingOutcome, int]] = deque()
        self._characters = self._in_flight = self._offered = self._written = self._stripped = 0
        self._dropped: Counter[_DropReason] = Counter()
        self._failing = self._unswept = ""
        self._dropped_before = 0
        self._deadline: float | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def add(self, outcome: Outcome, origin: Origin) -> None:
        """Queue an outcome, or count it as dropped; never waits for the database."""
        pending, size = PendingOutcome(outcome, origin, now_ms()), _size(outcome)
        with self._changed:
            self._offered += 1
            reason = self._reason_to_drop(size) or self._start()
            if reason is None:
                self._queue.append((pending, size))
                self._characters += size
            else:
                self._dropped[reason] += 1
        if reason is not None:
            self._report_dropped(reason, 1)
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
                lost=self._dropped.total(),
                lost_full=self._dropped["full"],
                lost_refused=self._dropped["refused"],
                lost_closed=self._dropped["closed"],
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
            self._tables.dispose()

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

    def _reason_to_drop(self, size: int) -> _DropReason | None:
        if self._deadline is not None:
            return "closed"
        full = len(self._queue) >= self._most or self._characters + size > self._most_characters
        return "full" if full else None

    def _start(self) -> _DropReason | None:
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
        self._tables.dispose()
        atexit.unregister(self._at_exit)

    def _take(self) -> list[OutcomeRows]:
        with self._changed:
            pending: list[PendingOutcome] = []
            while self._queue and len(pending) < _LARGEST_BATCH:
                outcome, size = self._queue.popleft()
                pending.append(outcome)
                self._characters -= size
            self._in_flight = len(pending)
        batch: list[OutcomeRows] = []
        refused: list[Exception] = []
        for outcome in pending:
            try:
                rows, fault = self._tables.prepare(outcome)
            except Exception as error:  # noqa: BLE001 - an outcome of which no row can be made is counted
                refused.append(error)
                continue
            batch.append(rows)
            if fault is not None:
                self._report_stripped(fault)
        if refused:
            self._settle(0, refused, unwritten=len(batch))
        return batch or (self._take() if pending else [])

    def _write(self, batch: Sequence[OutcomeRows]) -> None:
        """Write a batch, again and again while the database fails, unless the record is closed meanwhile."""
        for wait_s in self._waits():
            try:
                refused = self._tables.insert(batch)
            except Exception as error:  # noqa: BLE001 - whatever raised, the thread goes on
                self._report_failure(_kind(error))
            else:
                failed, self._failing = self._failing, ""
                self._settle(len(batch) - len(refused), refused, unwritten=0)
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
            more = self._tables.sweep()
        except Exception as error:  # noqa: BLE001 - whatever raised, the thread goes on
            before, self._unswept = self._unswept, _kind(error)
            if not before:
                self._warn("old outcomes cannot be deleted (%s); it is tried again", self._unswept)
            return False
        self._unswept = ""
        return more

    def _settle(self, written: int, refused: Sequence[Exception], *, unwritten: int) -> None:
        """Count a batch of which `unwritten` outcomes are still to be written."""
        with self._changed:
            abandoned = self._in_flight == 0  # they were counted as lost when the record was closed
            if not abandoned:
                self._written += written
                self._dropped["refused"] += len(refused)
                self._in_flight = unwritten
            self._changed.notify_all()
        if refused and not abandoned:
            self._report_dropped("refused", len(refused), _kind(refused[0]))

    def _abandon(self) -> None:
        """Count everything that is not written yet as lost."""
        with self._changed:
            unwritten = len(self._queue) + self._in_flight
            self._queue.clear()
            self._characters = self._in_flight = 0
            self._dropped["closed"] += unwritten
            self._changed.notify_all()
        if unwritten:
            self._report_dropped("closed", unwritten)

    def _report_dropped(self, cause: _DropReason, count: int, reason: str = "") -> None:
        """Count what was dropped for `refine.losses()`; the first, tenth, hundredth and so on are a warning."""
        faults.count("outcomes", count)
        total = self._dropped[cause]
        if len(str(total)) > len(str(total - count)) or total == count:
            why = reason or {"full": "the queue is full", "closed": "the record was closed"}[cause]
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
            self._dropped_before = self._dropped.total()
            self._warn("the database fails (%s); outcomes wait for it", kind)
        self._failing = kind

    def _report_recovery(self) -> None:
        """Say that the database works again, and what its absence cost."""
        lost = self._dropped.total() - self._dropped_before
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
    size = 0
    contents: list[object] = [message.content for message in outcome.conversation]
    contents += [attempt.answer.content for attempt in outcome.attempts]
    while contents:
        content = contents.pop()
        if isinstance(content, str):
            size += len(content)
        elif isinstance(content, Mapping):
            contents += content.values()
        elif isinstance(content, list | tuple):
            contents += content
    return size


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


_FORKS = threading.RLock()
"""Held in a transaction of SQLite: a child forked in the middle of one inherits what SQLite knows of its
locks, and would find the file locked for ever."""

if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_FORKS.acquire, after_in_parent=_FORKS.release, after_in_child=_FORKS.release)


@contextmanager
def _writing_to(engine: Engine) -> Iterator[Connection]:
    """Connect for a transaction that writes."""
    guard = _FORKS if engine.dialect.name == "sqlite" else nullcontext()
    with guard, engine.connect().execution_options(writes=True) as connection, connection.begin():
        yield connection


_Sealing = Callable[[], AbstractContextManager[tuple[Connection, Links]]]
"""Begins a transaction, in which the chain of this process goes on."""


def _write(sealing: _Sealing, batch: Sequence[OutcomeRows]) -> list[Exception]:
    """Write outcomes, and return why some were refused; a refused one never takes others along.

    Raises:
        Exception: If the database failed, see `_is_outage`; what was written by then may be written again.
    """
    try:
        try:
            with sealing() as (connection, links):
                links.seal_all(batch)
                _append(connection, batch)
                Sums.of([(rows.outcome, rows.attempts) for rows in batch]).write(connection)
        except IntegrityError:
            with sealing() as (connection, links):
                _merge(connection, batch, links)
    except Exception as error:
        if _is_outage(error):
            raise
        if len(batch) == 1:
            return [error]
        middle = len(batch) // 2
        return _write(sealing, batch[:middle]) + _write(sealing, batch[middle:])
    return []


def _append(connection: Connection, batch: Sequence[OutcomeRows]) -> None:
    """Write rows of which none is there yet."""
    attempts = [row for rows in batch for row in rows.attempts]
    for table, rows in ((OUTCOME, [rows.outcome for rows in batch]), (ATTEMPT, attempts)):
        columns = table.columns.keys()
        quoted, values = '", "'.join(columns), list(map(itemgetter(*columns), rows))
        if values and connection.dialect.name == "postgresql":
            _copy(connection, f'COPY {table.name} ("{quoted}") FROM STDIN', values)
        elif values:
            marks = ", ".join("?" * len(columns))
            statement = f'INSERT INTO {table.name} ("{quoted}") VALUES ({marks})'  # noqa: S608 - our own names
            connection.exec_driver_sql(statement, values)


def _copy(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except Exception as error:
        raise _as_sqlalchemy(connection, error) from error


def _as_sqlalchemy(connection: Connection, error: Exception) -> BaseException:
    """Return a driver's error in the form in which SQLAlchemy raises those of statements."""
    base = connection.dialect.loaded_dbapi.Error
    lost = bool(getattr(connection.connection.driver_connection, "closed", False))
    if lost:
        connection.invalidate(error)
    dialect = connection.dialect
    return DBAPIError.instance("COPY", None, error, base, connection_invalidated=lost, dialect=dialect)


def _merge(connection: Connection, batch: Sequence[OutcomeRows], links: Links) -> None:
    """Write rows of which some are there already: those stay, but for turns that waited for a review."""
    latest: dict[str, OutcomeRows] = {}
    for rows in batch:
        rows_before = latest.get(rows.outcome["id"])
        if rows_before is None or rows_before.outcome["stop_reason"] == "interrupted":
            latest[rows.outcome["id"]] = rows
    added = [part for part in latest.values() if _merge_one(connection, part, links)]
    Sums.of([(rows.outcome, rows.attempts) for rows in added]).write(connection)


def _merge_one(connection: Connection, rows: OutcomeRows, links: Links) -> bool:
    """Write an outcome unless it is there already, and return whether it was not."""
    identifier = rows.outcome["id"]
    waiting = select(OUTCOME.c.id).where(OUTCOME.c.id == identifier, OUTCOME.c.stop_reason == "interrupted")
    if connection.execute(waiting).first() is not None:
        _remove(connection, [identifier], links.key)
    after = links.seal(rows)
    insert = insert_into(connection, OUTCOME).on_conflict_do_nothing()
    added = connection.execute(insert.returning(OUTCOME.c.id), rows.outcome).all()
    if added:
        links.anchor = after
        if rows.attempts:
            connection.execute(insert_into(connection, ATTEMPT).on_conflict_do_nothing(), list(rows.attempts))
    return bool(added)


def _remove(connection: Connection, identifiers: Sequence[str], key: bytes) -> None:
    """Remove outcomes with their attempts, in a way that the chains know of."""
    leave_gaps(connection, identifiers, key)
    take_away(connection, identifiers)
    for table, column in ((ATTEMPT, ATTEMPT.c.outcome), (OUTCOME, OUTCOME.c.id)):
        connection.execute(delete(table).where(column.in_(identifiers)))


_EMPTY = {table: dict.fromkeys(table.columns.keys()) for table in (OUTCOME, ATTEMPT)}


def _complete(rows: OutcomeRows) -> OutcomeRows:
    """Return rows with every column of their tables, so that one statement serves them all."""
    return OutcomeRows(_EMPTY[OUTCOME] | rows.outcome, tuple(_EMPTY[ATTEMPT] | row for row in rows.attempts))


_DAY_MS = 24 * 60 * 60 * 1_000
_SLICE = 1_000
_PAUSE_S = 60.0


def _delete_before(connection: Connection, before: int, key: bytes) -> bool:
    """Delete the oldest outcomes of those that ended before a time, and return whether there are more."""
    oldest = select(OUTCOME.c.id).where(OUTCOME.c.at < before).order_by(OUTCOME.c.at).limit(_SLICE)
    identifiers = connection.execute(oldest).scalars().all()
    if identifiers:
        connection.execute(delete(LABEL).where(LABEL.c.outcome.in_(identifiers)))
        _remove(connection, identifiers, key)
    return len(identifiers) == _SLICE


_BUSY_TIMEOUT_MS = 5_000
_POSTGRESQL = {
    "connect_timeout": 5,
    "application_name": "selfrefine record",
    "options": "-c statement_timeout=30000",
    "keepalives_idle": 30,
    "tcp_user_timeout": 30_000,
}
"""Settings of libpq that let a statement fail that a silent server would hold for ever; a URL may set others."""


def masked(url: URL) -> str:
    """Return a URL for people: without its password and settings."""
    return url.set(query={}).render_as_string(hide_password=True)


def _make_engine(url: URL) -> Engine:
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


class Tables:
    """Connections to the tables; opened and made on first use.

    Args:
        url: The database.
        texts: Whether texts are stored.
        redact: What is applied to each text.
        keep_days: Days after which an outcome is deleted, with its attempts and labels; None keeps all.
    """

    def __init__(self, url: URL, *, texts: bool, redact: Sequence[Redact], keep_days: float | None) -> None:
        self._url, self._texts, self._redact, self._keep_days = url, texts, tuple(redact), keep_days
        self._key = seal_key_of()
        self._chain = Chain(self._key)
        self._is_summed = False
        self._sweep_due_at = self._adopt_due_at = 0.0
        self._lock = threading.Lock()
        self._ready = False

    def prepare(self, pending: PendingOutcome) -> tuple[OutcomeRows, Exception | None]:
        """Return the rows of an outcome; without texts, and why, where these cannot be read or redacted."""
        try:
            return _complete(rows_of(pending, texts=self._texts, redact=self._redact)), None
        except Exception as error:
            if not self._texts:
                raise
            return _complete(rows_of(pending, texts=False)), error

    def insert(self, batch: Sequence[OutcomeRows]) -> list[Exception]:
        """Write outcomes, and return why some were refused; raise if the database failed."""
        try:
            return _write(self._sealing, batch)
        except Exception:
            self._ready = False  # whatever happened to the database, its tables are looked for again
            raise

    @contextmanager
    def _sealing(self) -> Iterator[tuple[Connection, Links]]:
        with _writing_to(self._connected()) as connection:
            if time.monotonic() >= self._adopt_due_at:
                adopt_older(connection)
                self._adopt_due_at = time.monotonic() + _PAUSE_S
            with self._chain.extended(connection) as links:
                yield connection, links
        self._chain.keep(links)

    def sweep(self) -> bool:
        """Delete some of what is too old, if it is time, and sum up some of what an older version wrote.

        The oldest 1,000 at most go at once; the next time is at once while there are more, else in a minute.

        Returns:
            Whether there is more to do.
        """
        if not self._is_summed:
            self.sum_up()
        if self._keep_days is None or time.monotonic() < self._sweep_due_at:
            return not self._is_summed
        with self.writing() as connection:
            more = _delete_before(connection, now_ms() - int(self._keep_days * _DAY_MS), self._key)
        self._sweep_due_at = 0.0 if more else time.monotonic() + _PAUSE_S
        return more or not self._is_summed

    def check(self) -> None:
        """Connect; raise a `ConfigurationError` that says why it cannot be done."""
        with self._naming_failures():
            self._connected()

    def exist(self) -> bool:
        """Check whether the tables are there; none are made, and a file of SQLite keeps its kind of journal."""
        is_file = self._url.get_backend_name() == "sqlite"
        engine = create_engine(self._url, poolclass=NullPool) if is_file else self._engine
        with self._naming_failures(), engine.connect() as connection:
            return version_of(connection) > 0

    @contextmanager
    def _naming_failures(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            original = getattr(error, "orig", None) or error
            raise ConfigurationError(
                f"the record {masked(self._url)} cannot be used: {one_line(original)}; check the URL, and that "
                f"the database runs"
            ) from error

    def sum_up(self) -> bool:
        """Sum up some of what an older version wrote; return whether there is more."""
        with self.writing() as connection:
            self._is_summed = not sum_up_older(connection)
        return not self._is_summed

    def has_work(self) -> bool:
        """Check whether there is something to do beside writing: retention, or sums of older outcomes."""
        if self._keep_days is not None:
            return True
        with self.reading() as connection:
            return not is_summed(connection)

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
        with _writing_to(self._engine) as connection:
            yield connection

    @contextmanager
    def reading_one_state(self) -> Iterator[Connection]:
        """Connect for reading one state of the database, whatever is written meanwhile."""
        self.check()
        level = {"isolation_level": "REPEATABLE READ"} if self._engine.dialect.name == "postgresql" else {}
        with self._engine.connect().execution_options(**level) as connection:
            yield connection

    def dispose(self) -> None:
        """Close all connections; those of a later use are new ones."""
        if "_engine" in vars(self):  # or a file would be made that nobody has asked for
            self._engine.dispose()

    def _connected(self) -> Engine:
        if not self._ready:
            with self._lock, _writing_to(self._engine) as connection:
                migrate(connection)
                adopt_older(connection)
            self._ready = True
        return self._engine

    @cached_property
    def _engine(self) -> Engine:
        return _make_engine(self._url)
