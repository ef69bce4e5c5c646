"""`DatabaseRecord`: a record in SQLite or PostgreSQL."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from graphs import Outcome
from judges import ConfigurationError
from judges.certificate import IssuedCertificate
from judges.errors import shortened
from judges.promise import OnAlarm, Standing, follow
from judges.runtime.validation import SharedByCopies, finite_number, naming_settings
from refine.record.chains import verify_record
from refine.record.queries import ORDERS, Label, Queries
from refine.record.rows import Origin, Redact, check_outcome
from refine.record.schema import OutcomeFilter
from refine.record.seals import Row, Verification, seal_key_of, sealed_rows
from refine.record.sums import begin_budgets, is_summed, share_budgets, sum_faults
from refine.record.writer import RecordStats, RecordWriter, Tables, masked

T = TypeVar("T")

_WITHDRAWN = "withdrawn"
_EVERYTHING = OutcomeFilter()
_NO_ORIGIN = Origin()


def _read_url(text: str) -> URL:
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


class DatabaseRecord(SharedByCopies):
    """Every outcome in a database, with its attempts, verdicts, usage and timing; and what is read from there.

    `add` only puts an outcome into a queue; a thread of its own writes batches. Nothing that happens to the
    database costs or delays an answer: outcomes wait while it is away, and what does not fit into the queue, or is
    refused, is counted in `stats()` and in `refine.losses()`. An outcome handed over twice is written once. What
    is queued is written when the record is closed or the process ends, within 5 seconds.

    The methods that read block; from async code call them by `asyncio.to_thread`.

    Args:
        url: `sqlite:///file.db` or `postgresql://user:password@host/database`. A new SQLite file is readable and
            writable by its owner only.
        texts: Whether to store texts: questions, conversations, evidence, drafts, and what the judge said of them.
            Without them there is nothing to judge again offline.
        redact: Function, or functions in order, from a text to what may be stored of it; applied to each text. If
            one fails, the outcome is stored without texts.
        keep_days: Days after which an outcome is deleted, with its labels; None keeps all.
        max_queue: Most outcomes that wait to be written.
        max_queue_characters: Most characters of the texts of those.

    Raises:
        ConfigurationError: If the URL cannot be used, or the extra `record` is not installed.
    """

    blocks = False
    """Whether `add` may wait for anything."""

    @naming_settings("DatabaseRecord('sqlite:///record.db')", days="keep_days", retention="keep_days", path="url")
    def __init__(
        self,
        url: str,
        *,
        texts: bool = False,
        redact: Redact | Sequence[Redact] = (),
        keep_days: float | None = None,
        max_queue: int = 10_000,
        max_queue_characters: int = 100_000_000,
    ) -> None:
        limits = {"max_queue": max_queue, "max_queue_characters": max_queue_characters}
        self._again = partial(DatabaseRecord, url, texts=texts, redact=redact, keep_days=keep_days, **limits)
        self._url = _read_url(url)
        if self._url.get_backend_name() == "postgresql" and find_spec("psycopg") is None:
            raise ConfigurationError("a record in PostgreSQL needs psycopg; install the extra: selfrefine[record]")
        if keep_days is not None and not finite_number(keep_days, setting="keep_days") > 0:
            raise ConfigurationError(
                f"keep_days is a number of days above 0, or None to keep all, not {keep_days!r}"
            )
        if max_queue < 1 or max_queue_characters < 1:
            raise ConfigurationError(f"max_queue is at least 1, not {min(max_queue, max_queue_characters)!r}")
        self.texts = texts
        self._redact = (redact,) if callable(redact) else tuple(redact)
        self._keep_days, self._max_queue, self._max_characters = keep_days, max_queue, max_queue_characters
        self._parts: dict[int, tuple[Tables, RecordWriter]] = {}

    def __repr__(self) -> str:
        return f"DatabaseRecord({masked(self._url)!r}, texts={self.texts})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._url.password:
            raise ConfigurationError("a record whose URL holds a password is not pickled; make it in each process")
        return self._again, ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """What it is called for people: its URL without password and settings."""
        return masked(self._url)

    @property
    def file(self) -> Path | None:
        """The file of a record in SQLite."""
        return Path(self._url.database or "") if self._url.get_backend_name() == "sqlite" else None

    # Writing

    def add(self, outcome: Outcome, origin: Origin = _NO_ORIGIN) -> None:
        """Queue an outcome to be written; waits for nothing, and raises for nothing but what is no outcome."""
        check_outcome(outcome)
        self._writer.add(outcome, origin)

    def stats(self) -> RecordStats:
        """Return what became of the outcomes that this process has added."""
        return self._writer.stats()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until what was added is written or lost; return whether it is, within `timeout_s` seconds."""
        return self._writer.flush(timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is queued, for at most `timeout_s` seconds; what is added later is lost, and counted."""
        self._writer.close(timeout_s)

    def exists(self) -> bool:
        """Check whether the database holds a record; nothing is made in one that does not.

        Raises:
            ConfigurationError: If it cannot be used, or holds tables of another program.
        """
        return (self.file is None or self.file.exists()) and self._tables.exist()

    def check(self) -> None:
        """Connect, and make the tables if they are missing.

        Raises:
            ConfigurationError: If the database cannot be used; the message says why.
        """
        self._tables.check()
        if self._tables.has_work():
            self._writer.start()

    def sum_up(self) -> None:
        """Sum up what an older version wrote, of which it kept no sums; the writing process does so by itself.

        Until that is done, figures count every row.
        """
        while self._tables.sum_up():
            """There is more."""

    def begin_budgets(self, day: int) -> None:
        """Begin a day (UTC), in milliseconds, whose budgets of keys processes share, with what is recorded of it.

        Raises:
            ConfigurationError: If the database cannot be used.
        """
        with self._tables.writing() as connection:
            begin_budgets(connection, day)

    def share_budgets(
        self, day: int, process: str, asked: Mapping[tuple[str, str], tuple[int, int, int]]
    ) -> dict[tuple[str, str], tuple[int, int]]:
        """Take a small share of what is left of budgets, and say what a process has consumed of them.

        Args:
            day: When the day began, in milliseconds.
            process: Who asks.
            asked: By key and thing (requests, tokens, dollars in billionths): the budget, or 0 to take none,
                what the process has consumed, and what it may have until it gets the answer.

        Returns:
            By key and thing what this process may have consumed before it asks again, and what others may.

        Raises:
            ConfigurationError: If the database cannot be used.
        """
        with self._tables.writing() as connection:
            return share_budgets(connection, day, process, asked)

    # Reading

    def is_summed(self) -> bool:
        """Check whether the sums are those of all outcomes."""
        return self._read(lambda queries: is_summed(queries.connection))

    def outcomes(
        self,
        where: OutcomeFilter = _EVERYTHING,
        *,
        limit: int = 50,
        before: tuple[int, str] | None = None,
        order: str = "newest",
        skip: int = 0,
    ) -> list[Row]:
        """Return outcomes, without drafts.

        Args:
            where: Which.
            limit: Most rows, from 1 to 1,000.
            before: `at` and `id` of the last row of the page before this one.
            order: What comes first: `"newest"`, `"slowest"`, `"worst"` (rated), `"attempts"` (most), `"dearest"`.
            skip: How many rows to leave out at the beginning.

        Raises:
            ConfigurationError: If there is no such order, or the database cannot be read.
        """
        if order not in ORDERS:
            raise ConfigurationError(f"order is one of {', '.join(ORDERS)}, not {shortened(order)}")
        return self._read(
            lambda queries: queries.outcomes(where, limit=limit, before=before, order=order, skip=skip)
        )

    def outcome(self, identifier: str) -> Row | None:
        """Return an outcome with its `attempts` and `labels`, or None."""
        return self._read(lambda queries: queries.outcome(identifier))

    def figures(self, where: OutcomeFilter = _EVERYTHING, *, buckets: int = 48) -> Row:
        """Return the sums, the distribution of ratings, and a series over time of the outcomes chosen."""
        return self._read(lambda queries: queries.figures(where, buckets=buckets))

    def table(self, by: str = "refiner", where: OutcomeFilter = _EVERYTHING) -> list[Row]:
        """Return a row for each guard, key or the like: how many answers, what became of them, time and cost.

        Args:
            by: Column to group by: `"refiner"`, `"model"`, `"judge"`, `"stop_reason"` or a column of who asked.
            where: Which outcomes.

        Raises:
            ConfigurationError: If it is none of these.
        """
        return self._read(lambda queries: queries.table(by, where))

    def newest(self, where: OutcomeFilter, *, by: str = "refiner", most: int = 5_000) -> OutcomeFilter:
        """Return a filter whose figures are quick: without what is older than the newest of very many outcomes.

        A filter that the sums answer is returned as it is, whatever it chooses. Others have to be looked at one
        by one: those of a user, a session or a thread, labelled ones, and all that are searched for words.

        Args:
            where: Which outcomes.
            by: The column of a table of them.
            most: How many are looked at.
        """
        return self._read(lambda queries: queries.newest(where, by=by, most=most))

    def choices(self) -> dict[str, list[str]]:
        """Return the values that occur in the columns that a filter can name."""
        return self._read(Queries.choices)

    def rows(self, where: OutcomeFilter = _EVERYTHING) -> Generator[Row, None, None]:
        """Yield every attempt, oldest first, as a row of a dataset that `refine evaluate` reads.

        Raises:
            ConfigurationError: If outcomes are chosen and none has texts, so that there is nothing to judge.
        """
        with self._tables.reading() as connection:
            yield from Queries(connection).dataset_rows(where)

    def attempts(self, where: OutcomeFilter = _EVERYTHING, *, texts: bool = False) -> Generator[Row, None, None]:
        """Yield what is known of every attempt besides the texts, oldest outcome first, with its labels.

        This is what `judges.offline.replay` reads; a record without texts has it too. With `texts` question and
        answer are in it where they were recorded, which people need who label them.
        """
        with self._tables.reading() as connection:
            yield from Queries(connection).attempt_rows(where, texts=texts)

    def export(self, where: OutcomeFilter = _EVERYTHING) -> Generator[Row, None, None]:
        """Yield what `rows` does, with a seal in the metadata of each row, which `refine verify` reads."""
        return sealed_rows(self.rows(where), seal_key_of())

    def verify(self, heads: Mapping[str, Sequence[Any]] | None = None) -> Verification:
        """Return whether every outcome is as it was written, none is missing, and the sums are those of them.

        Args:
            heads: `heads` of an earlier verification, kept elsewhere; they show what was cut off since.

        Raises:
            ConfigurationError: If the seals are under a key that the environment does not hold.
        """
        with self._tables.reading_one_state() as connection:
            result = verify_record(connection, seal_key_of(), heads)
            try:
                for fault in () if result.faults else sum_faults(connection):
                    result.add(fault)
            except (TypeError, ValueError, ArithmeticError):
                result.add("the sums cannot be compared, as a row of theirs holds what was never written")
            return result

    def label(
        self,
        outcome: str,
        number: int,
        *,
        by: str,
        rating: int | None = None,
        up: bool | None = None,
        note: str | None = None,
        split: str | None = None,
    ) -> None:
        """Save a person's opinion of an attempt, in place of an earlier one of the same person; empty deletes it.

        Args:
            outcome: Id of the outcome.
            number: Number of the attempt.
            by: Who.
            rating: 1 to 4.
            up: Thumbs up or down.
            note: In words.
            split: What the label may be used for: `"tune"` a judge, `"certify"` a threshold, or `"report"`.

        Raises:
            ConfigurationError: If there is no such attempt, or a value is out of range.
        """
        label = Label(outcome=outcome, number=number, by=by, rating=rating, up=up, note=note, split=split)
        with self._tables.writing() as connection:
            Queries(connection).save(label)

    def standing(self, certificate: IssuedCertificate, on_alarm: OnAlarm = "stricter") -> Standing:
        """Return where the promise of a certificate stands, by the labels of the answers that it covers.

        An alarm is kept here for every process that uses this record, and stays when its labels are deleted.

        Raises:
            ConfigurationError: If the promise is not about a share of bad answers, or the database cannot be used.
        """
        name = f"promise:{certificate.id}:{on_alarm}"
        with self._tables.reading() as connection:
            audits = Queries(connection).audits(certificate)
            before = Queries(connection).last_alarm(name)
        standing = follow(certificate, audits, on_alarm)
        if before is not None:
            standing = standing.after(None if before == _WITHDRAWN else float(before))
        moved_to = _WITHDRAWN if standing.threshold is None else f"{standing.threshold:g}"
        if standing.moves and moved_to != before:
            with self._tables.writing() as connection:
                Queries(connection).keep_alarm(name, moved_to)
        return standing

    def label_uses(self) -> Sequence[str]:
        """Return for which certificates labels of this record were used, the oldest first; see `certify`."""
        return self._read(Queries.label_uses)

    def keep_label_use(self, line: str) -> None:
        """Keep that labels were used, for everyone who certifies by this record; copies of it have it, too."""
        with self._tables.writing() as connection:
            Queries(connection).keep_label_use(line)

    def _read(self, query: Callable[[Queries], T]) -> T:
        with self._tables.reading() as connection:
            return query(Queries(connection))

    @property
    def _tables(self) -> Tables:
        return self._of_process()[0]

    @property
    def _writer(self) -> RecordWriter:
        return self._of_process()[1]

    def _of_process(self) -> tuple[Tables, RecordWriter]:
        """Return tables and writer of this process; a forked one must not use its parent's connections."""
        parts = self._parts.get(os.getpid())
        if parts is None:
            tables = Tables(self._url, texts=self.texts, redact=self._redact, keep_days=self._keep_days)
            writer = RecordWriter(
                tables, name=masked(self._url), most=self._max_queue, most_characters=self._max_characters
            )
            parts = self._parts.setdefault(os.getpid(), (tables, writer))
            if parts[1] is writer:
                weakref.finalize(self, writer.stop).atexit = False
        return parts
