"""Sums by minute, hour and day, kept as outcomes are written, so that figures need not count a million rows.

A series is what a filter can tell apart: guard, model, judge, key, and how it ended. Dollars are kept in
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
from typing import Any

import sqlalchemy as sa

from refine.record.schema import (
    ATTEMPT,
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
_ENDS = ("passed", "stop_reason", "rating", "attempts")
_FILTERS = frozenset(_DIMENSIONS) - {"attempts"}
_MOST = 10**12
"""Largest share of one outcome in a sum, so that nonsense from a provider makes none overflow."""
_STEP = math.log(1.03)
_LATENCY = ""
"""Whose values are buckets of seconds, in place of a judge's name, whose values are ratings; 0 is none."""
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
        series = self._series_of(tuple(map(outcome.get, _DIMENSIONS)))
        place = (outcome["at"] - outcome["at"] % MINUTE, series)
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
        before = self.sums.get(place) or [0] * len(values)
        self.sums[place] = [old + sign * value for old, value in zip(before, values, strict=True)]
        if outcome.get("latency_s") is not None:
            self.tally[*place, _LATENCY, bucket_of(outcome["latency_s"])] += sign
        for attempt in attempts:
            if attempt.get("judge"):
                self.tally[*place, attempt["judge"], attempt.get("rating") or 0] += sign

    def _series_of(self, values: tuple[Any, ...]) -> int:
        """Return the id of the series with these dimensions; hashed once, since most outcomes share a few."""
        series_id = self._ids.get(values)
        if series_id is None:
            dimensions = dict(zip(_DIMENSIONS, values, strict=True))
            plain = json.dumps({**dimensions, "passed": bool(dimensions["passed"])}).encode()
            series_id = self._ids[values] = int.from_bytes(blake2b(plain, digest_size=8).digest()) >> 1
            self.series[series_id] = dimensions
        return series_id

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
            for width in _WIDTHS:
                place = (width, start - start % width, series)
                sums_before = wide.get(place)
                wide[place] = (
                    values if sums_before is None else [a + b for a, b in zip(sums_before, values, strict=True)]
                )
        names = ("width", "start", "series", *MEASURES)
        return [dict(zip(names, (*place, *wide[place]), strict=True)) for place in sorted(wide)]

    def _tally_rows(self) -> list[dict[str, Any]]:
        wide: Counter[tuple[int, int, int, str, int]] = Counter()
        for (start, series, judge, value), count in self.tally.items():
            for width in _WIDTHS:
                wide[width, start - start % width, series, judge, value] += count
        names = ("width", "start", "series", "judge", "value", "n")
        return [dict(zip(names, (*place, wide[place]), strict=True)) for place in sorted(wide)]


def _add_to(
    connection: sa.Connection, table: sa.Table, measures: Sequence[str], rows: list[dict[str, Any]]
) -> None:
    upsert = insert_into(connection, table)
    grown = {name: table.c[name] + upsert.excluded[name] for name in measures}
    if rows:
        connection.execute(upsert.on_conflict_do_update(index_elements=list(table.primary_key), set_=grown), rows)


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


# Verifying


def sum_faults(connection: sa.Connection) -> Iterator[str]:
    """Yield a line for each hour or day whose sums are not those of its outcomes, and for each changed series.

    Days in which a process of an older version, which keeps no sums, may have written are left out.
    """
    of_series = Sums()
    for row in connection.execute(sa.select(SERIES)).mappings():
        if of_series._series_of(tuple(map(row.get, _DIMENSIONS))) != row["id"]:  # noqa: SLF001 - its own
            yield f"a series of the sums was changed: {row['id']}"
    times = (SUMS.c.start, TALLY.c.start, OUTCOME.c.at)
    found = (connection.execute(sa.select(time - time % DAY).distinct()).scalars() for time in times)
    late = sa.select(OUTCOME.c.at - OUTCOME.c.at % DAY).where(
        OUTCOME.c.chain.is_(None), OUTCOME.c.at >= _sealed_since(connection)
    )
    for day in sorted(set().union(*found) - set(connection.execute(late.distinct()).scalars())):
        total, cursor = Sums(), _summed_up_to(connection)
        query = sa.select(*_NEEDED).where(OUTCOME.c.at >= day, OUTCOME.c.at < day + DAY)
        for rows in connection.execute(query, execution_options={"yield_per": _SLICE}).mappings().partitions():
            for pair in _with_attempts(connection, [row for row in rows if _is_counted(row, cursor)]):
                total._add(*pair, 1)  # noqa: SLF001 - its own
        if total.series.keys() - of_series.series.keys():
            yield f"a series of the sums of {_name_of(DAY, day)} is missing"
        wrong = set[tuple[int, int]]()
        for table, rows_of in ((SUMS, total._sum_rows()), (TALLY, total._tally_rows())):  # noqa: SLF001 - likewise
            kept = connection.execute(sa.select(table).where(table.c.start >= day, table.c.start < day + DAY))
            different = {tuple(row.values()) for row in rows_of} ^ set(map(tuple, kept))
            wrong |= {(max(HOUR, width), start - start % max(HOUR, width)) for width, start, *_ in different}
        yield from (f"the sums of {_name_of(*one)} are not those of its outcomes" for one in sorted(wrong))


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


def _within(table: sa.Table, where: OutcomeFilter, widths: Sequence[int]) -> sa.ColumnElement[bool]:
    since, until = where.since or 0, _LAST if where.until is None else where.until
    spans = [
        sa.and_(table.c.width == width, table.c.start >= first, table.c.start < last)
        for width, first, last in _spans(since, until, widths)
        if width
    ]
    return sa.or_(*spans) if spans else table.c.width == -1


def _of_filter(where: OutcomeFilter) -> sa.ColumnElement[bool]:
    """Return a filter as a condition on the series."""
    named = (SERIES.c[name] == value for name, value in where if name in _FILTERS and value is not None)
    return sa.and_(sa.true() if where.labelled is None else SERIES.c.attempts > 0, *named)


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
    query = query.where(_within(SUMS, where, widths), _of_filter(where)).group_by(bucket, *dimensions)
    rows = [{name: plain(value) for name, value in row.items()} for row in connection.execute(query).mappings()]
    for (start, series), values in edges.sums.items():
        edge_sums = dict(zip(MEASURES, values, strict=True))
        rows.append({"bucket": start - start % width, **edges.series[series], **edge_sums})
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
        query = query.where(_within(TALLY, where, _WIDTHS), of_kind, chosen).group_by(*groups, TALLY.c.value)
        for one, judge, value, count in connection.execute(query):
            tallies[names.get(one) or ""][judge][value] += int(count)
    for (_, series, judge, value), count in edges.tally.items():
        if where.stop_reason is None and is_request(edges.series[series]["stop_reason"]):
            continue
        tallies[(by and edges.series[series][by]) or ""][judge][value] += count
    return tallies


def spent_by_key(connection: sa.Connection, day: int) -> dict[str, tuple[int, int, float]]:
    """Return the requests that were let in, tokens and dollars of each key in a day, which begins at `day`."""
    measures = [sa.func.sum(SUMS.c[name]) for name in ("outcomes", "input_tokens", "output_tokens", "cost")]
    query = sa.select(SERIES.c.key, *measures).join_from(SUMS, SERIES, SERIES.c.id == SUMS.c.series)
    let_in = sa.and_(SERIES.c.key.is_not(None), SERIES.c.stop_reason != "error_429")
    rows = connection.execute(query.where(SUMS.c.width == DAY, SUMS.c.start == day, let_in).group_by(SERIES.c.key))
    return {key: (int(many), int(read + written), int(cost) / 1e9) for key, many, read, written, cost in rows}


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
