"""Judged rows with labels: what a dataset, a run or a record says of each answer."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from judges.certificate import Subject
from judges.errors import BadSample, ConfigurationError, shortened
from judges.offline.dataset.label_columns import LABEL_NAMES
from judges.offline.dataset.reading import read_mappings
from judges.offline.results import Evaluation, Row
from judges.offline.run.loading import load_run
from judges.offline.trust.labels import Opinion, opinions_in
from judges.offline.trust.marks import Mark, mark_of, marks_in, number_in
from judges.sample import Sample, canonical_field

Source = str | os.PathLike[str] | Evaluation | Iterable[object]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRow:
    """One answer, with what a judge and people say of it.

    Args:
        index: Its place among the rows, from 0.
        key: Identifies question and answer.
        question_id: The question.
        marks: By judge.
        opinions: What people say.
        length: Characters of the answer.
        weight: Design weight.
        probability: With which it was drawn to be labelled, where that differs from row to row; else None.
        drawn: How many rows were drawn with it.
        attempt: Its number in a recorded loop, from 1; None where there was none.
        outcome_id: The loop.
        stop_reason: Why the loop ended, at its last attempt.
        metadata: Everything else that the row holds.
        sample: The texts.
    """

    index: int
    key: str
    question_id: str
    marks: Mapping[str, Mark]
    opinions: tuple[Opinion, ...] = ()
    length: int = 0
    weight: float = 1.0
    probability: float | None = None
    drawn: int | None = None
    attempt: int | None = None
    outcome_id: str | None = None
    stop_reason: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sample: Sample | None = field(default=None, repr=False)

    @property
    def subject(self) -> Subject:
        """The loop that made it, as far as the record says."""
        data = self.metadata.get("subject")
        if isinstance(data, Mapping):
            return Subject.model_validate(data)
        return Subject(
            judge=str(self.metadata.get("judge") or ""), judge_digest=str(self.metadata.get("judge_digest") or "")
        )


def read_judged(source: Source) -> list[JudgedRow]:
    """Return judged rows.

    Args:
        source: A file of rows (`.jsonl`, `.csv`), the folder of a run, an `Evaluation`, or samples or mappings.

    Raises:
        ConfigurationError: If there is none, or a row cannot be read.
    """
    return [row for row in _read(source) if row.metadata.get("chosen") is not False]


def _read(source: Source) -> Iterator[JudgedRow]:
    if isinstance(source, Evaluation):
        yield from map(_of_evaluation, source.kept_rows())
        return
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.is_dir():
            yield from _read(load_run(path))
            return
        yield from _read(_mappings(path))
        return
    if not isinstance(source, Iterable):
        raise ConfigurationError(f"rows are a file, the folder of a run, or samples, not {shortened(source)}")
    for index, row in enumerate(source):
        if isinstance(row, Row):
            yield _of_evaluation(row)
        elif isinstance(row, JudgedRow):
            yield replace(row, index=index)
        else:
            yield _of_sample(index, _sample(row, index))


def _mappings(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        yield from read_mappings(path)
    except BadSample as error:
        raise ConfigurationError(str(error)) from error


_OWN_LABEL = frozenset({"at", "by", "good", "note", "rating", "split", "up"})


def read_labels(source: Source) -> Iterator[JudgedRow]:
    """Yield labels as rows: those of `labels` in a row or, in a row with `by`, its own `rating` or `up`.

    Raises:
        ConfigurationError: If they cannot be read.
    """
    if isinstance(source, Evaluation) or (isinstance(source, str | os.PathLike) and Path(source).is_dir()):
        yield from _read(source)
        return
    rows = _mappings(Path(source)) if isinstance(source, str | os.PathLike) else source
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping) or not row.get("by") or not row.keys().isdisjoint(LABEL_NAMES):
            yield from _read([row])
            continue
        opinion = {name: value for name, value in row.items() if name in _OWN_LABEL}
        rest = {name: value for name, value in row.items() if name not in _OWN_LABEL}
        yield _of_sample(index, _sample({**rest, "labels": [opinion]}, index))


def _sample(row: object, index: int) -> Sample:
    """Return a row as a sample; one without texts has its outcome, or its question, in place of them."""
    if isinstance(row, Mapping) and not any(canonical_field(str(name)) not in {None, "metadata"} for name in row):
        names = ("outcome_id", "question_id")
        row = {**row, "user_input": next((str(row[name]) for name in names if row.get(name)), str(index))}
    try:
        return Sample.read(row)
    except BadSample as error:
        raise ConfigurationError(f"row {index}: {error}") from error


def _of_evaluation(row: Row) -> JudgedRow:
    sample = row.sample
    if sample is None:
        return JudgedRow(index=row.index, key=f"#{row.index}", question_id=f"#{row.index}", marks={})
    marks = {name: mark_of(verdict) for name, verdict in row.verdicts.items()}
    return replace(_of_sample(row.index, sample), marks=marks)


def _of_sample(index: int, sample: Sample) -> JudgedRow:
    data = sample.metadata
    question = _question(sample)
    attempt = data.get("attempt")
    place = f"row {index}: "
    split = data.get("split")
    labels = next((data[name] for name in LABEL_NAMES if data.get(name) is not None), None)
    return JudgedRow(
        index=index,
        key=key_of(question, f"#{attempt or index}" if sample.answer is None else sample.answer),
        question_id=str(data.get("question_id") or question),
        marks=marks_in(data, place),
        opinions=opinions_in(_parsed(labels), split=None if split is None else str(split), place=place),
        length=len(sample.answer or ""),
        weight=number_in(data.get("weight"), "weight", place) or 1.0,
        probability=_probability_in(data, place),
        drawn=None if data.get("drawn") is None else int(str(data["drawn"])),
        attempt=None if attempt is None else int(str(attempt)),
        outcome_id=None if data.get("outcome_id") is None else str(data["outcome_id"]),
        stop_reason=None if data.get("stop_reason") is None else str(data["stop_reason"]),
        metadata=data,
        sample=sample,
    )


def _probability_in(data: Mapping[str, Any], place: str) -> float | None:
    probability = number_in(data.get("probability"), "probability", place)
    if probability is not None and not 0 < probability <= 1:
        raise ConfigurationError(f"{place}probability is above 0 to 1, not {shortened(probability)}")
    return probability


def _parsed(labels: object) -> object:
    """Return the data in a cell of a CSV file that holds JSON."""
    if isinstance(labels, str) and labels[:1] in {"[", "{"}:
        try:
            return json.loads(labels)
        except ValueError:
            return labels
    return labels


def _question(sample: Sample) -> str:
    if isinstance(sample.user_input, str):
        return sample.user_input
    return json.dumps([[message.role, message.content] for message in sample.conversation], ensure_ascii=False)


def key_of(question: str, answer: str) -> str:
    """Return what identifies an answer to a question."""
    text = f"{question}\x1f{answer}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]


def judge_among(rows: Sequence[JudgedRow], judge: str | None) -> str:
    """Return the judge to look at.

    Raises:
        ConfigurationError: If there is none, or there are several and none is chosen, or not this one.
    """
    names = sorted({name for row in rows for name in row.marks})
    if judge is not None and judge in names:
        return judge
    if judge is not None:
        raise ConfigurationError(
            f"no row has a verdict of {judge!r}; there are those of {', '.join(names) or 'none'}"
        )
    if not names:
        raise ConfigurationError(
            "no row has a verdict: a row holds rating (1 to 4), score (0 to 1) or passed; judge the rows first, "
            "`refine evaluate ROWS --judge NAME --out RUN`, and give the folder RUN"
        )
    if len(names) > 1:
        raise ConfigurationError(
            f"the rows have verdicts of {', '.join(names)}; choose one with judge=... (--judge)"
        )
    return names[0]
