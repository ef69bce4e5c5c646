"""The tables, and the steps from one version of them to the next."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
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
from refine.record.rows import TABLES, name_of, now_ms, text_of

Stored = Mapping[str, Any] | RowMapping
"""A row by column, as it is about to be written, or as it was read."""

_TABLES = MetaData()

_TYPES: Mapping[str, Any] = {
    "text": Text,
    "whole": Integer,
    "big": BigInteger,
    "number": Float(53),
    "flag": Boolean,
}


def _table(name: str, *indexes: Index, **settings: Any) -> Table:
    """Return a table with the columns that tables.toml gives it."""
    columns = []
    for column, text_of_column in TABLES[name].items():
        marks, _, meaning = text_of_column.partition(": ")
        kind, *others = marks.split()
        is_key = "key" in others
        columns.append(
            Column(
                column,
                _TYPES[kind],
                primary_key=is_key,
                autoincrement=False,
                nullable=not (is_key or "required" in others),
                comment=meaning or None,
            )
        )
    return Table(name, _TABLES, *columns, *indexes, **settings)


OUTCOME = _table("outcome", Index("outcome_at", "at"), Index("outcome_chain", "chain", "position"))
ATTEMPT = _table("attempt")
LABEL = _table("label")
ANCHOR = _table("record_anchor")
GAP = _table("record_gap")
SERIES = _table("record_series")
SUMS = _table("record_sums", sqlite_with_rowid=False)
TALLY = _table("record_tally", sqlite_with_rowid=False)
BUDGET = _table("record_budget")
STATE = _table("record_state")
"""How far the record is.

It is `sealed` since when, `keyed` from which chain on, and `summed` up to which outcome of an older version. What
its labels were used for has a row each (`label_use:`).
"""
_META = _table("meta")

SEAL = ("chain", "position", "previous", "hash")
"""Columns of an outcome's place in a chain; see `refine.record.seals`."""

MEASURES = tuple(column.name for column in SUMS.columns if not column.primary_key)
"""What is summed up; costs in billionths of a dollar, times in microseconds."""

SUMS_OF_NONE = -1
"""How far sums are that have not begun."""
SUMS_OF_ALL = 2**53
"""How far complete sums are."""

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
    _TABLES.create_all,
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
    version = version_of(connection)
    for number, step in enumerate(_MIGRATIONS[version:], version + 1):
        step(connection)
        connection.execute(_META.delete())
        connection.execute(_META.insert().values(version=number))


def version_of(connection: Connection) -> int:
    """Return the version of the tables; 0 if there are none.

    Raises:
        ConfigurationError: If the tables are another program's, or of a later version.
    """
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


class OutcomeFilter(BaseModel, frozen=True, extra="forbid"):
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

    @field_validator("*", mode="before")
    @classmethod
    def _as_stored(cls, value: object, info: ValidationInfo) -> object:
        """Return a text as the database holds it, without half a character, and names cut."""
        if not isinstance(value, str):
            return value
        return text_of(value) if info.field_name == "text" else name_of(value)

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
