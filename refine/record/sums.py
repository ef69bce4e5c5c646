"""Sums by minute, hour and day, kept as outcomes are written, so that figures need not count a million rows.

A series is what a filter can tell apart: guard, model, judge, key, and how it ended. One without a key is of the
outcomes of all keys; its widths are below 0, so that figures find its rows among themselves. Dollars are kept in
billionths and seconds in millionths, so that what is taken away again leaves nothing behind.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from operator import add
from typing import Any

import sqlalchemy as sa

from refine.record.schema import (
    ATTEMPT,
    BUDGET,
    MEASURES,
    OUTCOME,
    SERIES,
    STATE,
    SUMS,
    SUMS_OF_ALL,
    SUMS_OF_NONE,
    TALLY,
    OutcomeFilter,
    Stored,
    insert_into,
    is_request,
    lock_tables,
    of_requests,
)

MINUTE = 60_000
HOUR = 3_600_000
DAY = 86_400_000
_WIDTHS = (DAY, HOUR, MINUTE)
_DIMENSIONS = ("refiner", "model", "judge", "key", "passed", "stop_reason", "rating", "attempts")
_NUMBERS = ("id", "at", "chain", "calls", "input_tokens", "output_tokens", "cost", "latency_s")
_NEEDED = [column for column in OUTCOME.columns if column.name in {*_DIMENSIONS, *_NUMBERS}]
"""The columns that sums are made of."""
_KEY = _DIMENSIONS.index("key")
_ENDS = ("passed", "stop_reason", "rating", "attempts")
_FILTERS = frozenset(_DIMENSIONS) - {"attempts"}
_MOST = 10**12
"""Largest share of one outcome in a sum, so that nonsense from a provider makes none overflow."""
_STEP = math.log(1.03)
_LATENCY = ""
"""Whose values are buckets of seconds, in place of a judge's name, whose values are ratings; 0 is none."""
_SERIES = 2
"""Place of the series in a row of the sums and the tally."""
_SLICE = 500
_LAST = 2**53 - 2**53 % DAY

Pair = tuple[Stored, Sequence[Stored]]
"""The row of an outcome, and those of its attempts."""


def bucket_of(seconds: float) -> int:
    """Return the bucket of a time; its neighbours are 3 % away."""
    return round(math.log(seconds) / _STEP) if seconds > 1e-6 else round(math.log(1e-6) / _STEP)  # noqa: PLR2004 - a microsecond


def _seconds_of(bucket: int) -> float:
    """Return the time that a bucket stands for."""
    return math.exp(bucket * _STEP)


_OF_ATTEMPTS = (("generate_s", 10**6), ("judge_s", 10**6), ("cost", 10**9), ("judge_cost", 10**9))


def _whole(value: float | None, scale: int = 1) -> int:
    return 0 if not value else max(-_MOST, min(_MOST, round(value * scale)))


@dataclass(slots=True)
class Sums:
    """What outcomes come to, by series and minute.

    Args:
        series: What each series is, by its id.
        sums: By start of the minute and series; in the order of `MEASURES`.
        tally: How often each value was seen, by start, series and judge.
    """

    series: dict[int, dict[str, Any]] = field(default_factory=dict)
    sums: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    tally: Counter[tuple[int, int, str, int]] = field(default_factory=Counter)
    _ids: dict[tuple[Any, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Iterable[Pair], sign: int = 1) -> Sums:
        """Return the sums of outcomes; with -1 as `sign`, what takes them away."""
        sums = cls()
        for outcome, attempts in pairs:
            sums._add(outcome, attempts, sign)
        return sums

    def _add(self, outcome: Stored, attempts: Sequence[Stored], sign: int) -> None:
        cost = outcome.get("cost")
        values = (
            1,
            _whole(outcome.get("calls")),
            _whole(outcome.get("input_tokens")),
            _whole(outcome.get("output_tokens")),
            _whole(cost, 10**9),
            int(cost is None),
            *(sum([_whole(attempt.get(name), scale) for attempt in attempts]) for name, scale in _OF_ATTEMPTS),
        )
        for series in self._places_of(tuple(map(outcome.get, _DIMENSIONS))):
            place = (outcome["at"] - outcome["at"] % MINUTE, series)
            before = self.sums.get(place) or [0] * len(values)
            self.sums[place] = [old + sign * value for old, value in zip(before, values, strict=True)]
            if outcome.get("latency_s") is not None:
                self.tally[*place, _LATENCY, bucket_of(outcome["latency_s"])] += sign
            for attempt in attempts:
                if attempt.get("judge"):
                    self.tally[*place, attempt["judge"], attempt.get("rating") or 0] += sign

    def _places_of(self, values: tuple[Any, ...]) -> set[int]:
        """Return the ids of the series that an outcome with these dimensions is in: its key's, and that of all."""
        return {self._series_of(values), self._series_of((*values[:_KEY], None, *values[_KEY + 1 :]))}

    def _series_of(self, values: tuple[Any, ...]) -> int:
        """Return the id of the series with these dimensions; hashed once, since most outcomes share a few.

        It is below 0: versions before 0.16, which kept no series of all keys, have those from 0 on.
        """
        series_id = self._ids.get(values)
        if series_id is None:
            dimensions = dict(zip(_DIMENSIONS, values, strict=True))
            plain = json.dumps({**dimensions, "passed": bool(dimensions["passed"])}).encode()
            series_id = self._ids[values] = ~(int.from_bytes(blake2b(plain, digest_size=8).digest()) >> 1)
            self.series[series_id] = dimensions
        return series_id

    def sign_of(self, series: int) -> int:
        """Return the sign of the widths of a series."""
        return -1 if self.series[series]["key"] is None else 1

    def write(self, connection: sa.Connection) -> None:
        """Add these sums to those of the database, in an order that lets no two writers wait for each other."""
        if not self.series:
            return
        series = [{"id": one, **self.series[one]} for one in sorted(self.series)]
        connection.execute(insert_into(connection, SERIES).on_conflict_do_nothing(), series)
        _add_to(connection, SUMS, MEASURES, self._sum_rows())
        _add_to(connection, TALLY, ("n",), self._tally_rows())

    def _sum_rows(self) -> list[dict[str, Any]]:
        wide: dict[tuple[int, int, int], list[int]] = {}
        for (start, series), values in self.sums.items():
            for width in _widths_of(self.series[series]):
                place = (width, start - start % abs(width), series)
                sums_before = wide.get(place)
                wide[place] = (
                    values if sums_before is None else [a + b for a, b in zip(sums_before, values, strict=True)]
                )
        names = ("width", "start", "series", *MEASURES)
        return [dict(zip(names, (*place, *wide[place]), strict=True)) for place in sorted(wide)]

    def _tally_rows(self) -> list[dict[str, Any]]:
        wide: Counter[tuple[int, int, int, str, int]] = Counter()
        for (start, series, judge, value), count in self.tally.items():
            for width in _widths_of(self.series[series]):
                wide[width, start - start % abs(width), series, judge, value] += count
        names = ("width", "start", "series", "judge", "value", "n")
        return [dict(zip(names, (*place, wide[place]), strict=True)) for place in sorted(wide)]


_OF_ALL_KEYS = tuple(-width for width in _WIDTHS)


def _widths_of(series: Mapping[str, Any]) -> tuple[int, ...]:
    return _OF_ALL_KEYS if series["key"] is None else _WIDTHS


def _add_to(
    connection: sa.Connection, table: sa.Table, measures: Sequence[str], rows: list[dict[str, Any]]
) -> None:
    if rows:
        connection.execute(_adding(insert_into(connection, table), table, measures), rows)


def _adding(upsert: Any, table: sa.Table, measures: Sequence[str]) -> Any:
    """Return an insertion that adds to the rows that are there already."""
    grown = {name: table.c[name] + upsert.excluded[name] for name in measures}
    return upsert.on_conflict_do_update(index_elements=list(table.primary_key), set_=grown)


def take_away(connection: sa.Connection, identifiers: Sequence[str]) -> None:
    """Take outcomes that are about to be removed out of the sums they are in."""
    cursor = min(_summed_up_to(connection), (_sealed_since(connection), ""))
    rows = connection.execute(sa.select(*_NEEDED).where(OUTCOME.c.id.in_(identifiers))).mappings().all()
    counted = [row for row in rows if _is_counted(row, cursor)]
    Sums.of(_with_attempts(connection, counted), -1).write(connection)
    for table, count in ((SUMS, SUMS.c.outcomes), (TALLY, TALLY.c.n)):
        last = max((row["at"] for row in counted), default=0)
        connection.execute(sa.delete(table).where(table.c.start <= last, count == 0))


def _is_counted(row: Stored, cursor: tuple[int, str]) -> bool:
    return row["chain"] is not None or (row["at"], row["id"]) <= cursor


def _sealed_since(connection: sa.Connection) -> int:
    """Return since when outcomes are sealed; what an older version writes after that is in no sums."""
    return int(connection.execute(sa.select(STATE.c.at).where(STATE.c.name == "sealed")).scalar() or 0)


def _with_attempts(connection: sa.Connection, rows: Sequence[Stored]) -> Iterator[Pair]:
    attempts: dict[str, list[Stored]] = defaultdict(list)
    names = ("outcome", "generate_s", "judge_s", "cost", "judge_cost", "judge", "rating")
    for begin in range(0, len(rows), _SLICE):
        outcome_ids = [row["id"] for row in rows[begin : begin + _SLICE]]
        query = sa.select(*(ATTEMPT.c[name] for name in names)).where(ATTEMPT.c.outcome.in_(outcome_ids))
        for attempt in connection.execute(query).mappings():
            attempts[attempt["outcome"]].append(attempt)
    return ((row, attempts[row["id"]]) for row in rows)


def _summed_up_to(connection: sa.Connection) -> tuple[int, str]:
    row = connection.execute(sa.select(STATE.c.at, STATE.c.id).where(STATE.c.name == "summed")).first()
    return (SUMS_OF_NONE, "") if row is None else (row.at, row.id)


def is_summed(connection: sa.Connection) -> bool:
    """Check whether the sums are those of all outcomes."""
    return _summed_up_to(connection)[0] >= SUMS_OF_ALL


def sum_up_older(connection: sa.Connection) -> bool:
    """Add some outcomes of an older version, which kept no sums; return whether there are more."""
    if is_summed(connection):
        return False
    lock_tables(connection)
    at, identifier = _summed_up_to(connection)
    place = sa.tuple_(OUTCOME.c.at, OUTCOME.c.id)
    older = sa.and_(OUTCOME.c.chain.is_(None), OUTCOME.c.at >= at, OUTCOME.c.at < _sealed_since(connection))
    query = sa.select(*_NEEDED).where(older, place > (at, identifier))
    rows = connection.execute(query.order_by(OUTCOME.c.at, OUTCOME.c.id).limit(_SLICE)).mappings().all()
    Sums.of(_with_attempts(connection, rows)).write(connection)
    more = len(rows) == _SLICE
    now = {"at": rows[-1]["at"], "id": rows[-1]["id"]} if more else {"at": SUMS_OF_ALL, "id": ""}
    connection.execute(sa.update(STATE).where(STATE.c.name == "summed").values(**now))
    return more


_OLDER = SERIES.c.id >= 0
"""Series in which a process of a version before 0.16 has written."""


def adopt_older(connection: sa.Connection) -> None:
    """Move what a process of a version before 0.16 has summed up into the series of this version."""
    if connection.execute(sa.select(SERIES.c.id).where(_OLDER).limit(1)).first() is None:
        return
    lock_tables(connection)
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        connection.execute(sa.text(f"LOCK TABLE {SERIES.name} IN EXCLUSIVE MODE"))  # nobody is in the middle
    older, sums = connection.execute(sa.select(SERIES).where(_OLDER)).mappings().all(), Sums()
    moves = [
        {"old": row["id"], "new": new, "sign": sums.sign_of(new)}
        for row in older
        for new in sums._places_of(_dimensions_of(row))  # noqa: SLF001 - its own
    ]
    columns = (sa.Column(name, sa.BigInteger) for name in ("old", "new", "sign"))
    move = sa.Table("record_move", sa.MetaData(), *columns, prefixes=["TEMPORARY"])
    move.create(connection)
    connection.execute(move.insert(), moves)
    sums.write(connection)
    for table, measures in ((SUMS, MEASURES), (TALLY, ("n",))):
        others = [column for column in table.primary_key if column.name not in {"width", "series"}]
        groups = [(table.c.width * move.c.sign).label("width"), move.c.new.label("series"), *others]
        totals = [sa.func.sum(table.c[name]).label(name) for name in measures]
        moved = sa.select(*groups, *totals).join_from(table, move, move.c.old == table.c.series).group_by(*groups)
        upsert = insert_into(connection, table).from_select([*(one.name for one in groups), *measures], moved)
        connection.execute(_adding(upsert, table, measures))
        connection.execute(sa.delete(table).where(sa.or_(table.c.series >= 0, table.c[measures[0]] == 0)))
    connection.execute(sa.delete(SERIES).where(_OLDER))
    move.drop(connection)


def _dimensions_of(series: Stored) -> tuple[Any, ...]:
    return tuple(map(series.get, _DIMENSIONS))


# Verifying


def sum_faults(connection: sa.Connection) -> Iterator[str]:
    """Yield a line for each hour or day whose sums are not those of its outcomes, and for each changed series.

    Days in which a process of an older version, which keeps no sums, may have written are left out.
    """
    of_series, places = Sums(), dict[int, dict[int, int]]()
    for row in connection.execute(sa.select(SERIES)).mappings():
        own_id = of_series._series_of(_dimensions_of(row))  # noqa: SLF001 - its own
        if row["id"] not in {own_id, ~own_id}:
            yield f"a series of the sums was changed: {row['id']}"
        others = {own_id} if row["id"] < 0 else of_series._places_of(_dimensions_of(row))  # noqa: SLF001 - likewise
        places[row["id"]] = {one: 1 if row["id"] < 0 else of_series.sign_of(one) for one in others}
    times = (SUMS.c.start, TALLY.c.start, OUTCOME.c.at)
    days = (connection.execute(sa.select(time - time % DAY).distinct()).scalars() for time in times)
    late = sa.select(OUTCOME.c.at - OUTCOME.c.at % DAY).where(
        OUTCOME.c.chain.is_(None), OUTCOME.c.at >= _sealed_since(connection)
    )
    for day in sorted(set().union(*days) - set(connection.execute(late.distinct()).scalars())):
        total, cursor = Sums(), _summed_up_to(connection)
        query = sa.select(*_NEEDED).where(OUTCOME.c.at >= day, OUTCOME.c.at < day + DAY)
        for rows in connection.execute(query, execution_options={"yield_per": _SLICE}).mappings().partitions():
            for pair in _with_attempts(connection, [row for row in rows if _is_counted(row, cursor)]):
                total._add(*pair, 1)  # noqa: SLF001 - its own
        wrong, is_missing = set[tuple[int, int]](), False
        for table, rows_of in ((SUMS, total._sum_rows()), (TALLY, total._tally_rows())):  # noqa: SLF001 - likewise
            kept = connection.execute(sa.select(table).where(table.c.start >= day, table.c.start < day + DAY))
            entries = [tuple(entry) for entry in kept]
            is_missing |= any(row[_SERIES] not in places for row in entries)
            different = {tuple(row.values()) for row in rows_of} ^ _adopted(table, entries, places)
            widths = ((max(HOUR, abs(width)), start) for width, start, *_ in different)
            wrong |= {(width, start - start % width) for width, start in widths}
        if is_missing:
            yield f"a series of the sums of {_name_of(DAY, day)} is missing"
        yield from (f"the sums of {_name_of(*one)} are not those of its outcomes" for one in sorted(wrong))


def _adopted(
    table: sa.Table, rows: Iterable[tuple[Any, ...]], places: Mapping[int, Mapping[int, int]]
) -> set[tuple[Any, ...]]:
    """Return rows of sums as they are once those of an older version are moved; see `adopt_older`."""
    end, total, moved = len(table.primary_key), dict[tuple[Any, ...], tuple[Any, ...]](), set[tuple[Any, ...]]()
    for row in rows:
        width, start, own, *others = row[:end]
        for series, sign in places.get(own, {own: 1}).items():
            place, values = (width * sign, start, series, *others), row[end:]
            before = total.get(place)
            total[place] = values if before is None else tuple(map(add, before, values))
            if series != own:
                moved.add(place)
    return {(*place, *values) for place, values in total.items() if values[0] or place not in moved}


def _name_of(width: int, start: int) -> str:
    """Return the name of an hour or a day."""
    return f"{datetime.fromtimestamp(start / 1_000, UTC):{'%Y-%m-%d' if width == DAY else '%Y-%m-%d %H:00 UTC'}}"


# Reading


def can_sum(where: OutcomeFilter) -> bool:
    """Check whether the sums know all that a filter asks for."""
    wanted = {name for name, value in where if value is not None}
    return wanted <= {*_FILTERS, "since", "until", "labelled"} and where.labelled in {None, "no"}


def _spans(since: int, until: int, widths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield width, begin and end of the parts of a time, whole buckets as wide as can be; 0 is a part of one."""
    for index, width in enumerate(widths):
        first, last = -(-since // width) * width, until // width * width
        if first < last:
            yield from _spans(since, first, widths[index + 1 :])
            yield width, first, last
            yield from _spans(last, until, widths[index + 1 :])
            return
    if since < until:
        yield 0, since, until


def _within(
    table: sa.Table, where: OutcomeFilter, widths: Sequence[int], by: str | None
) -> sa.ColumnElement[bool]:
    """Return the time of a filter as a condition: on rows of all keys, of one, or of both, to tell keys apart."""
    signs = (1,) if where.key is not None else (1, -1) if by == "key" else (-1,)
    since, until = where.since or 0, _LAST if where.until is None else where.until
    spans = [
        sa.and_(table.c.width == sign * width, table.c.start >= first, table.c.start < last)
        for width, first, last in _spans(since, until, widths)
        if width
        for sign in signs
    ]
    return sa.or_(*spans) if spans else table.c.width == 0


def _of_filter(where: OutcomeFilter) -> sa.ColumnElement[bool]:
    """Return a filter as a condition on the series."""
    named = (SERIES.c[name] == value for name, value in where if name in _FILTERS and value is not None)
    return sa.and_(sa.true() if where.labelled is None else SERIES.c.attempts > 0, *named)


def _is_of_filter(series: Mapping[str, Any], where: OutcomeFilter, by: str | None) -> bool:
    """Check whether `_within` is about the rows of a series whose outcomes a filter chose."""
    return bool(series["key"] == where.key or (where.key is None and by == "key"))


def read_edges(connection: sa.Connection, where: OutcomeFilter, conditions: Any) -> Sums:
    """Return what the sums of whole minutes lack: the parts of minutes at the ends of a time.

    Where those without a label are wanted, the labelled ones are taken away from the sums of all.

    Args:
        connection: The database.
        where: Which outcomes; see `can_sum`.
        conditions: Returns a filter as a condition on the outcomes themselves.
    """
    since, until = where.since or 0, _LAST if where.until is None else where.until
    total = Sums()
    for width, first, last in _spans(since, until, _WIDTHS):
        if width and where.labelled is None:
            continue
        inside = where.model_copy(
            update={"since": first, "until": last, "labelled": "yes" if width else where.labelled}
        )
        rows = connection.execute(sa.select(*_NEEDED).where(conditions(inside))).mappings().all()
        for pair in _with_attempts(connection, rows):
            total._add(*pair, -1 if width else 1)  # noqa: SLF001 - its own
    return total


def summed(
    connection: sa.Connection, where: OutcomeFilter, width: int, edges: Sums, *, by: str = "passed"
) -> list[dict[str, Any]]:
    """Return the sums of a filter's outcomes: a row for each bucket of time, and how they ended.

    Args:
        connection: The database.
        where: Which outcomes; see `can_sum`.
        width: Width of a bucket, at least a minute.
        edges: What `read_edges` returns of the filter.
        by: What else tells rows apart.
    """
    widths = [one for one in _WIDTHS if width % one == 0]
    bucket = (SUMS.c.start - SUMS.c.start % width).label("bucket")
    dimensions = [SERIES.c[name] for name in dict.fromkeys((*_ENDS, by))]
    measures = [sa.func.sum(SUMS.c[name]).label(name) for name in MEASURES]
    query = sa.select(bucket, *dimensions, *measures).join_from(SUMS, SERIES, SERIES.c.id == SUMS.c.series)
    query = query.where(_within(SUMS, where, widths, by), _of_filter(where)).group_by(bucket, *dimensions)
    rows = [{name: plain(value) for name, value in row.items()} for row in connection.execute(query).mappings()]
    for (start, series), values in edges.sums.items():
        if _is_of_filter(edges.series[series], where, by):
            edge_sums = dict(zip(MEASURES, values, strict=True))
            rows.append({"bucket": start - start % width, **edges.series[series], **edge_sums})
    if by == "key" and where.key is None:  # what is left of all are those without a key
        rows += [{**row, by: None, **{name: -row[name] for name in MEASURES}} for row in rows if row[by]]
    return rows


def tallied(
    connection: sa.Connection, where: OutcomeFilter, by: str | None, edges: Sums
) -> dict[str, dict[str, Counter[int]]]:
    """Return how often each value was seen, by the value of a dimension and by judge; "" is for times.

    Rows are grouped by the rank of a dimension's value, a number, which takes a third of what grouping by names
    does, and little however many series there are. Without a dimension all stand under "", with the ratings.
    """
    tallies: dict[str, dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    wanted = _of_filter(where)
    if where.stop_reason is None:
        wanted = sa.and_(wanted, ~of_requests(SERIES.c.stop_reason))
    dimension = SERIES.c[by or "refiner"]
    rank = sa.literal(0) if by is None else sa.func.dense_rank().over(order_by=dimension)
    ranked = sa.select(SERIES.c.id, dimension.label("name"), rank.label("rank")).where(wanted).cte("ranked")
    names = (
        {}
        if by is None
        else {row.rank: row.name for row in connection.execute(sa.select(ranked.c.rank, ranked.c.name).distinct())}
    )
    source = TALLY if by is None else TALLY.join(ranked, ranked.c.id == TALLY.c.series)
    chosen = TALLY.c.series.in_(sa.select(ranked.c.id)) if by is None else sa.true()
    by_rank, ranks = (sa.literal(0), []) if by is None else (ranked.c.rank, [ranked.c.rank])
    of_times = (sa.literal(_LATENCY), ranks, TALLY.c.judge == _LATENCY)
    of_ratings = (TALLY.c.judge, [TALLY.c.judge], TALLY.c.judge != _LATENCY)
    for by_judge, groups, of_kind in (of_times, of_ratings) if by is None else (of_times,):
        query = sa.select(by_rank, by_judge, TALLY.c.value, sa.func.sum(TALLY.c.n)).select_from(source)
        query = query.where(_within(TALLY, where, _WIDTHS, by), of_kind, chosen).group_by(*groups, TALLY.c.value)
        for one, judge, value, count in connection.execute(query):
            tallies[names.get(one) or ""][judge][value] += int(count)
    for (_, series, judge, value), count in edges.tally.items():
        is_of_request = where.stop_reason is None and is_request(edges.series[series]["stop_reason"])
        if not is_of_request and _is_of_filter(edges.series[series], where, by):
            tallies[(by and edges.series[series][by]) or ""][judge][value] += count
    if by == "key" and where.key is None:
        for judges in [judges for name, judges in tallies.items() if name]:
            for judge, counts in judges.items():
                tallies[""][judge].subtract(counts)
    return tallies


# Budgets

_SHARES = 100
"""A process takes what is left of a budget in so many parts."""


def begin_budgets(connection: sa.Connection, day: int) -> None:
    """Count what keys consumed in a day, which begins at `day`, before processes shared their budgets."""
    lock_tables(connection)
    connection.execute(sa.delete(BUDGET).where(BUDGET.c.day < day - DAY))
    measures = [sa.func.sum(SUMS.c[name]) for name in ("outcomes", "input_tokens", "output_tokens", "cost")]
    query = sa.select(SERIES.c.key, *measures).join_from(SUMS, SERIES, SERIES.c.id == SUMS.c.series)
    shared = sa.select(BUDGET.c.key).where(BUDGET.c.day == day)
    let_in = sa.and_(SERIES.c.key.is_not(None), SERIES.c.key.not_in(shared), SERIES.c.stop_reason != "error_429")
    rows = connection.execute(query.where(SUMS.c.width == DAY, SUMS.c.start == day, let_in).group_by(SERIES.c.key))
    taken = [
        {"day": day, "key": key, "what": what, "process": "", "taken": int(number)}
        for key, many, read, written, cost in rows
        for what, number in (("requests", many), ("tokens", read + written), ("dollars", cost))
    ]
    if taken:
        connection.execute(BUDGET.insert(), taken)


def share_budgets(
    connection: sa.Connection, day: int, process: str, asked: Mapping[tuple[str, str], tuple[int, int, int]]
) -> dict[tuple[str, str], tuple[int, int]]:
    """Take shares of budgets; see `DatabaseRecord.share_budgets`."""
    lock_tables(connection)
    keys = {key for key, _ in asked}
    query = sa.select(BUDGET.c.key, BUDGET.c.what, sa.func.sum(BUDGET.c.taken))
    query = query.where(BUDGET.c.day == day, BUDGET.c.process != process, BUDGET.c.key.in_(keys))
    rows = connection.execute(query.group_by(BUDGET.c.key, BUDGET.c.what))
    others = {(key, what): int(taken) for key, what, taken in rows}
    shares = {}
    for place, (limit, spent, least) in asked.items():
        left = max(0, limit - spent - others.get(place, 0))
        shares[place] = max(least, spent - -left // _SHARES), others.get(place, 0)
    upsert = insert_into(connection, BUDGET)
    upsert = upsert.on_conflict_do_update(
        index_elements=list(BUDGET.primary_key), set_={"taken": upsert.excluded.taken}
    )
    names = ("day", "key", "what", "process", "taken")
    taken = [dict(zip(names, (day, *place, process, share), strict=True)) for place, (share, _) in shares.items()]
    connection.execute(upsert, taken)
    return shares


def plain(value: Any) -> Any:
    """Return a sum as a whole number: of PostgreSQL it is a decimal."""
    return value if value is None or isinstance(value, str | bool | int) else round(value)


def percentile(tally: Mapping[int, int], share: float) -> float | None:
    """Return the time within which a share of the answers came, to 1.5 %."""
    wanted, answers_so_far = math.ceil(share * sum(tally.values())), 0
    for bucket in sorted(tally):
        answers_so_far += tally[bucket]
        if answers_so_far >= max(1, wanted):
            return _seconds_of(bucket)
    return None
