"""The tables, and the steps from one version of them to the next."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    RowMapping,
    Table,
    Text,
    inspect,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from judges import ConfigurationError
from judges.errors import shortened
from refine.record.rows import now_ms

Stored = Mapping[str, Any] | RowMapping
"""A row by column, as it is about to be written, or as it was read."""

_TABLES = MetaData()

OUTCOME = Table(
    "outcome",
    _TABLES,
    Column("id", Text, primary_key=True),
    Column("at", BigInteger, nullable=False, comment="when it ended, milliseconds since the epoch"),
    Column("refiner", Text),
    Column("request_id", Text),
    Column("trace_id", Text, comment="of OpenTelemetry"),
    Column("question_id", Text, comment="the same for the same question"),
    Column("key", Text, comment="name of the caller's key"),
    Column("user", Text, comment="who asked, as the caller says"),
    Column("session", Text, comment="id of the session, as the caller says"),
    Column("thread", Text, comment="id of the conversation, as the caller or the checkpointer says"),
    Column("policy_digest", Text),
    Column("success_rating", Integer),
    Column("success_score", Float(53), comment="where answers are accepted by score"),
    Column("max_attempts", Integer),
    Column("patience", Integer),
    Column("shadow", Boolean),
    Column("continuation_probability", Float(53), comment="of going on after a pass, to learn; null where never"),
    Column("judge", Text),
    Column("judge_digest", Text, comment="changes with the judge's models and prompts"),
    Column("subject", Text, comment="JSON: the loop that a certificate of this record is about"),
    Column("certificate", Text, comment="id of the certificate in force"),
    Column("model", Text),
    Column("finish_reason", Text),
    Column("passed", Boolean, nullable=False),
    Column("stop_reason", Text, nullable=False),
    Column("detail", Text),
    Column("rating", Integer),
    Column("score", Float(53)),
    Column("attempts", Integer, nullable=False),
    Column("released", Integer, comment="number of the attempt whose answer was released"),
    Column("latency_s", Float(53)),
    Column("calls", BigInteger),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cost", Float(53), comment="US dollars; null where unknown"),
    Column("question", Text),
    Column("conversation", Text, comment="JSON, where it is more than one question"),
    Column("evidence", Text, comment="JSON"),
    Column("answer", Text, comment="what was answered, where that is no attempt's draft"),
    Column("input_judge", Text, comment="the judge of the question, where there is one, and its verdict"),
    Column("input_rating", Integer),
    Column("input_unscored", Text),
    Column("input_s", Float(53)),
    Column("input_calls", BigInteger, comment="calls and tokens are in those of the outcome, too"),
    Column("input_tokens_in", BigInteger),
    Column("input_tokens_out", BigInteger),
    Column("input_rationale", Text),
    Column("chain", Text, comment="of the process that wrote it; null before records were sealed"),
    Column("position", BigInteger, comment="in the chain, from 1"),
    Column("previous", Text, comment="hash of the outcome before it in the chain"),
    Column("hash", Text, comment="of its place and all that is stored of it, attempts included"),
    Index("outcome_at", "at"),
    Index("outcome_chain", "chain", "position"),
)

SEAL = ("chain", "position", "previous", "hash")
"""Columns of an outcome's place in a chain; see `refine.record.seals`."""

ATTEMPT = Table(
    "attempt",
    _TABLES,
    Column("outcome", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("released", Boolean, nullable=False),
    Column("kind", Text, comment="mended, refusal, cut, ...; null for an answer of text"),
    Column("model", Text),
    Column("finish_reason", Text),
    Column("generate_s", Float(53)),
    Column("calls", BigInteger, comment="of the generator, as are tokens and cost"),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cost", Float(53)),
    Column("rating", Integer),
    Column("score", Float(53)),
    Column("passed", Boolean, comment="by the judge's own pass mark"),
    Column("p_pass", Float(53), comment="how likely that was; null where unknown"),
    Column("probabilities", Text, comment="JSON: how likely each rating was"),
    Column("rated_natively", Boolean, comment="the judge chose the rating itself: its pass mark does not count"),
    Column("unscored", Text),
    Column("judge", Text),
    Column("judge_model", Text),
    Column("judge_s", Float(53)),
    Column("judge_calls", BigInteger),
    Column("judge_input_tokens", BigInteger),
    Column("judge_output_tokens", BigInteger),
    Column("judge_cost", Float(53)),
    Column("draft", Text),
    Column("steps", Text, comment="JSON: tool calls and their results"),
    Column("evidence", Text, comment="JSON"),
    Column("rationale", Text),
    Column("feedback", Text),
    Column("verdict_detail", Text),
    Column("items", Text, comment="JSON: verdicts on the parts; pieces say `released`"),
)

LABEL = Table(
    "label",
    _TABLES,
    Column("outcome", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("by", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("rating", Integer),
    Column("up", Boolean),
    Column("note", Text),
    Column("split", Text, comment="what the label may be used for: tune, certify or report"),
)

ANCHOR = Table(
    "record_anchor",
    _TABLES,
    Column("chain", Text, primary_key=True),
    Column("number", BigInteger, nullable=False, comment="the how manieth chain it is"),
    Column("begun", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False, comment="of its last outcome"),
    Column("hash", Text, nullable=False),
    Column("keyed", Boolean, nullable=False),
    Column("seal", Text, nullable=False),
)

GAP = Table(
    "record_gap",
    _TABLES,
    Column("chain", Text, primary_key=True),
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("last", BigInteger, nullable=False),
    Column("previous", Text, nullable=False, comment="hash of the outcome before the gap"),
    Column("hash", Text, nullable=False, comment="hash of the last outcome that was removed"),
    Column("at", BigInteger, nullable=False),
    Column("seal", Text, nullable=False),
)

SERIES = Table(
    "record_series",
    _TABLES,
    Column("id", BigInteger, primary_key=True, autoincrement=False, comment="a digest of the rest"),
    Column("refiner", Text),
    Column("model", Text),
    Column("judge", Text),
    Column("key", Text),
    Column("passed", Boolean, nullable=False),
    Column("stop_reason", Text, nullable=False),
    Column("rating", Integer),
    Column("attempts", Integer, nullable=False),
)

MEASURES = (
    "outcomes",
    "calls",
    "input_tokens",
    "output_tokens",
    "cost",
    "cost_unknown",
    "generate_s",
    "judge_s",
    "generate_cost",
    "judge_cost",
)
"""What is summed up; costs in billionths of a dollar, times in microseconds."""

SUMS = Table(
    "record_sums",
    _TABLES,
    Column("width", BigInteger, primary_key=True, autoincrement=False, comment="of a minute, an hour or a day"),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("series", BigInteger, primary_key=True, autoincrement=False),
    *(Column(name, BigInteger, nullable=False) for name in MEASURES),
    sqlite_with_rowid=False,
)

TALLY = Table(
    "record_tally",
    _TABLES,
    Column("width", BigInteger, primary_key=True, autoincrement=False),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("series", BigInteger, primary_key=True, autoincrement=False),
    Column("judge", Text, primary_key=True, comment="empty for times, whose values are buckets"),
    Column("value", Integer, primary_key=True, autoincrement=False),
    Column("n", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

SUMS_OF_NONE = -1
"""How far sums are that have not begun."""
SUMS_OF_ALL = 2**53
"""How far complete sums are."""

STATE = Table(
    "record_state",
    _TABLES,
    Column("name", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("id", Text, nullable=False),
)
"""How far the record is.

It is `sealed` since when, `keyed` from which chain on, and `summed` up to which outcome of an older version. What
its labels were used for has a row each (`label_use:`).
"""

SEALED_FROM_THE_FIRST = "first"
"""Id of the state `sealed` of a record in which every outcome has a seal, so that one without was put there."""

_REQUEST_ENDS = ("passed_through", "left")


def is_request(stop_reason: str) -> bool:
    """Check whether an outcome is a request that no answer was judged for: passed through, an error, or left."""
    return stop_reason in _REQUEST_ENDS or stop_reason.startswith("error_")


def of_requests(stop_reason: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return `is_request` as a condition on a column."""
    return or_(stop_reason.in_(_REQUEST_ENDS), stop_reason.startswith("error_", autoescape=True))


def insert_into(connection: Connection, table: Table) -> Any:
    """Return an insertion that may say what happens to a row that is there already."""
    return (postgresql_insert if connection.dialect.name == "postgresql" else sqlite_insert)(table)


_META = Table("meta", _TABLES, Column("version", Integer, primary_key=True, autoincrement=False))


_FIRST_TABLES = frozenset({"outcome", "attempt", "label", "meta"})
"""Tables that every version has."""


def _add_missing_columns(connection: Connection) -> None:
    """Add the columns that came later; tables that this version made have them."""
    inspector, preparer = inspect(connection), connection.dialect.identifier_preparer
    for table in (OUTCOME, ATTEMPT, LABEL):
        present = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in present:
                kind = column.type.compile(connection.dialect)
                name = preparer.quote(column.name)
                connection.execute(text(f"ALTER TABLE {preparer.quote(table.name)} ADD COLUMN {name} {kind}"))


def _begin_seals_and_sums(connection: Connection) -> None:
    """Add seals, and sums, which are still to be filled in where there are outcomes already."""
    _add_missing_columns(connection)
    _TABLES.create_all(connection)
    for index in OUTCOME.indexes:
        index.create(connection, checkfirst=True)
    is_empty = connection.execute(select(OUTCOME.c.id).limit(1)).first() is None
    summed = SUMS_OF_ALL if is_empty else SUMS_OF_NONE
    connection.execute(STATE.insert().values(name="sealed", at=now_ms(), id=""))
    connection.execute(STATE.insert().values(name="summed", at=summed, id=""))


_INDEXES = {
    "latency": "latency_s DESC{last}",
    "cost": "cost DESC{last}",
    "attempts": "attempts DESC, at DESC",
    "rating": "rating, at DESC",
    **{f"{name}_at": f'"{name}", at) WHERE ("{name}" IS NOT NULL' for name in ("user", "session", "thread")},
}
"""For each way to sort a list, and for who asked; in SQLite nulls sort below all else by themselves."""


def _add_indexes(connection: Connection) -> None:
    """Add what lists of a million outcomes are sorted by, however long that takes."""
    is_postgresql = connection.dialect.name == "postgresql"
    if is_postgresql:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
    for name, columns in _INDEXES.items():
        terms = columns.format(last=" NULLS LAST" if is_postgresql else "")
        connection.execute(text(f"CREATE INDEX IF NOT EXISTS outcome_{name} ON outcome ({terms})"))


def _order_by_time_and_note_what_is_sealed(connection: Connection) -> None:
    """Let indexes of who asked have the time, too, and note where every outcome has a seal."""
    for name in ("user", "session", "thread"):
        connection.execute(text(f"DROP INDEX IF EXISTS outcome_{name}"))
    _add_indexes(connection)
    bare = select(OUTCOME.c.id).where(OUTCOME.c.chain.is_(None)).limit(1)
    if connection.execute(bare).first() is None:
        connection.execute(STATE.update().filter_by(name="sealed").values(id=SEALED_FROM_THE_FIRST))


_MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _TABLES.create_all,
    _add_missing_columns,
    _begin_seals_and_sums,
    _add_indexes,
    _order_by_time_and_note_what_is_sealed,
)
"""Each brings the tables from one version to the next; the first makes them."""

_LOCK = 0x7265_6669_6E65
"""Key of the lock under which PostgreSQL changes the tables, so that one process alone does."""


def lock_tables(connection: Connection) -> None:
    """Let no other process do the same until this transaction ends; SQLite has but one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def migrate(connection: Connection) -> None:
    """Bring the tables to this version, in one transaction that excludes other processes.

    Raises:
        ConfigurationError: If the tables are another program's, or of a later version.
    """
    lock_tables(connection)
    version = _version(connection)
    for number, step in enumerate(_MIGRATIONS[version:], version + 1):
        step(connection)
        connection.execute(_META.delete())
        connection.execute(_META.insert().values(version=number))


def _version(connection: Connection) -> int:
    """Return the version of the tables; 0 if there are none."""
    inspector = inspect(connection)
    present = set(inspector.get_table_names())
    foreign = ConfigurationError(
        f"the database holds tables of another program, with the names of the record's own "
        f"({', '.join(sorted(_FIRST_TABLES))}); give the record a database, or a schema, of its own"
    )
    if not present & _FIRST_TABLES:
        return 0
    if not present >= _FIRST_TABLES or [column["name"] for column in inspector.get_columns("meta")] != ["version"]:
        raise foreign
    versions = connection.execute(select(_META.c.version)).scalars().all()
    if len(versions) != 1:
        raise foreign
    if versions[0] > len(_MIGRATIONS):
        raise ConfigurationError(
            f"the record was written by a newer version of selfrefine (its tables have version {versions[0]}, "
            f"this one knows {len(_MIGRATIONS)}); update selfrefine, or give another record"
        )
    return int(versions[0])


_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LATEST = 2**53


def _milliseconds(moment: object) -> object:
    """Return a time, in any form that a person writes, in milliseconds since the epoch."""
    if not isinstance(moment, str) or moment.strip().isdigit():
        return moment
    ago = _AGO.fullmatch(moment.strip())
    if ago is not None:
        return max(0, now_ms() - int(ago[1]) * _SECONDS[ago[2]] * 1_000)
    try:
        parsed = datetime.fromisoformat(moment.strip())
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        return max(0, int(aware.timestamp() * 1_000))
    except (ValueError, OverflowError):
        raise ValueError("a date such as 2026-11-22, or a time ago such as 24h or 7d") from None


_Moment = Annotated[int, Field(ge=0, le=_LATEST), BeforeValidator(_milliseconds)]
"""A time in milliseconds since the epoch."""


class OutcomeFilter(BaseModel):
    """Which outcomes; every setting narrows the choice, and without any all are chosen.

    Args:
        id: The one with this id.
        passed: Whether the judge accepted the answer.
        rating: Rating of the released answer, 1 to 4.
        stop_reason: Why the loop stopped, for instance `"max_attempts"`.
        refiner: Name of the refiner or guard.
        model: Model of the generator.
        judge: Name of the judge.
        key: Name of the caller's key.
        user: Who asked, as the caller says; as are the next two.
        session: Id of the session.
        thread: Id of the conversation.
        text: Words in question or drafts, of records that hold texts; upper and lower case are the same.
        labelled: `"no"`: without a label; `"yes"`: with one; `"disagree"`: a label and the judge differ, by two
            ratings or about passing.
        since: Earliest time: an ISO date or time (`"2026-11-22"`, `"2026-11-22T08:00+01:00"`; UTC if it says
            nothing else), a time ago (`"30m"`, `"24h"`, `"7d"`), or milliseconds since the epoch.
        until: Time before which they ended, in the same forms.

    Raises:
        ConfigurationError: If a setting is unknown or out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str | None = None
    passed: bool | None = None
    rating: int | None = Field(default=None, ge=1, le=4)
    stop_reason: str | None = None
    refiner: str | None = None
    model: str | None = None
    judge: str | None = None
    key: str | None = None
    user: str | None = None
    session: str | None = None
    thread: str | None = None
    text: str | None = Field(default=None, max_length=1_000)
    labelled: Literal["no", "yes", "disagree"] | None = None
    since: _Moment | None = None
    until: _Moment | None = None

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            name = ".".join(map(str, fault["loc"]))
            if fault["type"] == "extra_forbidden":
                filter_names = ", ".join(type(self).model_fields)
                raise ConfigurationError(
                    f"there is no filter {shortened(name)}; there are {filter_names}"
                ) from None
            reason = fault["msg"].removeprefix("Value error, ")
            message = f"filter {name}: {reason} (given {shortened(fault['input'])})"
            raise ConfigurationError(message) from None

    @classmethod
    def read(cls, settings: Mapping[str, str]) -> Self:
        """Return the filter of an address's parameters; empty ones count as left out."""
        return cls(**{name: value for name, value in settings.items() if value.strip()})
