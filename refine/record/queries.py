"""What is read from a record: a list, one outcome, figures, rows of a dataset."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, exists, func, or_, select, true, tuple_

from judges import ConfigurationError
from refine.record.filters import OutcomeFilter
from refine.record.metadata import iso_time, metadata_of
from refine.record.rows import Row
from refine.record.schema import ATTEMPT, LABEL, OUTCOME

_LISTED = [
    "id",
    "at",
    "refiner",
    "request_id",
    "model",
    "judge",
    "passed",
    "stop_reason",
    "detail",
    "rating",
    "attempts",
    "released",
    "latency_s",
    "calls",
    "input_tokens",
    "output_tokens",
    "cost",
    "success_rating",
    "max_attempts",
]
_ATTEMPT, _LABEL = ATTEMPT.alias("filtered_attempt"), LABEL.alias("filtered_label")
_EXCERPT = 300
_MOST_LISTED = 1_000
_RECENT = 5_000
_DEFAULT_SUCCESS = 3
_FAR = 2


def conditions(where: OutcomeFilter) -> ColumnElement[bool]:
    """Return a filter as a condition on the table `outcome`."""
    names = ("id", "passed", "rating", "stop_reason", "refiner", "model", "judge")
    same = {name: getattr(where, name) for name in names}
    parts: list[ColumnElement[bool]] = [true()]
    parts += [OUTCOME.c[name] == value for name, value in same.items() if value is not None]
    if where.since is not None:
        parts.append(OUTCOME.c.at >= where.since)
    if where.until is not None:
        parts.append(OUTCOME.c.at < where.until)
    if where.text is not None:
        in_draft = exists().where(
            _ATTEMPT.c.outcome == OUTCOME.c.id, _ATTEMPT.c.draft.icontains(where.text, autoescape=True)
        )
        parts.append(or_(OUTCOME.c.question.icontains(where.text, autoescape=True), in_draft))
    if where.labelled is not None:
        parts.append(_labelled(where.labelled))
    return and_(*parts)


def _labelled(which: str) -> ColumnElement[bool]:
    labelled = exists().where(_LABEL.c.outcome == OUTCOME.c.id)
    if which != "disagree":
        return labelled if which == "yes" else ~labelled
    success = func.coalesce(OUTCOME.c.success_rating, _DEFAULT_SUCCESS)
    passed = _ATTEMPT.c.rating >= success
    differ = or_(
        func.abs(_LABEL.c.rating - _ATTEMPT.c.rating) >= _FAR,
        (_LABEL.c.rating >= success) != passed,
        _LABEL.c.up != passed,
    )
    same_attempt = and_(_ATTEMPT.c.outcome == _LABEL.c.outcome, _ATTEMPT.c.number == _LABEL.c.number)
    return exists().where(_LABEL.c.outcome == OUTCOME.c.id, same_attempt, differ)


def outcomes(
    connection: Connection, where: OutcomeFilter, *, limit: int, before: tuple[int, str] | None
) -> list[Row]:
    """Return the latest outcomes, with an excerpt of the question and the number of labels."""
    labels = select(func.count()).where(LABEL.c.outcome == OUTCOME.c.id).scalar_subquery()
    excerpt = func.substr(OUTCOME.c.question, 1, _EXCERPT)
    columns = [*(OUTCOME.c[name] for name in _LISTED), excerpt.label("question"), labels.label("labels")]
    query = select(*columns).where(conditions(where))
    if before is not None:
        query = query.where(tuple_(OUTCOME.c.at, OUTCOME.c.id) < before)
    query = query.order_by(OUTCOME.c.at.desc(), OUTCOME.c.id.desc()).limit(min(max(limit, 1), _MOST_LISTED))
    return [dict(row) for row in connection.execute(query).mappings()]


def outcome(connection: Connection, identifier: str) -> Row | None:
    """Return an outcome with its attempts and labels, JSON columns as data; None where there is none."""
    row = connection.execute(select(OUTCOME).where(OUTCOME.c.id == identifier)).mappings().first()
    if row is None:
        return None
    attempts = select(ATTEMPT).where(ATTEMPT.c.outcome == identifier).order_by(ATTEMPT.c.number)
    labels = select(LABEL).where(LABEL.c.outcome == identifier).order_by(LABEL.c.number, LABEL.c.by)
    return {
        **_parsed(row, "conversation", "evidence"),
        "attempts": [
            _parsed(attempt, "steps", "evidence", "items") for attempt in connection.execute(attempts).mappings()
        ],
        "labels": [dict(label) for label in connection.execute(labels).mappings()],
    }


def _parsed(row: RowMapping, *names: str) -> Row:
    return {**row, **{name: _data(row[name]) for name in names}}


def _data(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def choices(connection: Connection) -> dict[str, list[str]]:
    """Return the values that occur among recent outcomes, for a person to choose from."""
    names = ("refiner", "model", "judge", "stop_reason")
    latest = select(*(OUTCOME.c[name] for name in names)).order_by(OUTCOME.c.at.desc()).limit(_RECENT).subquery()
    return {
        name: sorted(value for value in connection.execute(select(latest.c[name]).distinct()).scalars() if value)
        for name in names
    }


def dataset_rows(connection: Connection, where: OutcomeFilter) -> Iterator[Row]:
    """Yield every attempt as a row of a dataset, oldest first.

    Raises:
        ConfigurationError: If outcomes are chosen and none has texts.
    """
    chosen = conditions(where)
    has_texts = select(OUTCOME.c.id).where(chosen, OUTCOME.c.question.is_not(None)).limit(1)
    if connection.execute(has_texts).first() is None and _any(connection, chosen):
        raise ConfigurationError(
            "the outcomes were recorded without texts, so there is nothing to judge; record with texts=True"
        )
    labels = _labels(connection, chosen)
    ordered = _attempts(chosen & ATTEMPT.c.draft.is_not(None))
    for row in connection.execution_options(yield_per=100).execute(ordered).mappings():
        yield _dataset_row(row, labels.get((row["id"], row["attempt_number"]), []))


def attempt_rows(connection: Connection, where: OutcomeFilter) -> Iterator[Row]:
    """Yield what is known of every attempt besides the texts, oldest outcome first, with its labels."""
    chosen = conditions(where)
    labels = _labels(connection, chosen, times=True)
    for row in connection.execution_options(yield_per=100).execute(_attempts(chosen)).mappings():
        own = labels.get((row["id"], row["attempt_number"]), [])
        yield {**_metadata(row), **({"labels": own} if own else {})}


def _attempts(chosen: ColumnElement[bool]) -> Select[Any]:
    attempt = (column.label(f"attempt_{column.name}") for column in ATTEMPT.c)
    joined = select(OUTCOME, *attempt).join(ATTEMPT, ATTEMPT.c.outcome == OUTCOME.c.id).where(chosen)
    return joined.order_by(OUTCOME.c.at, OUTCOME.c.id, ATTEMPT.c.number)


def _labels(
    connection: Connection, chosen: ColumnElement[bool], *, times: bool = False
) -> dict[tuple[str, int], list[Row]]:
    """Return what people think of the attempts of the chosen outcomes, by outcome and number, oldest first."""
    labels = defaultdict(list)
    joined = select(LABEL).join(OUTCOME, OUTCOME.c.id == LABEL.c.outcome).where(chosen)
    for label in connection.execute(joined.order_by(LABEL.c.at)).mappings():
        names = ("by", "rating", "up", "note", "split")
        opinion = {name: label[name] for name in names if label[name] is not None}
        labels[label["outcome"], label["number"]].append(
            opinion | ({"at": iso_time(label["at"])} if times else {})
        )
    return labels


def _any(connection: Connection, chosen: ColumnElement[bool]) -> bool:
    return connection.execute(select(OUTCOME.c.id).where(chosen).limit(1)).first() is not None


def _dataset_row(row: RowMapping, labels: list[Row]) -> Row:
    evidence = {**(_data(row["evidence"]) or {}), **(_data(row["attempt_evidence"]) or {})}
    metadata = {**evidence.get("metadata", {}), **_metadata(row), **({"labels": labels} if labels else {})}
    data = {
        **evidence,
        "user_input": _data(row["conversation"]) or row["question"],
        "response": row["attempt_draft"],
        "trajectory": _data(row["attempt_steps"]),
        "metadata": metadata,
    }
    return {name: value for name, value in data.items() if value is not None}


def _metadata(row: RowMapping) -> Row:
    return metadata_of(dict(row), {name: row[f"attempt_{name}"] for name in ATTEMPT.columns.keys()})  # noqa: SIM118 - not a dict
