"""Figures of the outcomes that a filter chooses: sums, ratings by judge, a series over time."""

from __future__ import annotations

from collections import defaultdict
from math import ceil
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, select

from refine.record.filters import OutcomeFilter
from refine.record.queries import conditions
from refine.record.rows import Row, now_ms
from refine.record.schema import ATTEMPT, OUTCOME

_SECOND = 1_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3_600 * _SECOND, 86_400 * _SECOND
_WIDTHS = (
    *(count * _SECOND for count in (1, 5, 10, 30)),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14, 30)),
)
"""Widths of a bucket that people can read off an axis, in milliseconds."""

_SHORTEST_AXIS = 5 * _MINUTE

_ATTEMPTS_OF_OUTCOMES = ATTEMPT.join(OUTCOME, OUTCOME.c.id == ATTEMPT.c.outcome)


def figures(connection: Connection, where: OutcomeFilter, *, buckets: int) -> Row:
    """Return what the chosen outcomes come to; see `DatabaseRecord.figures`."""
    chosen = conditions(where)
    return {
        **_sums(connection, chosen),
        **_latency(connection, chosen),
        "stop_reasons": _counts(connection, chosen, OUTCOME.c.stop_reason),
        "passed_at": _counts(connection, chosen & OUTCOME.c.passed, OUTCOME.c.attempts),
        "ratings": _ratings(connection, chosen),
        "series": _series(connection, chosen, where, buckets),
    }


def _sums(connection: Connection, chosen: ColumnElement[bool]) -> Row:
    query = select(
        func.count().label("outcomes"),
        func.count(case((OUTCOME.c.passed, 1))).label("passed"),
        func.avg(OUTCOME.c.attempts * 1.0).label("mean_attempts"),
        func.avg(OUTCOME.c.rating * 1.0).label("mean_rating"),
        func.sum(OUTCOME.c.calls).label("calls"),
        func.sum(OUTCOME.c.input_tokens).label("input_tokens"),
        func.sum(OUTCOME.c.output_tokens).label("output_tokens"),
        func.sum(OUTCOME.c.cost).label("cost"),
        func.count(case((OUTCOME.c.cost.is_(None), 1))).label("cost_unknown"),
    ).where(chosen)
    return {name: _plain(value) for name, value in connection.execute(query).mappings().one().items()}


def _latency(connection: Connection, chosen: ColumnElement[bool]) -> Row:
    """Return the median and the 95th percentile of the time from question to answer."""
    known = chosen & OUTCOME.c.latency_s.is_not(None)
    total = connection.execute(select(func.count()).where(known)).scalar_one()
    by_latency = select(OUTCOME.c.latency_s).where(known).order_by(OUTCOME.c.latency_s).limit(1)
    positions = {"latency_p50": 0.5, "latency_p95": 0.95}
    return {
        name: connection.execute(by_latency.offset(max(0, ceil(share * total) - 1))).scalar() if total else None
        for name, share in positions.items()
    }


def _counts(connection: Connection, chosen: ColumnElement[bool], column: ColumnElement[Any]) -> dict[str, int]:
    counted = select(column, func.count()).where(chosen).group_by(column).order_by(column)
    return {str(value): count for value, count in connection.execute(counted)}


def _ratings(connection: Connection, chosen: ColumnElement[bool]) -> dict[str, dict[str, int]]:
    """Return how often each judge gave each rating; `unscored` where it gave none."""
    counted = (
        select(ATTEMPT.c.judge, ATTEMPT.c.rating, func.count())
        .select_from(_ATTEMPTS_OF_OUTCOMES)
        .where(chosen, ATTEMPT.c.judge.is_not(None))
        .group_by(ATTEMPT.c.judge, ATTEMPT.c.rating)
    )
    ratings: dict[str, dict[str, int]] = defaultdict(dict)
    for judge, rating, count in connection.execute(counted):
        ratings[judge]["unscored" if rating is None else str(rating)] = count
    return dict(ratings)


def _series(connection: Connection, chosen: ColumnElement[bool], where: OutcomeFilter, buckets: int) -> Row:
    """Return, by bucket of time, outcomes passed at each attempt or not at all, and where time and money went."""
    first, last = connection.execute(select(func.min(OUTCOME.c.at), func.max(OUTCOME.c.at)).where(chosen)).one()
    if first is None:
        return {"width": None, "buckets": []}
    end = max(last, now_ms() if where.until is None else where.until)
    start = _start(connection, where, end)
    width = next((width for width in _WIDTHS if (end - start) / width <= buckets), _WIDTHS[-1])
    bucket = (OUTCOME.c.at - OUTCOME.c.at % width).label("bucket")
    series: dict[int, Row] = {
        at: {"at": at, "outcomes": 0, "passed_at": {}}
        for at in range(start - start % width, end + 1, width)[-2 * buckets :]
    }
    passing = select(bucket, OUTCOME.c.passed, OUTCOME.c.attempts, func.count()).where(chosen)
    for at, passed, attempts, count in connection.execute(
        passing.group_by(bucket, OUTCOME.c.passed, OUTCOME.c.attempts)
    ):
        if (row := series.get(at)) is not None:
            row["outcomes"] += count
            if passed:
                row["passed_at"][str(attempts)] = count
    spending = {"generate_s": ATTEMPT.c.generate_s, "judge_s": ATTEMPT.c.judge_s}
    spending |= {"generate_cost": ATTEMPT.c.cost, "judge_cost": ATTEMPT.c.judge_cost}
    sums = [func.sum(column).label(name) for name, column in spending.items()]
    spent = select(bucket, *sums).select_from(_ATTEMPTS_OF_OUTCOMES).where(chosen).group_by(bucket)
    for at, *values in connection.execute(spent):
        if (row := series.get(at)) is not None:
            row.update(zip(spending, values, strict=True))
    return {"width": width, "buckets": list(series.values())}


def _start(connection: Connection, where: OutcomeFilter, end: int) -> int:
    """Return where the axis begins: with the window, or in a younger record with its first outcome.

    It does not depend on what else is filtered, so that charts of two filters can be compared.
    """
    since = where.since or 0
    first = connection.execute(select(func.min(OUTCOME.c.at)).where(OUTCOME.c.at >= since)).scalar()
    return max(since, min(end - _SHORTEST_AXIS, end if first is None else first))


def _plain(value: Any) -> Any:
    """Return a sum as a number: PostgreSQL sums whole numbers as decimals."""
    if value is None or isinstance(value, int | float):
        return value
    return int(value) if value == int(value) else float(value)
