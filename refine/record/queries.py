"""What is read from a record: a list, one outcome, figures, rows of a dataset."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa

from judges import ConfigurationError
from judges.certificate import IssuedCertificate
from judges.errors import shortened
from judges.promise import Audit
from refine.record import sums
from refine.record.rows import CALLER, iso_time, marked, metadata_of, name_of, now_ms, text_of
from refine.record.schema import (
    ATTEMPT,
    LABEL,
    MEASURES,
    OUTCOME,
    SERIES,
    STATE,
    OutcomeFilter,
    is_request,
    lock_tables,
    of_requests,
)
from refine.record.seals import Row

_LISTED = marked("listed", "outcome")
_ATTEMPT = ATTEMPT.alias("filtered_attempt")
_LABEL = LABEL.alias("filtered_label")
_OUTCOME = OUTCOME.alias("labelled_outcome")
_HAS_ATTEMPTS = OUTCOME.c.attempts > 0
_EXCERPT = 300
_MOST_LISTED = 1_000
_RECENT = 5_000
_DEFAULT_SUCCESS = 3
_FAR = 2


def _conditions(where: OutcomeFilter) -> sa.ColumnElement[bool]:
    """Return a filter as a condition on the table `outcome`."""
    names = ("id", "passed", "rating", "stop_reason", "refiner", "model", "judge", *CALLER)
    same = {name: getattr(where, name) for name in names}
    parts: list[sa.ColumnElement[bool]] = [sa.true()]
    parts += [OUTCOME.c[name] == value for name, value in same.items() if value is not None]
    if where.since is not None:
        parts.append(OUTCOME.c.at >= where.since)
    if where.until is not None:
        parts.append(OUTCOME.c.at < where.until)
    if where.text is not None:
        in_draft = sa.exists().where(
            _ATTEMPT.c.outcome == OUTCOME.c.id, _ATTEMPT.c.draft.icontains(where.text, autoescape=True)
        )
        parts.append(sa.or_(OUTCOME.c.question.icontains(where.text, autoescape=True), in_draft))
    if where.labelled is not None:
        parts.append(_has_label(where.labelled))
    return sa.and_(*parts)


def _has_label(which: str) -> sa.ColumnElement[bool]:
    """Return whether an outcome has a label, or one that differs; labels are few, and read first."""
    labelled = sa.select(_LABEL.c.outcome)
    if which != "disagree":
        return OUTCOME.c.id.in_(labelled) if which == "yes" else OUTCOME.c.id.not_in(labelled) & _HAS_ATTEMPTS
    success = sa.func.coalesce(_OUTCOME.c.success_rating, _DEFAULT_SUCCESS)
    by_score = (_OUTCOME.c.success_score.is_not(None), _ATTEMPT.c.score >= _OUTCOME.c.success_score)
    by_rating = (_ATTEMPT.c.rating >= success) & sa.or_(_ATTEMPT.c.rated_natively, _ATTEMPT.c.passed.is_not(False))
    is_shadow = _ATTEMPT.c.number > _OUTCOME.c.attempts  # of which the loop did not decide
    passed = sa.case(
        (_ATTEMPT.c.rating.is_(None) & _ATTEMPT.c.score.is_(None), None),
        (is_shadow, sa.case(by_score, else_=by_rating)),
        else_=_OUTCOME.c.passed & _ATTEMPT.c.released,
    )
    differ = sa.or_(
        sa.func.abs(_LABEL.c.rating - _ATTEMPT.c.rating) >= _FAR,
        (_LABEL.c.rating >= success) != passed,
        _LABEL.c.up != passed,
    )
    same_attempt = sa.and_(_ATTEMPT.c.outcome == _LABEL.c.outcome, _ATTEMPT.c.number == _LABEL.c.number)
    labelled = labelled.join(_ATTEMPT, same_attempt).join(_OUTCOME, _OUTCOME.c.id == _LABEL.c.outcome)
    return OUTCOME.c.id.in_(labelled.where(differ))


_NEWEST = 5_000
"""Outcomes that are looked at one by one, where no sums answer."""
_MOST_SUBTRACTED = 2_000
"""Labels of which the outcomes are taken away from the sums of all, where those without are wanted."""


def _chosen(connection: sa.Connection, where: OutcomeFilter) -> sa.ColumnElement[bool]:
    """Return a filter as a condition for several queries: labels that differ, dear to find, are found once."""
    condition = _conditions(where)
    if where.labelled != "disagree":
        return condition
    chosen_ids = sa.select(OUTCOME.c.id).where(condition).limit(_NEWEST + 1)
    identifiers = connection.execute(chosen_ids).scalars().all()
    return OUTCOME.c.id.in_(identifiers) if len(identifiers) <= _NEWEST else condition


_ORDERS = {
    "newest": OUTCOME.c.at.desc(),
    "slowest": OUTCOME.c.latency_s.desc().nulls_last(),
    "worst": OUTCOME.c.rating.asc().nulls_last(),
    "attempts": OUTCOME.c.attempts.desc(),
    "dearest": OUTCOME.c.cost.desc().nulls_last(),
}
ORDERS = tuple(_ORDERS)


def _parse(row: sa.RowMapping, *names: str) -> Row:
    return {**row, **{name: _data(row[name]) for name in names}}


def _data(text: str | None) -> Any:
    return None if text is None else json.loads(text)


_ATTEMPT_NAMES = tuple(column.name for column in ATTEMPT.columns)
_TEXTS = frozenset({"question", "conversation", "evidence", "answer", "draft", "steps"})


def _attempts(chosen: sa.ColumnElement[bool], *, texts: bool = True) -> sa.Select[Any]:
    attempt = (
        column.label(f"attempt_{column.name}") for column in ATTEMPT.c if texts or column.name not in _TEXTS
    )
    outcome = (column for column in OUTCOME.c if texts or column.name not in _TEXTS)
    joined = sa.select(*outcome, *attempt).join(ATTEMPT, ATTEMPT.c.outcome == OUTCOME.c.id).where(chosen)
    return joined.order_by(OUTCOME.c.at, OUTCOME.c.id, ATTEMPT.c.number)


def _labels(
    connection: sa.Connection, chosen: sa.ColumnElement[bool], *, times: bool = False
) -> dict[tuple[str, int], list[Row]]:
    """Return what people think of the attempts of the chosen outcomes, by outcome and number, oldest first."""
    labels = defaultdict(list)
    joined = sa.select(LABEL).join(OUTCOME, OUTCOME.c.id == LABEL.c.outcome).where(chosen)
    for label in connection.execute(joined.order_by(LABEL.c.at)).mappings():
        names = ("by", "rating", "up", "note", "split")
        opinion = {name: label[name] for name in names if label[name] is not None}
        labels[label["outcome"], label["number"]].append(
            opinion | ({"at": iso_time(label["at"])} if times else {})
        )
    return labels


def _any(connection: sa.Connection, chosen: sa.ColumnElement[bool]) -> bool:
    return connection.execute(sa.select(OUTCOME.c.id).where(chosen).limit(1)).first() is not None


def _dataset_row(row: sa.RowMapping, labels: list[Row]) -> Row:
    evidence = {**(_data(row["attempt_evidence"]) or {}), **(_data(row["evidence"]) or {})}
    metadata = {**evidence.get("metadata", {}), **_metadata(row), **({"labels": labels} if labels else {})}
    data = {
        **evidence,
        "user_input": _data(row["conversation"]) or row["question"],
        "response": row["attempt_draft"],
        "trajectory": _data(row["attempt_steps"]),
        "metadata": metadata,
    }
    return {name: value for name, value in data.items() if value is not None}


def _metadata(row: sa.RowMapping) -> Row:
    columns = dict(row)
    return metadata_of(columns, {name: columns.get(f"attempt_{name}") for name in _ATTEMPT_NAMES})


_SECOND = 1_000
_WIDTHS = (
    *(count * _SECOND for count in (1, 5, 10, 30)),
    *(count * sums.MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * sums.HOUR for count in (1, 2, 3, 6, 12)),
    *(count * sums.DAY for count in (1, 2, 7, 14, 30)),
)
"""Widths of a bucket that people can read off an axis, in milliseconds."""

_SHORTEST_AXIS = 5 * sums.MINUTE
_FAR_OFF = 2**53

_ATTEMPTS_OF_OUTCOMES = ATTEMPT.join(OUTCOME, OUTCOME.c.id == ATTEMPT.c.outcome)


_FEW = 5_000
"""Outcomes that are counted one by one, so that their percentiles are exact."""


def _are_many(connection: sa.Connection, where: OutcomeFilter) -> bool:
    """Check whether sums answer a filter, and sooner than its outcomes would be counted."""
    if not sums.can_sum(where) or not sums.is_summed(connection):
        return False
    window = _conditions(
        OutcomeFilter(since=where.since, until=where.until)
    )  # a rare key would be looked for long
    some = sa.select(OUTCOME.c.id).where(window).limit(_FEW + 1).subquery()
    return bool(connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one() > _FEW)


def _weighted(rows: list[Row], name: str) -> float | None:
    count = sum(row["outcomes"] for row in rows)
    return sum(row[name] * row["outcomes"] for row in rows) / count if count else None


def _counted(rows: list[Row], name: str) -> dict[str, int]:
    counts: Counter[Any] = Counter()
    for row in rows:
        counts[row[name]] += row["outcomes"]
    return {str(value): counts[value] for value in sorted(counts) if counts[value]}


def _buckets_of(rows: list[Row], starts: range, buckets: int) -> list[Row]:
    """Return, by bucket of time, outcomes passed at each attempt or not at all, and where time and money went."""
    if not rows:
        return []
    series: dict[int, Row] = {at: {"at": at, "outcomes": 0, "passed_at": {}} for at in starts[-2 * buckets :]}
    spending = {"generate_s": 1e6, "judge_s": 1e6, "generate_cost": 1e9, "judge_cost": 1e9}
    for row in rows:
        if (bucket := series.get(row["bucket"])) is None:
            continue
        bucket["outcomes"] += row["outcomes"]
        if row["passed"]:
            passed = bucket["passed_at"]
            passed[str(row["attempts"])] = passed.get(str(row["attempts"]), 0) + row["outcomes"]
        for name, scale in spending.items():
            bucket[name] = bucket.get(name, 0.0) + row[name] / scale
    return list(series.values())


_GROUPS = ("refiner", "model", "judge", "stop_reason", "key", "user", "session", "thread")
_UNJUDGED = frozenset({"judge_failed", "skipped"})
_MOST_GROUPS = 100


def _one_by_one(
    connection: sa.Connection, by: str, where: OutcomeFilter
) -> tuple[list[Row], dict[str, Counter[int]]]:
    """Return outcomes as rows of sums, and how long those of each group took."""
    names = dict.fromkeys((by, "passed", "stop_reason", "attempts", "latency_s", "cost"))
    query = sa.select(*(OUTCOME.c[name] for name in names)).where(_conditions(where))
    times: dict[str, Counter[int]] = defaultdict(Counter)
    rows = []
    for row in connection.execute(query).mappings():
        unknown = row["cost"] is None
        rows.append({**row, "outcomes": 1, "cost": round((row["cost"] or 0) * 1e9), "cost_unknown": int(unknown)})
        if row["latency_s"] is not None and not is_request(row["stop_reason"]):
            times[row[by] or ""][sums.bucket_of(row["latency_s"])] += 1
    return rows, times


def _group(name: str, every: list[Row], times: Mapping[int, int]) -> Row:
    rows = [row for row in every if not is_request(row["stop_reason"])]
    ends = _counted(every, "stop_reason")
    count = sum(row["outcomes"] for row in rows)
    unknown = sum(row["cost_unknown"] for row in rows)
    return {
        "name": name,
        "outcomes": count,
        "passed": sum(row["outcomes"] for row in rows if row["passed"]),
        "unjudged": sum(row["outcomes"] for row in rows if row["stop_reason"] in _UNJUDGED),
        "left": ends.get("left", 0) + ends.get("broken_off", 0),
        "errors": sum(many for end, many in ends.items() if end == "generator_failed" or end.startswith("error_")),
        "passed_through": ends.get("passed_through", 0),
        "mean_attempts": _weighted(rows, "attempts"),
        "latency_p50": sums.percentile(times, 0.5),
        "latency_p95": sums.percentile(times, 0.95),
        "cost": sum(row["cost"] for row in rows) / 1e9 if unknown < count else None,
    }


def _summed(connection: sa.Connection, chosen: sa.ColumnElement[bool], width: int) -> list[Row]:
    """Return what `sums.summed` does, counted one by one."""
    ends = (OUTCOME.c.passed, OUTCOME.c.stop_reason, OUTCOME.c.rating, OUTCOME.c.attempts)
    groups = ((OUTCOME.c.at - OUTCOME.c.at % width).label("bucket"), *ends)
    measures = (
        sa.func.count().label("outcomes"),
        *(sa.func.sum(OUTCOME.c[name]).label(name) for name in ("calls", "input_tokens", "output_tokens")),
        sa.func.sum(OUTCOME.c.cost * 1e9).label("cost"),
        sa.func.count(sa.case((OUTCOME.c.cost.is_(None), 1))).label("cost_unknown"),
    )
    spending = {
        "generate_s": ATTEMPT.c.generate_s * 1e6,
        "judge_s": ATTEMPT.c.judge_s * 1e6,
        "generate_cost": ATTEMPT.c.cost * 1e9,
        "judge_cost": ATTEMPT.c.judge_cost * 1e9,
    }
    spent = sa.select(*groups, *(sa.func.sum(column).label(name) for name, column in spending.items()))
    rows: dict[tuple[Any, ...], Row] = defaultdict(lambda: dict.fromkeys(MEASURES, 0))
    for query in (
        sa.select(*groups, *measures).where(chosen),
        spent.select_from(_ATTEMPTS_OF_OUTCOMES).where(chosen),
    ):
        for row in connection.execute(query.group_by(*groups)).mappings():
            key = tuple(row.values())[: len(groups)]
            rows[key] |= {
                name: sums.plain(value) for name, value in row.items() if value is not None or name not in MEASURES
            }
    return list(rows.values())


_PERCENTILES = {"latency_p50": 0.5, "latency_p95": 0.95}


def _latency(connection: sa.Connection, chosen: sa.ColumnElement[bool]) -> Row:
    """Return the median and the 95th percentile of the time from question to answer."""
    latency = OUTCOME.c.latency_s
    place, total = sa.func.row_number().over(order_by=latency), sa.func.count().over()
    ordered = sa.select(latency, place.label("place"), total.label("total"))
    placed = ordered.where(chosen, latency.is_not(None)).subquery()
    wanted = [(placed.c.total * round(100 * share) + 99) // 100 for share in _PERCENTILES.values()]
    percentile_times = sa.select(placed.c.latency_s).where(placed.c.place.in_(wanted)).order_by(placed.c.place)
    times = connection.execute(percentile_times).scalars().all()
    return (
        dict.fromkeys(_PERCENTILES) if not times else dict(zip(_PERCENTILES, [times[0], times[-1]], strict=True))
    )


def _ratings(connection: sa.Connection, chosen: sa.ColumnElement[bool]) -> dict[str, dict[int, int]]:
    """Return how often each judge gave each rating; 0 where it gave none."""
    rating = sa.func.coalesce(ATTEMPT.c.rating, 0)
    groups = (ATTEMPT.c.judge, rating)
    counted = sa.select(*groups, sa.func.count()).select_from(_ATTEMPTS_OF_OUTCOMES)
    ratings: dict[str, dict[int, int]] = defaultdict(dict)
    for judge, value, count in connection.execute(counted.where(chosen, ATTEMPT.c.judge != "").group_by(*groups)):
        ratings[judge][value] = count
    return ratings


def _axis(connection: sa.Connection, where: OutcomeFilter) -> tuple[int, int]:
    """Return where the axis begins and ends: with the window, or in a younger record with its first outcome.

    It does not depend on what else is filtered, so that charts of two filters can be compared.
    """
    since = where.since or 0
    last = connection.execute(
        sa.select(sa.func.max(OUTCOME.c.at)).where(OUTCOME.c.at < (where.until or _FAR_OFF))
    ).scalar()
    end = max(last or 0, now_ms() if where.until is None else where.until)
    first = connection.execute(sa.select(sa.func.min(OUTCOME.c.at)).where(OUTCOME.c.at >= since)).scalar()
    return max(since, min(end - _SHORTEST_AXIS, end if first is None else first)), end


_LONGEST_NOTE = 10_000
_SPLITS = frozenset({"tune", "certify", "report"})


@dataclass(frozen=True, kw_only=True)
class Label:
    """One person's opinion of one attempt; see `DatabaseRecord.label`."""

    outcome: str
    number: int
    by: str
    rating: int | None = None
    up: bool | None = None
    note: str | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        if self.rating is not None and (type(self.rating) is not int or self.rating not in {1, 2, 3, 4}):
            raise ConfigurationError(f"a label's rating is 1, 2, 3 or 4, not {shortened(self.rating)}")
        if self.up is not None and type(self.up) is not bool:
            raise ConfigurationError(f"a label's up is true or false, not {shortened(self.up)}")
        if self.split is not None and self.split not in _SPLITS:
            raise ConfigurationError(f"a label's split is tune, certify or report, not {shortened(self.split)}")
        if not self.by.strip():
            raise ConfigurationError(f"a label says by whom it is, not {shortened(self.by)}")

    @property
    def is_empty(self) -> bool:
        """True if it says nothing."""
        return self.rating is None and self.up is None and not (self.note or "").strip()


_USE = "label_use:"


class Queries:
    """What is asked of a record, and kept in it, over one connection.

    Args:
        connection: The connection.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection

    def newest(self, where: OutcomeFilter, *, by: str, most: int = _NEWEST) -> OutcomeFilter:
        """Return a filter without what is older than its newest outcomes; see `DatabaseRecord.newest`."""
        labels = sa.select(LABEL.c.outcome).limit(_MOST_SUBTRACTED + 1).subquery()
        are_labels_few = where.labelled is None or (
            self.connection.execute(sa.select(sa.func.count()).select_from(labels)).scalar_one()
            <= _MOST_SUBTRACTED
        )
        if sums.can_sum(where) and by in SERIES.c and are_labels_few:
            return where
        looked, order = where, OUTCOME.c.at.desc()
        if where.text is not None:  # each is searched, whether the words are in it or not
            looked = OutcomeFilter(**{name: getattr(where, name) for name in ("since", "until", *CALLER[1:])})
        elif where.labelled in {"yes", "disagree"}:
            order = (OUTCOME.c.at + 0).desc()  # labels are few: all outcomes by time would take seconds
        query = sa.select(OUTCOME.c.at).where(_conditions(looked)).order_by(order).offset(most).limit(1)
        last = self.connection.execute(query).scalar()
        return where if last is None else where.model_copy(update={"since": last + 1})

    def outcomes(
        self,
        where: OutcomeFilter,
        *,
        limit: int,
        before: tuple[int, str] | None,
        order: str,
        skip: int,
    ) -> list[Row]:
        """Return outcomes in an order, with an excerpt of the question and the number of labels."""
        labels = sa.select(sa.func.count()).where(LABEL.c.outcome == OUTCOME.c.id).scalar_subquery()
        excerpt = sa.func.substr(OUTCOME.c.question, 1, _EXCERPT)
        columns = [*(OUTCOME.c[name] for name in _LISTED), excerpt.label("question"), labels.label("labels")]
        query = sa.select(*columns).where(_conditions(where))
        if before is not None:
            query = query.where(sa.tuple_(OUTCOME.c.at, OUTCOME.c.id) < before)
        ordered = query.order_by(_ORDERS[order], OUTCOME.c.at.desc(), OUTCOME.c.id.desc())
        query = ordered.limit(min(max(limit, 1), _MOST_LISTED)).offset(skip)
        return [dict(row) for row in self.connection.execute(query).mappings()]

    def outcome(self, identifier: str) -> Row | None:
        """Return an outcome with its attempts and labels, JSON columns as data; None where there is none."""
        identifier = text_of(identifier)
        row = self.connection.execute(sa.select(OUTCOME).where(OUTCOME.c.id == identifier)).mappings().first()
        if row is None:
            return None
        attempts = sa.select(ATTEMPT).where(ATTEMPT.c.outcome == identifier).order_by(ATTEMPT.c.number)
        labels = sa.select(LABEL).where(LABEL.c.outcome == identifier).order_by(LABEL.c.number, LABEL.c.by)
        return {
            **_parse(row, "conversation", "evidence"),
            "attempts": [
                _parse(attempt, "steps", "evidence", "items", "probabilities")
                for attempt in self.connection.execute(attempts).mappings()
            ],
            "labels": [dict(label) for label in self.connection.execute(labels).mappings()],
        }

    def choices(self) -> dict[str, list[str]]:
        """Return the values that occur among recent outcomes, for a person to choose from."""
        names = ("refiner", "model", "judge", "stop_reason", "key")
        latest = (
            sa.select(*(OUTCOME.c[name] for name in names)).order_by(OUTCOME.c.at.desc()).limit(_RECENT).subquery()
        )
        return {
            name: sorted(
                value for value in self.connection.execute(sa.select(latest.c[name]).distinct()).scalars() if value
            )
            for name in names
        }

    def dataset_rows(self, where: OutcomeFilter) -> Iterator[Row]:
        """Yield every attempt as a row of a dataset, oldest first.

        Raises:
            ConfigurationError: If outcomes are chosen and none has texts.
        """
        chosen = _conditions(where)
        has_texts = sa.select(OUTCOME.c.id).where(chosen, OUTCOME.c.question.is_not(None)).limit(1)
        if self.connection.execute(has_texts).first() is None and _any(self.connection, chosen):
            raise ConfigurationError(
                "the outcomes were recorded without texts, so there is nothing to judge; record with texts=True"
            )
        labels = _labels(self.connection, chosen)
        ordered = _attempts(chosen & ATTEMPT.c.draft.is_not(None))
        for row in self.connection.execution_options(yield_per=100).execute(ordered).mappings():
            yield _dataset_row(row, labels.get((row["id"], row["attempt_number"]), []))

    def attempt_rows(self, where: OutcomeFilter, *, texts: bool = False) -> Iterator[Row]:
        """Yield what is known of every attempt, oldest outcome first, with labels, and on demand with texts."""
        chosen = _chosen(self.connection, where)
        labels = _labels(self.connection, chosen, times=True)
        query = _attempts(chosen, texts=texts)
        for row in self.connection.execution_options(yield_per=500).execute(query).mappings():
            attempt_labels = labels.get((row["id"], row["attempt_number"]), [])
            texts_of_row: Row = {}
            if texts:
                data = {
                    "user_input": _data(row["conversation"]) or row["question"],
                    "response": row["attempt_draft"],
                }
                texts_of_row = {name: value for name, value in data.items() if value is not None}
            yield {**_metadata(row), **({"labels": attempt_labels} if attempt_labels else {}), **texts_of_row}

    def figures(self, where: OutcomeFilter, *, buckets: int) -> Row:
        """Return what the chosen outcomes come to; see `DatabaseRecord.figures`. Of many, times are to 1.5 %."""
        are_many = _are_many(self.connection, where)
        start, end = _axis(self.connection, where)
        least = sums.MINUTE if are_many else _SECOND
        fitting = (width for width in _WIDTHS if width >= least and (end - start) / width <= buckets)
        width = next(fitting, _WIDTHS[-1])
        starts = range(start - start % width, end + 1, width)
        if are_many:
            edges = sums.read_edges(self.connection, where, _conditions)
            every = sums.summed(self.connection, where, width, edges)
            tally: Mapping[str, Mapping[int, int]] = sums.tallied(self.connection, where, None, edges)[""]
            latency = {name: sums.percentile(tally.get("", {}), share) for name, share in _PERCENTILES.items()}
        else:
            chosen = _chosen(self.connection, where)
            answers = chosen if where.stop_reason else chosen & ~of_requests(OUTCOME.c.stop_reason)
            every, tally = _summed(self.connection, chosen, width), _ratings(self.connection, answers)
            latency = _latency(self.connection, answers)
        rows = [row for row in every if where.stop_reason or not is_request(row["stop_reason"])]
        total = Counter[str]()
        for row in rows:
            total.update({name: row[name] for name in MEASURES})
        return {
            "requests": _counted([row for row in every if is_request(row["stop_reason"])], "stop_reason"),
            "outcomes": total["outcomes"],
            "passed": sum(row["outcomes"] for row in rows if row["passed"]),
            "mean_attempts": _weighted(rows, "attempts"),
            "mean_rating": _weighted([row for row in rows if row["rating"] is not None], "rating"),
            **{name: total[name] if rows else None for name in ("calls", "input_tokens", "output_tokens")},
            "cost": total["cost"] / 1e9 if total["outcomes"] > total["cost_unknown"] else None,
            "cost_unknown": total["cost_unknown"],
            **latency,
            "stop_reasons": _counted(rows, "stop_reason"),
            "passed_at": _counted([row for row in rows if row["passed"]], "attempts"),
            "ratings": {
                judge: {("unscored" if value == 0 else str(value)): counts[value] for value in sorted(counts)}
                for judge, counts in tally.items()
                if judge
            },
            "series": {"width": width if rows else None, "buckets": _buckets_of(rows, starts, buckets)},
        }

    def table(self, by: str, where: OutcomeFilter) -> list[Row]:
        """Return a row for each value of a column; see `DatabaseRecord.table`."""
        if by not in _GROUPS or by not in OUTCOME.c:
            groupings = ", ".join(name for name in _GROUPS if name in OUTCOME.c)
            raise ConfigurationError(f"a table is by one of {groupings}, not by {shortened(by)}")
        times: Mapping[str, Counter[int]]
        if by in SERIES.c and _are_many(self.connection, where):
            edges = sums.read_edges(self.connection, where, _conditions)
            rows = sums.summed(self.connection, where, _WIDTHS[-1], edges, by=by)
            tallies = sums.tallied(self.connection, where, by, edges)
            times = {name: judges.get("", Counter()) for name, judges in tallies.items()}
        else:
            rows, times = _one_by_one(self.connection, by, where)
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            groups[row[by] or ""].append(row)
        table = [
            _group(name, group_rows, times.get(name, Counter()))
            for name, group_rows in groups.items()
            if sum(row["outcomes"] for row in group_rows)
        ]
        return sorted(table, key=lambda row: (-row["outcomes"], row["name"]))[:_MOST_GROUPS]

    def audits(self, certificate: IssuedCertificate) -> list[Audit]:
        """Return the labelled answers that a certificate covers, by time of the first label; a tie is bad."""
        is_covered = OUTCOME.c.passed & (OUTCOME.c.certificate == certificate.id)
        joined = (
            sa.select(LABEL, ATTEMPT.c.rating.label("mark"), ATTEMPT.c.score)
            .join(OUTCOME, (OUTCOME.c.id == LABEL.c.outcome) & (OUTCOME.c.released == LABEL.c.number))
            .join(ATTEMPT, (ATTEMPT.c.outcome == LABEL.c.outcome) & (ATTEMPT.c.number == LABEL.c.number))
            .where(
                is_covered,
                LABEL.c.split.is_distinct_from("tune"),
                sa.or_(LABEL.c.rating.is_not(None), LABEL.c.up.is_not(None)),
            )
            .order_by(LABEL.c.at, LABEL.c.outcome, LABEL.c.by)
        )
        marks: dict[str, tuple[float | None, float | None]] = {}
        votes: dict[str, list[bool]] = defaultdict(list)
        for row in self.connection.execute(joined).mappings():
            marks[row["outcome"]] = row["mark"], row["score"]
            votes[row["outcome"]].append(row["up"] if row["rating"] is None else row["rating"] >= certificate.good)
        return [
            Audit.of(certificate, *marks[key], bad=2 * sum(opinions) <= len(opinions))
            for key, opinions in votes.items()
        ]

    def last_alarm(self, name: str) -> str | None:
        """Return to what the alarm of a promise moved the threshold; None where there was none."""
        row = self.connection.execute(sa.select(STATE.c.id).filter_by(name=name)).first()
        return None if row is None else str(row[0])

    def keep_alarm(self, name: str, moved_to: str) -> None:
        """Keep an alarm, which stays when its labels go; the last one counts."""
        self._keep(name, moved_to)

    def label_uses(self) -> list[str]:
        """Return what was kept of the use of labels, the oldest first."""
        recorded_uses = sa.select(STATE.c.id).where(STATE.c.name.startswith(_USE, autoescape=True))
        return list(self.connection.execute(recorded_uses.order_by(STATE.c.at, STATE.c.name)).scalars())

    def keep_label_use(self, line: str) -> None:
        """Keep that labels were used; it stays when the labels go."""
        self._keep(f"{_USE}{blake2b(line.encode(), digest_size=16).hexdigest()}", line)

    def _keep(self, name: str, text: str) -> None:
        """Keep a text under a name in the record's state, in place of an earlier one."""
        lock_tables(self.connection)
        self.connection.execute(sa.delete(STATE).filter_by(name=name))
        self.connection.execute(STATE.insert().values(name=name, at=now_ms(), id=text))

    def save(self, label: Label) -> None:
        """Save a label in place of an earlier one of the same person; an empty one only deletes that.

        Raises:
            ConfigurationError: If there is no such attempt.
        """
        key = {"outcome": text_of(label.outcome), "number": label.number}
        attempt = sa.select(ATTEMPT.c.number).filter_by(**key)
        if self.connection.execute(attempt).first() is None:
            raise ConfigurationError(f"there is no attempt {label.number} of outcome {shortened(label.outcome)}")
        by = name_of(label.by.strip())
        self.connection.execute(sa.delete(LABEL).filter_by(**key, by=by))
        if not label.is_empty:
            note = text_of(label.note, _LONGEST_NOTE) if label.note else None
            values = {**key, "by": by, "at": now_ms(), "rating": label.rating, "up": label.up, "note": note}
            values["split"] = label.split
            self.connection.execute(LABEL.insert().values(values))
